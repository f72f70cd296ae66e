"""Random draws: stories by popularity, clicks with a heavy tail, words by Zipf's law."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

ONCE, MOST = 2 / 3, 250
"""Share of users with a single click, and the largest number of clicks of a user."""
CHUNK = 2**21
"""Upper limit of numbers drawn at once."""


class Ragged(NamedTuple):
    """Sequences of unequal length, concatenated."""

    offsets: NDArray[np.int64]
    flat: NDArray[np.int32]

    def padded(self, first: NDArray[np.int64], sizes: NDArray[np.int64], width: int) -> NDArray[np.int32]:
        """A table with `sizes` values of each sequence, starting at `first`, then zeros; row 0 is padding."""
        slots = np.arange(width)
        real = slots < sizes[:, None]
        table = np.zeros((len(sizes) + 1, width), dtype=np.int32)
        table[1:][real] = self.flat[((self.offsets[:-1] + first)[:, None] + slots)[real]]
        return table


class Popularity:
    """Draws stories in proportion to 1/rank."""

    def __init__(self, news: int, rng: Generator) -> None:
        self._news, self._rng = news, rng
        self._row_of_rank = rng.permutation(np.arange(1, news + 1, dtype=np.int32))

    def distinct(self, sizes: NDArray[np.int64]) -> Ragged:
        """Sequences of the given sizes in random order, without repeated stories in a sequence."""
        assert sizes.max() <= self._news // 2
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        flat = np.zeros(offsets[-1], dtype=np.int32)
        order = np.argsort(sizes, kind="stable")
        for which in _chunks(order, sizes):
            slots = np.arange(sizes[which[-1]])
            real = slots < sizes[which, None]
            flat[(offsets[which, None] + slots)[real]] = self._row_of_rank[self._ranks(real)[real]]
        return Ragged(offsets, flat)

    def _ranks(self, real: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Distinct ranks in the real positions of each row; other positions are arbitrary."""
        drawn = np.where(real, self._draw(real.shape), -1 - np.arange(real.shape[1], dtype=np.int32))
        unsettled = np.arange(len(drawn))
        while len(unsettled):
            part = np.sort(drawn[unsettled], axis=1)
            twice = part[:, 1:] == part[:, :-1]
            part[:, 1:][twice] = self._draw(int(twice.sum()))
            drawn[unsettled] = part
            unsettled = unsettled[twice.any(axis=1)]
        # sorting by a random number in the upper bits shuffles each row; padding goes to the end
        shuffle = self._rng.integers(0, 2**30, drawn.shape, dtype=np.int64) << 32
        shuffle[drawn < 0] = 2**30 << 32
        return np.sort(shuffle | np.maximum(drawn, 0), axis=1) & 0xFFFF_FFFF

    def _draw(self, shape: int | tuple[int, ...]) -> NDArray[np.int32]:
        """P(rank) = log(1 + 1 / (rank + 1)) / log(news + 1), ranks from 0."""
        uniform = self._rng.random(shape, dtype=np.float32)
        return np.minimum(np.exp(uniform * np.log(self._news + 1)) - 1, self._news - 1).astype(np.int32)


def _chunks(order: NDArray[np.int64], sizes: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Slices of the order, in which sizes increase, that stay small when padded."""
    start = 0
    while start < len(order):
        stop = start + max(CHUNK // max(int(sizes[order[start]]), 1), 1)
        stop = start + max(CHUNK // max(int(sizes[order[min(stop, len(order)) - 1]]), 1), 1)
        yield order[start:stop]
        start = stop


def heavy_tail(users: int, mean: float, rng: Generator) -> NDArray[np.int64]:
    """Clicks of each user: one for two thirds of them, a power law with the given overall mean for the others."""
    values = np.arange(2, MOST + 1)
    wanted = (mean - ONCE) / (1 - ONCE)
    low, high = 0.0, 4.0
    for _ in range(50):
        power = (low + high) / 2
        probability = values**-power
        probability /= probability.sum()
        low, high = (power, high) if (probability * values).sum() > wanted else (low, power)
    bounds = np.cumsum([ONCE, *((1 - ONCE) * probability)])
    # stratified: one user in each of `users` equal parts of the distribution, so the mean holds for few users too
    uniform = rng.permutation((np.arange(users) + rng.random(users)) / users)
    return 1 + np.minimum(np.searchsorted(bounds, uniform, side="right"), MOST - 1)


def zipf(kinds: int, size: int, rng: Generator) -> NDArray[np.int64]:
    """Numbers below `kinds`, each drawn in proportion to 1 / (number + 1)."""
    bounds = np.cumsum(1 / np.arange(1, kinds + 1))
    return np.minimum(np.searchsorted(bounds, rng.random(size) * bounds[-1], side="right"), kinds - 1)


def around(
    mean: float, *, spread: float, size: int, rng: Generator, within: tuple[float, float] = (0.0, np.inf)
) -> NDArray[np.float64]:
    """Log-normal numbers clipped to `within`, rescaled until clipping no longer changes their mean."""
    values = rng.lognormal(0.0, spread, size)
    for _ in range(20):
        values = np.clip(values * (mean / values.mean()), *within)
    return values

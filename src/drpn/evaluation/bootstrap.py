"""95 % intervals by bootstrap over users: users are drawn with replacement, each with all their impressions.

Impressions of one user resemble each other, so drawing impressions one by one would make the interval too narrow.
With several seeds, seeds are drawn too: one fewer than there are, since as many would show too little of how far seeds
vary, of three seeds two thirds of the variance (Rao and Wu, JASA 1988). A few seeds still say little of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array

DRAWS = 1000
_TAILS = (0.025, 0.975)
_WEIGHTS_AT_ONCE = 1 << 21
Name = TypeVar("Name")


class Interval(NamedTuple):
    """A mean over impressions and its 95 % interval."""

    mean: float
    low: float
    high: float


class Comparison(NamedTuple):
    """How much higher the first model's mean is, on the same impressions."""

    difference: float
    low: float
    high: float
    not_higher: float
    """The share of draws in which the difference was 0 or less."""


def interval(values: Array, users: Array, rng: np.random.Generator, draws: int = DRAWS) -> Interval:
    """The mean of `values`, (impressions) or (seeds, impressions), and its interval; NaN values are left out."""
    return intervals({"": values}, users, rng, draws)[""]


def intervals(
    values: Mapping[str, Array], users: Array, rng: np.random.Generator, draws: int = DRAWS
) -> dict[str, Interval]:
    """The means and intervals of several metrics of the same impressions, from one set of draws."""
    stacked = np.stack(np.broadcast_arrays(*map(np.atleast_2d, values.values())))  # (metrics, seeds, impressions)
    found = _bootstrap(stacked, users, rng, draws)
    lows, highs = np.quantile(found.draws, _TAILS, axis=0)
    rows = zip(values, found.mean, lows, highs, strict=True)
    return {name: Interval(float(mean), float(low), float(high)) for name, mean, low, high in rows}


def paired(first: Array, second: Array, users: Array, rng: np.random.Generator, draws: int = DRAWS) -> Comparison:
    """Compare two models on the same impressions.

    Of (seeds, impressions), equal seeds are compared with each other; a model without seeds is compared with each.
    """
    return differences({"": (first, second)}, users, rng, draws)[""]


def differences(
    pairs: Mapping[Name, tuple[Array, Array]], users: Array, rng: np.random.Generator, draws: int = DRAWS
) -> dict[Name, Comparison]:
    """Several such comparisons, from one set of draws."""
    stacked = np.stack(
        np.broadcast_arrays(*(np.atleast_2d(first) - np.atleast_2d(second) for first, second in pairs.values()))
    )  # (pairs, seeds, impressions)
    found = _bootstrap(stacked, users, rng, draws)
    lows, highs = np.quantile(found.draws, _TAILS, axis=0)
    not_higher = (found.draws <= 0).mean(axis=0)
    rows = zip(pairs, found.mean, lows, highs, not_higher, strict=True)
    return {name: Comparison(*map(float, numbers)) for name, *numbers in rows}


@dataclass(frozen=True)
class _Found:
    mean: NDArray[np.float64]
    """(metrics)"""
    draws: NDArray[np.float64]
    """(draws, metrics)"""


def _bootstrap(values: Array, users: Array, rng: np.random.Generator, draws: int) -> _Found:
    """The means of `values` (metrics, seeds, impressions) as they are, and as drawn anew."""
    metrics, seeds, impressions = values.shape
    if users.shape != (impressions,):
        raise ValueError(f"there are {impressions} impressions, but users are {users.shape}; pass one user for each")
    sums, counts = _sums_by_user(values, users)
    if not len(counts):
        raise ValueError("no impression has both a click and a skip; there is nothing to draw from")
    columns = np.column_stack([sums.reshape(metrics * seeds, -1).T, counts])  # (users, metrics * seeds + 1)
    fewer = max(seeds - 1, 1)
    of_seed = _how_often_drawn(seeds, draws, rng, times=fewer) / fewer  # (draws, seeds)
    drawn = np.empty((draws, columns.shape[1]))
    step = max(1, _WEIGHTS_AT_ONCE // len(counts))
    for start in range(0, draws, step):
        stop = min(start + step, draws)
        drawn[start:stop] = _how_often_drawn(len(counts), stop - start, rng) @ columns
    means = drawn[:, :-1].reshape(draws, metrics, seeds) / drawn[:, -1, None, None]
    return _Found(mean=sums.sum(axis=2).mean(axis=1) / counts.sum(), draws=(means * of_seed[:, None, :]).sum(axis=2))


def _sums_by_user(values: Array, users: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(metrics, seeds, users) sums and (users) counts of impressions without a NaN, users who have any."""
    counted = ~np.isnan(values).any(axis=(0, 1))
    kept, row = np.unique(users[counted], return_inverse=True)
    sums = np.empty((*values.shape[:2], len(kept)))
    for place in np.ndindex(values.shape[:2]):
        sums[place] = np.bincount(row, values[place][counted], minlength=len(kept))
    return sums, np.bincount(row, minlength=len(kept)).astype(np.float64)


def _how_often_drawn(size: int, draws: int, rng: np.random.Generator, times: int | None = None) -> NDArray[np.float64]:
    """(draws, size): how often each of `size` came up in so many draws with replacement; by default in as many."""
    found = np.empty((draws, size))
    for row in found:
        row[:] = np.bincount(rng.integers(size, size=size if times is None else times), minlength=size)
    return found

"""95 % confidence intervals by bootstrap over users: users are drawn with replacement, with all their impressions.

Impressions of one user are not independent, so drawing single impressions would make the intervals too narrow. With
several seeds, seeds are drawn too. From n seeds, n - 1 are drawn: n draws would underestimate the variance between
seeds, with three seeds by a third (Rao and Wu, JASA 1988). With few seeds that variance is a rough estimate either way.
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
    """The mean of the first model minus that of the second, on the same impressions."""

    difference: float
    low: float
    high: float
    not_higher: float
    """Share of bootstrap draws in which the difference is 0 or less."""


def interval(values: Array, users: Array, rng: np.random.Generator, draws: int = DRAWS) -> Interval:
    """Return the mean of `values`, (impressions) or (seeds, impressions), and its interval; NaN values are left out."""
    return intervals({"": values}, users, rng, draws)[""]


def intervals(
    values: Mapping[str, Array], users: Array, rng: np.random.Generator, draws: int = DRAWS
) -> dict[str, Interval]:
    """Return means and intervals of several metrics of the same impressions, from one set of draws."""
    stacked = np.stack(np.broadcast_arrays(*map(np.atleast_2d, values.values())))  # (metrics, seeds, impressions)
    sample = _bootstrap(stacked, users, rng, draws)
    lows, highs = np.quantile(sample.draws, _TAILS, axis=0)
    rows = zip(values, sample.mean, lows, highs, strict=True)
    return {name: Interval(float(mean), float(low), float(high)) for name, mean, low, high in rows}


def paired(first: Array, second: Array, users: Array, rng: np.random.Generator, draws: int = DRAWS) -> Comparison:
    """Compare two models on the same impressions.

    Arrays of (seeds, impressions) are compared seed by seed; a model without seeds is compared with each seed.
    """
    return differences({"": (first, second)}, users, rng, draws)[""]


def differences(
    pairs: Mapping[Name, tuple[Array, Array]], users: Array, rng: np.random.Generator, draws: int = DRAWS
) -> dict[Name, Comparison]:
    """Compare several pairs of models as `paired` does, from one set of draws."""
    stacked = np.stack(
        np.broadcast_arrays(*(np.atleast_2d(first) - np.atleast_2d(second) for first, second in pairs.values()))
    )  # (pairs, seeds, impressions)
    sample = _bootstrap(stacked, users, rng, draws)
    lows, highs = np.quantile(sample.draws, _TAILS, axis=0)
    not_higher = (sample.draws <= 0).mean(axis=0)
    rows = zip(pairs, sample.mean, lows, highs, not_higher, strict=True)
    return {name: Comparison(*map(float, numbers)) for name, *numbers in rows}


@dataclass(frozen=True)
class _Sample:
    """Means over impressions: of the data, and of each bootstrap draw."""

    mean: NDArray[np.float64]
    """(metrics)"""
    draws: NDArray[np.float64]
    """(draws, metrics)"""


def _bootstrap(values: Array, users: Array, rng: np.random.Generator, draws: int) -> _Sample:
    """Bootstrap the means of `values` (metrics, seeds, impressions)."""
    metrics, seeds, impressions = values.shape
    if users.shape != (impressions,):
        raise ValueError(f"there are {impressions} impressions, but users are {users.shape}; pass one user for each")
    sums, counts = _sums_by_user(values, users)
    if not len(counts):
        raise ValueError("no impression has both a click and a skip; there is nothing to draw from")
    columns = np.column_stack([sums.reshape(metrics * seeds, -1).T, counts])  # (users, metrics * seeds + 1)
    drawn_seeds = max(seeds - 1, 1)
    seed_weights = _draw_counts(seeds, draws, rng, times=drawn_seeds) / drawn_seeds  # (draws, seeds)
    drawn = np.empty((draws, columns.shape[1]))
    step = max(1, _WEIGHTS_AT_ONCE // len(counts))
    for start in range(0, draws, step):
        stop = min(start + step, draws)
        drawn[start:stop] = _draw_counts(len(counts), stop - start, rng) @ columns
    means = drawn[:, :-1].reshape(draws, metrics, seeds) / drawn[:, -1, None, None]
    mean = sums.sum(axis=2).mean(axis=1) / counts.sum()
    return _Sample(mean=mean, draws=(means * seed_weights[:, None, :]).sum(axis=2))


def _sums_by_user(values: Array, users: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sums (metrics, seeds, users) and counts (users) over impressions without NaN, for users who have any."""
    counted = ~np.isnan(values).any(axis=(0, 1))
    counted_users, row = np.unique(users[counted], return_inverse=True)
    sums = np.empty((*values.shape[:2], len(counted_users)))
    for place in np.ndindex(values.shape[:2]):
        sums[place] = np.bincount(row, values[place][counted], minlength=len(counted_users))
    return sums, np.bincount(row, minlength=len(counted_users)).astype(np.float64)


def _draw_counts(size: int, draws: int, rng: np.random.Generator, times: int | None = None) -> NDArray[np.float64]:
    """Return (draws, size): how often each item is drawn in `times` draws with replacement; by default `size` draws."""
    counts = np.empty((draws, size))
    for row in counts:
        row[:] = np.bincount(rng.integers(size, size=size if times is None else times), minlength=size)
    return counts

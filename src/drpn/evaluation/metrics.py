"""AUC, MRR and nDCG of each impression, computed for many impressions at once.

`scores` and `clicked` lie flat, impression after impression; `offsets` says where each one begins, as in the dataset
folder. Tied scores share the mean of what their ranks would earn: of 1/rank in MRR, of the discount in nDCG (ranks
beyond k earn nothing), half a pair in AUC. A constant scorer so gets what a random order gets on average.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.errors import ScoreError

Floats = NDArray[np.float64]
METRICS = ("auc", "mrr", "ndcg@5", "ndcg@10")
_CANDIDATES_AT_ONCE = 1 << 18
_IMPRESSIONS_AT_ONCE = 1 << 16  # as many as a uint16 can number: numpy sorts those by radix


@dataclass(frozen=True)
class Metrics:
    """One value for each impression, NaN where nothing was clicked or nothing was skipped.

    With several seeds the arrays are (seeds, impressions).
    """

    auc: Floats
    mrr: Floats
    ndcg5: Floats
    ndcg10: Floats

    @classmethod
    def of_seeds(cls, seeds: Sequence["Metrics"]) -> "Metrics":
        """The metrics of several trainings on the same impressions, as one."""
        return cls(*(np.stack(arrays) for arrays in zip(*(one.by_name().values() for one in seeds), strict=True)))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """(impressions): those with a click and a skip."""
        return np.asarray(~np.isnan(np.atleast_2d(self.auc)).any(axis=0))

    def by_name(self) -> dict[str, Floats]:
        """The arrays under the names in METRICS."""
        return dict(zip(METRICS, (self.auc, self.mrr, self.ndcg5, self.ndcg10), strict=True))

    def mean(self) -> dict[str, float]:
        """The mean of each metric over the impressions that count, NaN where none does."""
        counted = self.counted
        if not counted.any():
            return dict.fromkeys(METRICS, float("nan"))
        return {name: float(values[..., counted].mean()) for name, values in self.by_name().items()}

    def __getitem__(self, impressions: Array) -> "Metrics":
        return Metrics(*(values[..., impressions] for values in self.by_name().values()))

    def __len__(self) -> int:
        """How many impressions."""
        return int(self.auc.shape[-1])


def measure(scores: Array, clicked: Array, offsets: Array) -> Metrics:
    """The four metrics of each impression."""
    check(scores, clicked, offsets)
    tables = _Tables.up_to(int(np.diff(offsets).max(initial=0)))
    result = Metrics(*np.full((4, len(offsets) - 1), np.nan))
    for rows in _chunks(offsets):
        own = _own_offsets(offsets, rows)
        flat = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
        part = _measure_chunk(scores[flat], clicked[flat], own, tables)
        for name, values in result.by_name().items():
            values[rows] = part.by_name()[name]
    return result


def ranks(scores: Array, offsets: Array) -> NDArray[np.int64]:
    """The rank of each candidate in its impression, 1 for the highest score; of tied ones the first comes first."""
    check(scores, scores, offsets)
    found = np.empty(len(scores), dtype=np.int64)
    for rows in _chunks(offsets):
        own = _own_offsets(offsets, rows)
        flat = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
        impression = _impression_of(own)
        order = _best_first(scores[flat], impression, stable=True)
        found[flat][order] = np.arange(len(order)) - own[impression] + 1
    return found


def check(scores: Array, clicked: Array, offsets: Array) -> None:
    """Refuse what is not one finite score and one label for each candidate of each impression."""
    if not np.issubdtype(scores.dtype, np.floating):
        raise ValueError(f"scores are {scores.dtype}; pass floating-point numbers")
    if not (offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and (np.diff(offsets) >= 0).all()):
        raise ValueError("offsets do not rise from 0; pass where each impression begins and where the last one ends")
    if not scores.shape == clicked.shape == (offsets[-1],):
        raise ValueError(
            f"offsets end at {offsets[-1]}, but scores are {scores.shape} and clicked {clicked.shape}; "
            "pass one of each for every candidate"
        )
    finite = np.isfinite(scores)
    if not finite.all():
        place = int(np.argmin(finite))
        row = int(np.searchsorted(offsets, place, side="right")) - 1
        raise ScoreError(
            f"the score of candidate {place - offsets[row]} of impression {row} (both from 0) is {scores[place]}; "
            "only finite scores can be ranked"
        )


@dataclass(frozen=True)
class _Tables:
    """What the first n ranks earn together, for n from 0."""

    reciprocal: Floats
    discount5: Floats
    discount10: Floats

    @classmethod
    def up_to(cls, size: int) -> "_Tables":
        rank = np.arange(1, size + 1)
        discount = 1 / np.log2(rank + 1)
        earned = (1 / rank, np.where(rank <= 5, discount, 0), np.where(rank <= 10, discount, 0))
        return cls(*(np.concatenate([[0.0], np.cumsum(each)]) for each in earned))


def _measure_chunk(scores: Array, clicked: Array, offsets: Array, tables: _Tables) -> Metrics:
    impression = _impression_of(offsets)
    order = _best_first(scores, impression)
    scores, clicked = scores[order], np.asarray(clicked, dtype=np.bool_)[order]

    # a tie: neighbours in the order with one score and one impression
    first = np.flatnonzero(np.concatenate([[True], (scores[1:] != scores[:-1]) | (impression[1:] != impression[:-1])]))
    end = np.append(first[1:], len(scores))
    clicks_before = np.concatenate([[0], np.cumsum(clicked)])
    with_click = clicks_before[end] > clicks_before[first]  # the others earn nothing
    first, end = first[with_click], end[with_click]
    of = impression[first]
    size = end - first
    clicks = clicks_before[end] - clicks_before[first]
    skips = size - clicks
    skips_below = (offsets[1:][of] - end) - (clicks_before[offsets[1:]][of] - clicks_before[end])

    def summed(values: Array) -> Floats:
        return np.bincount(of, values, minlength=len(offsets) - 1).astype(np.float64)

    def earned(table: Floats) -> Floats:
        start = offsets[of]  # the tie has the ranks from first - start + 1 to end - start
        return summed(clicks * (table[end - start] - table[first - start]) / size)

    total_clicks = np.diff(clicks_before[offsets])
    total_skips = np.diff(offsets) - total_clicks
    counted = (total_clicks > 0) & (total_skips > 0)
    total_clicks, total_skips = (np.where(counted, total, 1) for total in (total_clicks, total_skips))
    values = (
        summed(clicks * (2 * skips_below + skips)) / (2 * total_clicks * total_skips),  # whole numbers: exact
        earned(tables.reciprocal) / total_clicks,
        earned(tables.discount5) / tables.discount5[total_clicks],
        earned(tables.discount10) / tables.discount10[total_clicks],
    )
    return Metrics(*(np.where(counted, each, np.nan) for each in values))


def _best_first(scores: Array, impression: Array, *, stable: bool = False) -> NDArray[np.intp]:
    """The order by impression, then from the highest score to the lowest."""
    order = np.argsort(-scores, kind="stable" if stable else None)
    return order[np.argsort(impression[order], kind="stable")]


def _impression_of(offsets: Array) -> NDArray[np.uint16]:
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.uint16), np.diff(offsets))


def _own_offsets(offsets: Array, rows: slice) -> NDArray[np.int64]:
    own: NDArray[np.int64] = offsets[rows.start : rows.stop + 1] - offsets[rows.start]
    return own


def _chunks(offsets: Array) -> Iterator[slice]:
    """Stretches of whole impressions, none of them without candidates."""
    start, last = 0, len(offsets) - 1
    while start < last:
        stop = int(np.searchsorted(offsets, offsets[start] + _CANDIDATES_AT_ONCE, side="right")) - 1
        stop = min(max(stop, start + 1), start + _IMPRESSIONS_AT_ONCE, last)
        if offsets[stop] > offsets[start]:
            yield slice(start, stop)
        start = stop

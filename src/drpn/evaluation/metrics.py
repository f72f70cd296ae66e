"""AUC, MRR and nDCG of each impression, computed for many impressions at once.

`scores` and `clicked` lie flat, impression after impression; `offsets` says where each one begins, as in the dataset
folder. Tied scores share the mean of what their ranks would earn: of 1/rank in MRR, of the discount in nDCG (ranks
beyond k earn nothing), half a pair in AUC. A constant scorer so gets what a random order gets on average.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpn.dataset.arrays import Array
from drpn.errors import ScoreError

Floats = NDArray[np.float64]
METRICS = ("auc", "mrr", "ndcg@5", "ndcg@10")
_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 25}
"""Candidates sorted at once."""


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


def measure(scores: Array | Tensor, clicked: Array, offsets: Array) -> Metrics:
    """The four metrics of each impression, computed where the scores are: a tensor may be on a GPU."""
    flat = scores if isinstance(scores, Tensor) else torch.from_numpy(np.array(scores))
    check(flat, clicked, offsets)
    labels, starts = (torch.from_numpy(np.array(each)).to(flat.device) for each in (clicked, offsets))
    tables = _Tables.up_to(int(np.diff(offsets).max(initial=0)), flat.device)
    result = torch.full((len(METRICS), len(offsets) - 1), torch.nan, dtype=torch.float64, device=flat.device)
    for rows in _chunks(offsets, _AT_ONCE[flat.device.type]):
        some = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
        own = starts[rows.start : rows.stop + 1] - offsets[rows.start]
        result[:, rows] = _measure_chunk(flat[some], labels[some], own, tables)
    return Metrics(*result.cpu().numpy())


def ranks(scores: Array, offsets: Array) -> NDArray[np.int64]:
    """The rank of each candidate in its impression, 1 for the highest score; of tied ones the first comes first."""
    check(scores, scores, offsets)
    found = np.empty(len(scores), dtype=np.int64)
    for rows in _chunks(offsets, _AT_ONCE["cpu"]):
        own = offsets[rows.start : rows.stop + 1] - offsets[rows.start]
        flat = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
        impression = np.repeat(np.arange(len(own) - 1), np.diff(own))
        order = np.lexsort((np.arange(len(impression)), -scores[flat], impression))
        found[flat][order] = np.arange(len(order)) - own[impression] + 1
    return found


def check(scores: Array | Tensor, clicked: Array, offsets: Array) -> None:
    """Refuse what is not one finite score and one label for each candidate of each impression."""
    scores = scores if isinstance(scores, Tensor) else torch.from_numpy(np.array(scores))
    if not scores.is_floating_point():
        raise ValueError(f"scores are {str(scores.dtype).removeprefix('torch.')}; pass floating-point numbers")
    if not (offsets.ndim == 1 and len(offsets) and offsets[0] == 0 and (np.diff(offsets) >= 0).all()):
        raise ValueError("offsets do not rise from 0; pass where each impression begins and where the last one ends")
    if not tuple(scores.shape) == clicked.shape == (offsets[-1],):
        raise ValueError(
            f"offsets end at {offsets[-1]}, but scores are {tuple(scores.shape)} and clicked {clicked.shape}; "
            "pass one of each for every candidate"
        )
    finite = torch.isfinite(scores)
    if not finite.all():
        place = int(finite.int().argmin())
        row = int(np.searchsorted(offsets, place, side="right")) - 1
        raise ScoreError(
            f"the score of candidate {place - offsets[row]} of impression {row} (both from 0) is {scores[place]}; "
            "only finite scores can be ranked"
        )


@dataclass(frozen=True)
class _Tables:
    """What the first n ranks earn together, for n from 0."""

    reciprocal: Tensor
    discount5: Tensor
    discount10: Tensor

    @classmethod
    def up_to(cls, size: int, device: torch.device) -> "_Tables":
        rank = torch.arange(1, size + 1, dtype=torch.float64, device=device)
        discount = 1 / torch.log2(rank + 1)
        earned = (1 / rank, discount * (rank <= 5), discount * (rank <= 10))
        return cls(*(torch.cat([rank.new_zeros(1), each.cumsum(0)]) for each in earned))


def _measure_chunk(scores: Tensor, clicked: Tensor, offsets: Tensor, tables: _Tables) -> Tensor:
    sizes = offsets.diff()
    impression = torch.repeat_interleave(torch.arange(len(sizes), device=scores.device), sizes)
    order = torch.argsort(scores, descending=True)
    order = order[torch.argsort(impression[order], stable=True)]
    scores, clicked = scores[order], clicked[order]

    # a tie: neighbours in the order with one score and one impression
    new = torch.ones(len(scores) + 1, dtype=torch.bool, device=scores.device)
    new[1:-1] = (scores[1:] != scores[:-1]) | (impression[1:] != impression[:-1])
    bounds = new.nonzero().squeeze(1)
    first, end = bounds[:-1], bounds[1:]
    clicks_before = torch.cat([offsets.new_zeros(1), clicked.cumsum(0)])
    with_click = clicks_before[end] > clicks_before[first]  # the others earn nothing
    first, end = first[with_click], end[with_click]
    of = impression[first]
    size = end - first
    clicks = clicks_before[end] - clicks_before[first]
    skips = size - clicks
    skips_below = (offsets[1:][of] - end) - (clicks_before[offsets[1:]][of] - clicks_before[end])

    def summed(values: Tensor) -> Tensor:
        return torch.zeros(len(sizes), dtype=torch.float64, device=values.device).index_add_(0, of, values.double())

    def earned(table: Tensor) -> Tensor:
        start = offsets[of]  # the tie has the ranks from first - start + 1 to end - start
        return summed(clicks * (table[end - start] - table[first - start]) / size)

    total_clicks = clicks_before[offsets].diff()
    total_skips = sizes - total_clicks
    counted = (total_clicks > 0) & (total_skips > 0)
    total_clicks, total_skips = (torch.where(counted, total, 1) for total in (total_clicks, total_skips))
    values = torch.stack(
        [
            summed(clicks * (2 * skips_below + skips)) / (2 * total_clicks * total_skips),  # whole numbers: exact
            earned(tables.reciprocal) / total_clicks,
            earned(tables.discount5) / tables.discount5[total_clicks],
            earned(tables.discount10) / tables.discount10[total_clicks],
        ]
    )
    return torch.where(counted, values, torch.nan)


def _chunks(offsets: Array, candidates: int) -> Iterator[slice]:
    """Stretches of whole impressions of about so many candidates, none of them without any."""
    start, last = 0, len(offsets) - 1
    while start < last:
        stop = int(np.searchsorted(offsets, offsets[start] + candidates, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        if offsets[stop] > offsets[start]:
            yield slice(start, stop)
        start = stop

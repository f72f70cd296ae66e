"""AUC, MRR and nDCG of each impression, computed for many impressions at once.

`scores` and `clicked` are flat arrays, impression after impression; `offsets` holds where each impression begins, as in
the dataset folder. Tied candidates share the mean gain of their ranks: of 1/rank in MRR and of the discount in nDCG (0
beyond rank k). In AUC a tied pair counts half. A constant scorer therefore gets the expected metrics of a random order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpn.dataset.arrays import Array
from drpn.errors import ScoreError
from drpn.evaluation.values import Floats as Floats
from drpn.evaluation.values import ImpressionValues

METRICS = ("auc", "mrr", "ndcg@5", "ndcg@10")
_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 25}
"""Maximum number of candidates that are sorted at once."""


@dataclass(frozen=True)
class Metrics(ImpressionValues):
    """One value per impression; NaN for impressions without a click or without a skip.

    With several seeds the arrays are (seeds, impressions).
    """

    NAMES = METRICS

    auc: Floats
    mrr: Floats
    ndcg5: Floats
    ndcg10: Floats


def measure(scores: Array | Tensor, clicked: Array, offsets: Array) -> Metrics:
    """Compute the four metrics of each impression, on the device of the scores."""
    flat = scores if isinstance(scores, Tensor) else torch.from_numpy(np.array(scores))
    check(flat, clicked, offsets)
    labels, starts = (torch.from_numpy(np.array(array)).to(flat.device) for array in (clicked, offsets))
    gains = _CumulativeGains.up_to(int(np.diff(offsets).max(initial=0)), flat.device)
    result = torch.full((len(METRICS), len(offsets) - 1), torch.nan, dtype=torch.float64, device=flat.device)
    for rows in chunks(offsets, _AT_ONCE[flat.device.type]):
        chunk = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
        chunk_offsets = starts[rows.start : rows.stop + 1] - offsets[rows.start]
        result[:, rows] = _measure_chunk(flat[chunk], labels[chunk], chunk_offsets, gains)
    return Metrics(*result.cpu().numpy())


def ranks(scores: Array, offsets: Array) -> NDArray[np.int64]:
    """Return the rank of each candidate in its impression, 1 for the highest score; ties keep their order."""
    check(scores, scores, offsets)
    result = np.empty(len(scores), dtype=np.int64)
    for rows in chunks(offsets, _AT_ONCE["cpu"]):
        chunk_offsets = offsets[rows.start : rows.stop + 1] - offsets[rows.start]
        chunk = slice(int(offsets[rows.start]), int(offsets[rows.stop]))
        impression = np.repeat(np.arange(len(chunk_offsets) - 1), np.diff(chunk_offsets))
        order = np.lexsort((np.arange(len(impression)), -scores[chunk], impression))
        result[chunk][order] = np.arange(len(order)) - chunk_offsets[impression] + 1
    return result


def check(scores: Array | Tensor, clicked: Array, offsets: Array) -> None:
    """Raise an error unless every candidate has one finite score and one label."""
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
class _CumulativeGains:
    """Total gain of the first n ranks, for n = 0, 1, 2, …"""

    reciprocal: Tensor
    discount5: Tensor
    discount10: Tensor

    @classmethod
    def up_to(cls, size: int, device: torch.device) -> "_CumulativeGains":
        rank = torch.arange(1, size + 1, dtype=torch.float64, device=device)
        discount = 1 / torch.log2(rank + 1)
        gains = (1 / rank, discount * (rank <= 5), discount * (rank <= 10))
        return cls(*(torch.cat([rank.new_zeros(1), gain.cumsum(0)]) for gain in gains))


def _measure_chunk(scores: Tensor, clicked: Tensor, offsets: Tensor, gains: _CumulativeGains) -> Tensor:
    sizes = offsets.diff()
    impression = torch.repeat_interleave(torch.arange(len(sizes), device=scores.device), sizes)
    order = torch.argsort(scores, descending=True)
    order = order[torch.argsort(impression[order], stable=True)]
    scores, clicked = scores[order], clicked[order]

    # a tie: a run of candidates of one impression with equal scores, possibly a single candidate
    starts_tie = torch.ones(len(scores) + 1, dtype=torch.bool, device=scores.device)
    starts_tie[1:-1] = (scores[1:] != scores[:-1]) | (impression[1:] != impression[:-1])
    bounds = starts_tie.nonzero().squeeze(1)
    first, end = bounds[:-1], bounds[1:]
    clicks_before = torch.cat([offsets.new_zeros(1), clicked.cumsum(0)])
    with_click = clicks_before[end] > clicks_before[first]  # ties without a click gain nothing
    first, end = first[with_click], end[with_click]
    tie_impression = impression[first]
    size = end - first
    clicks = clicks_before[end] - clicks_before[first]
    skips = size - clicks
    skips_below = (offsets[1:][tie_impression] - end) - (
        clicks_before[offsets[1:]][tie_impression] - clicks_before[end]
    )

    def sum_by_impression(values: Tensor) -> Tensor:
        zeros = torch.zeros(len(sizes), dtype=torch.float64, device=values.device)
        return zeros.index_add_(0, tie_impression, values.double())

    def total_gain(cumulative: Tensor) -> Tensor:
        start = offsets[tie_impression]  # the tie has the ranks from first - start + 1 to end - start
        return sum_by_impression(clicks * (cumulative[end - start] - cumulative[first - start]) / size)

    total_clicks = clicks_before[offsets].diff()
    total_skips = sizes - total_clicks
    counted = (total_clicks > 0) & (total_skips > 0)
    total_clicks, total_skips = (torch.where(counted, total, 1) for total in (total_clicks, total_skips))
    values = torch.stack(
        [
            # AUC, in whole numbers up to the division: exact
            sum_by_impression(clicks * (2 * skips_below + skips)) / (2 * total_clicks * total_skips),
            total_gain(gains.reciprocal) / total_clicks,
            total_gain(gains.discount5) / gains.discount5[total_clicks],
            total_gain(gains.discount10) / gains.discount10[total_clicks],
        ]
    )
    return torch.where(counted, values, torch.nan)


def chunks(offsets: Array, candidates: int) -> Iterator[slice]:
    """Yield slices of whole impressions with at most `candidates` candidates (or one impression), and at least one."""
    start, last = 0, len(offsets) - 1
    while start < last:
        stop = int(np.searchsorted(offsets, offsets[start] + candidates, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        if offsets[stop] > offsets[start]:
            yield slice(start, stop)
        start = stop

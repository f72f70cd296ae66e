"""How diverse the first ten stories of each ranked impression are.

distance@10        mean distance of two of these stories, 1 - similarity (`dataset/contents.py`)
coverage@10        share of the categories among the candidates that these stories have; no category is one of them
concentration@10   share of these stories that belong to the ten stories the system puts there most often
novelty@10         mean of -log2((times shown + 1) / (times shown of all stories + stories)), counted before the
                   validation and test days: how little known these stories were

Impressions with fewer candidates are measured with all of them. As in the other metrics, tied candidates are in every
order with the same probability, and the values are expectations; impressions without a click or a skip are NaN.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from drpn.dataset.arrays import Array
from drpn.dataset.contents import ContentReader
from drpn.dataset.folder import Dataset, Impressions
from drpn.evaluation.metrics import check, chunks
from drpn.evaluation.values import Floats, ImpressionValues

DIVERSITY = ("distance@10", "coverage@10", "concentration@10", "novelty@10")
TOP = 10
MOST_SHOWN = 10
"""The number of stories whose share is the concentration."""
_AT_ONCE = {"cpu": 1 << 14, "cuda": 1 << 23}
"""Maximum number of candidates that are measured at once."""


@dataclass(frozen=True)
class Diversity(ImpressionValues):
    """One value per impression; NaN for impressions without a click or without a skip.

    With several seeds the arrays are (seeds, impressions).
    """

    NAMES = DIVERSITY

    distance: Floats
    coverage: Floats
    concentration: Floats
    novelty: Floats


class _Titles(NamedTuple):
    """The words of stories: of the story `row`, words[first[row]:first[row + 1]] with their weights."""

    first: Tensor
    words: Tensor
    weights: Tensor


class _Top(NamedTuple):
    """The candidates that can be among the first ten of their impression, and how likely they are."""

    impression: Tensor
    story: Tensor
    certain: Tensor
    """Whether the candidate is there for certain; the others are tied for the last places."""
    probability: Tensor


class _Places(NamedTuple):
    """The number of places of each impression, and how the last ones are filled."""

    places: Tensor
    """10, or the number of candidates if there are fewer."""
    tied: Tensor
    """Number of candidates tied for the last places."""
    left: Tensor
    """Number of places left to them."""


class DiversityMeter:
    """Measures rankings of the same impressions; what does not depend on scores is computed once."""

    def __init__(self, dataset: Dataset, impressions: Impressions, device: torch.device | None = None) -> None:
        self._device = device or torch.device("cpu")
        self._offsets = np.asarray(impressions.offsets)
        self._clicked = np.asarray(impressions.clicked)
        rows, story = np.unique(np.asarray(impressions.candidates), return_inverse=True)
        contents = ContentReader.of(dataset).rows(rows)
        self._parts = contents.parts
        self._story = self._tensor(story.reshape(-1))
        self._category = self._tensor(contents.category)
        self._labels = [self._tensor(getattr(contents, name)) for name in contents.labels]
        self._titles = self._shared_words(contents.words, contents.weights)
        shown = np.asarray(dataset.arrays.array("news/times_shown"), dtype=np.float64)[1:]
        share = (shown + 1) / max(shown.sum() + len(shown), 1)
        self._novelty = self._tensor(-np.log2(np.concatenate([[1.0], share])[rows]))
        clicks = np.diff(np.concatenate([[0], np.cumsum(self._clicked)])[self._offsets])
        self._counted = self._tensor((clicks > 0) & (clicks < np.diff(self._offsets)))
        self._categories = self._count_categories()

    def measure(self, scores: Array | Tensor) -> Diversity:
        """Return the diversity of each impression, ranked by the scores of its candidates."""
        flat = scores if isinstance(scores, Tensor) else torch.from_numpy(np.array(scores))
        check(flat, self._clicked, self._offsets)
        flat = flat.to(self._device)
        impressions = len(self._offsets) - 1
        distance, coverage, places = (
            torch.full((impressions,), fill, dtype=torch.float64, device=self._device) for fill in (0.0, 0.0, 1.0)
        )
        tops = []
        for rows in chunks(self._offsets, _AT_ONCE[self._device.type]):
            top, slots = self._top(flat, rows)
            distance[rows] = self._distance(top, slots)
            coverage[rows] = self._coverage(top, slots) / self._categories[rows]
            places[rows] = slots.places.clamp(min=1).double()
            tops.append(top._replace(impression=top.impression + rows.start))
        top = _Top(*map(torch.cat, zip(*tops, strict=True))) if tops else self._nothing()

        def mean_over_places(values: Tensor) -> Tensor:
            return _sum(values * top.probability, top.impression, impressions) / places

        counted = self._counted[top.impression]
        placed = _sum(top.probability * counted, top.story, len(self._category))
        most = placed.round(decimals=9).sort(descending=True, stable=True).indices[:MOST_SHOWN]
        is_most = torch.zeros_like(placed)
        is_most[most] = 1.0
        values = (distance, coverage, mean_over_places(is_most[top.story]), mean_over_places(self._novelty[top.story]))
        return Diversity(*(torch.where(self._counted, value, torch.nan).cpu().numpy() for value in values))

    def _top(self, scores: Tensor, rows: slice) -> tuple[_Top, _Places]:
        """Return the candidates of some impressions that can be among the first ten, with impressions from 0."""
        first, last = int(self._offsets[rows.start]), int(self._offsets[rows.stop])
        offsets = self._tensor(self._offsets[rows.start : rows.stop + 1] - first)
        scores, story, sizes = scores[first:last], self._story[first:last], offsets.diff()
        impression = torch.repeat_interleave(torch.arange(len(sizes), device=self._device), sizes)
        places = sizes.clamp(max=TOP)
        order = torch.argsort(scores, descending=True)
        order = order[torch.argsort(impression[order], stable=True)]
        # the score of the last place; impressions without candidates have none
        boundary = scores.new_zeros(len(sizes))
        filled = sizes > 0
        boundary[filled] = scores[order[(offsets[:-1] + places - 1)[filled]]]
        certain, tied = scores > boundary[impression], scores == boundary[impression]
        ties = _sum(tied, impression, len(sizes))
        left = places - _sum(certain, impression, len(sizes))
        kept = certain | tied
        certain |= tied & (left == ties)[impression]
        probability = torch.where(certain, 1.0, (left / ties.clamp(min=1))[impression])
        top = _Top(impression[kept], story[kept], certain[kept], probability[kept])
        return top, _Places(places, ties, left)

    def _distance(self, top: _Top, slots: _Places) -> Tensor:
        similarity = self._similar_titles(top, slots)
        for label in self._labels:
            named = label[top.story] > 0
            features = _Features(top.impression[named], label[top.story][named], top.certain[named])
            similarity += _expected_pairs(features, slots)
        pairs = slots.places * (slots.places - 1) / 2
        return 1 - similarity / (self._parts * pairs.clamp(min=1))

    def _similar_titles(self, top: _Top, slots: _Places) -> Tensor:
        start = self._titles.first[top.story]
        count = self._titles.first[top.story + 1] - start
        entry = torch.repeat_interleave(count)
        place = torch.arange(len(entry), device=self._device) + (start - (count.cumsum(0) - count))[entry]
        features = _Features(
            top.impression[entry], self._titles.words[place], top.certain[entry], self._titles.weights[place]
        )
        return _expected_pairs(features, slots)

    def _coverage(self, top: _Top, slots: _Places) -> Tensor:
        """Return the expected number of categories in the first places."""
        groups = _Groups.of(top.impression, self._category[top.story])
        has_certain = groups.sum(top.certain) > 0
        tied = groups.sum(~top.certain)
        # the probability that none of `tied` stories is among the `left` drawn from all `ties`: hypergeometric
        ties, left = slots.tied[groups.impression], slots.left[groups.impression]
        others = ties - tied
        log_none = _log_choose(others, left) - _log_choose(ties, left)
        none = torch.where(others >= left, log_none.exp(), 0.0)
        present = torch.where(has_certain, 1.0, 1 - none)
        return _sum(present, groups.impression, len(slots.places))

    def _count_categories(self) -> Tensor:
        """Return the number of categories among the candidates of each impression, at least 1."""
        sizes = self._tensor(np.diff(self._offsets))
        impression = torch.repeat_interleave(torch.arange(len(sizes), device=self._device), sizes)
        groups = _Groups.of(impression, self._category[self._story])
        return _sum(torch.ones_like(groups.impression), groups.impression, len(sizes)).clamp(min=1)

    def _shared_words(self, words: Array, weights: Array) -> _Titles:
        """Return the words of titles, without those that only one story has: no pair has them in common."""
        stories_with = np.bincount(words[words > 0], minlength=1)
        shared = (words > 0) & (stories_with[words] > 1)
        first = np.concatenate([[0], np.cumsum(shared.sum(axis=1))])
        return _Titles(self._tensor(first), self._tensor(words[shared]), self._tensor(weights[shared]))

    def _nothing(self) -> _Top:
        none = torch.zeros(0, dtype=torch.int64, device=self._device)
        return _Top(none, none, none.bool(), none.double())

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


class _Groups(NamedTuple):
    """Candidates grouped by impression and by a feature, such as the category."""

    order: Tensor
    bounds: Tensor
    impression: Tensor
    """The impression of each group."""

    @classmethod
    def of(cls, impression: Tensor, feature: Tensor) -> "_Groups":
        width = int(feature.max()) + 1 if len(feature) else 1
        key, order = (impression * width + feature).sort()
        starts = torch.ones(len(key) + 1, dtype=torch.bool, device=key.device)
        starts[1:-1] = key[1:] != key[:-1]
        bounds = starts.nonzero().squeeze(1)
        return cls(order, bounds, key[bounds[:-1]] // width)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of the values of each group."""
        total = torch.cat([values.new_zeros(1, dtype=torch.float64), values[self.order].double().cumsum(0)])
        return total[self.bounds].diff()


class _Features(NamedTuple):
    """Features of candidates that can be among the first ten: a label, or the words of the title."""

    impression: Tensor
    feature: Tensor
    certain: Tensor
    weight: Tensor | None = None
    """None: all are 1."""


def _expected_pairs(features: _Features, slots: _Places) -> Tensor:
    """Return for each impression the expected sum of weight * weight over pairs in the first places.

    A pair counts if both of its candidates have the same feature. Of a group, let C and T be the sums over certain and
    over tied candidates. The products of all pairs are (C^2 - sum of squares) / 2, C T and (T^2 - sum of squares) / 2;
    a tied candidate is in with probability p = left / tied, two are with p (left - 1) / (tied - 1).
    """
    impression, feature, certain, weight = features
    weight = torch.ones_like(feature, dtype=torch.float64) if weight is None else weight
    groups = _Groups.of(impression, feature)

    def products(group_sums: Tensor, kept: Tensor) -> Tensor:
        squares = _sum(weight**2 * kept, impression, len(slots.places))
        return (_sum(group_sums**2, groups.impression, len(slots.places)) - squares) / 2

    if bool(certain.all()):
        return products(groups.sum(weight), certain)
    certain_sums, tied_sums = groups.sum(weight * certain), groups.sum(weight * ~certain)
    one = slots.left / slots.tied.clamp(min=1)
    two = one * (slots.left - 1) / (slots.tied - 1).clamp(min=1)
    mixed = _sum(certain_sums * tied_sums, groups.impression, len(slots.places))
    return products(certain_sums, certain) + one * mixed + two * products(tied_sums, ~certain)


def _log_choose(items: Tensor, chosen: Tensor) -> Tensor:
    """Return the logarithm of the number of ways to choose; undefined where more are chosen than there are."""
    rest = (items - chosen).clamp(min=0)
    return torch.lgamma(items + 1) - torch.lgamma(chosen + 1) - torch.lgamma(rest + 1)


def _sum(values: Tensor, index: Tensor, size: int) -> Tensor:
    zeros = torch.zeros(size, dtype=torch.float64, device=values.device)
    return zeros.index_add_(0, index, values.double())

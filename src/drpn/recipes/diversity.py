"""The trade-off between accuracy and diversity: each impression is re-ranked with several values of the knob."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.bundle.rerank import METHODS, Calibration, MarginalRelevance, Method, divergence_terms, rerank, scaled
from drpn.dataset.arrays import Array
from drpn.dataset.contents import ContentReader
from drpn.dataset.folder import Dataset, Impressions
from drpn.evaluation.bootstrap import differences, interval, intervals
from drpn.evaluation.diversity import TOP, DiversityMeter
from drpn.evaluation.metrics import measure, ranks
from drpn.output import atomic_file, explain_write_errors

KNOB = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Values of `diversity` besides 0, the plain ranking."""
MISCALIBRATION = "miscalibration@10"
PAIRED = ("auc", "ndcg@10")
"""Metrics that are compared with those of the plain ranking."""
_SIMILARITIES_AT_ONCE = 1 << 20
_CANDIDATES_AT_ONCE = 1 << 12

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Point = dict[str, Any]


def diversity_curve(scores: Array, dataset: Dataset, impressions: Impressions, *, seed: int = 0) -> list[Point]:
    """Return metrics and diversity of the impressions, re-ranked by each method with each value of the knob.

    Points have the keys `method`, `diversity`, and means and intervals as in the rows of an evaluation. In addition,
    `miscalibration@10` is KL(p || q) of `bundle/rerank.py` for the first ten stories, over users who clicked any, and
    `auc_less_plain` and `ndcg@10_less_plain` are the paired differences from the plain ranking.
    """
    scores, users = np.asarray(scores), np.asarray(impressions.users)
    meter, shares = DiversityMeter(dataset, impressions), category_shares(dataset)
    category = np.asarray(dataset.arrays.array("news/category"))[impressions.candidates]
    has_clicks = dataset.clicked[:, 0][users] > 0
    plain = measure(scores, impressions.clicked, impressions.offsets)

    def point(method: Method, diversity: float, ranked: Array) -> Point:
        metrics = measure(ranked, impressions.clicked, impressions.offsets)
        values = metrics.by_name() | meter.measure(ranked).by_name()
        by_name = intervals(values, users, np.random.default_rng(seed))
        divergence = miscalibration(ranked, category, np.asarray(impressions.offsets), shares(users))
        measured = np.where(metrics.counted & has_clicks, divergence, np.nan)
        if not np.isnan(measured).all():
            by_name[MISCALIBRATION] = interval(measured, users, np.random.default_rng(seed))
        pairs = {name: (metrics.by_name()[name], plain.by_name()[name]) for name in PAIRED}
        compared = differences(pairs, users, np.random.default_rng(seed))
        return {
            "method": method,
            "diversity": diversity,
            **{name: mean.mean for name, mean in by_name.items()},
            **{f"{name}_interval": [mean.low, mean.high] for name, mean in by_name.items()},
            **{f"{name}_less_plain": comparison._asdict() for name, comparison in compared.items()},
        }

    reranked = reranked_scores(scores, dataset, impressions, shares)
    return [
        point(method, diversity, reranked[method, diversity] if diversity else scores)
        for method in METHODS
        for diversity in (0.0, *KNOB)
    ]


def reranked_scores(
    scores: Array, dataset: Dataset, impressions: Impressions, shares: Callable[[Array], Floats]
) -> dict[tuple[Method, float], NDArray[np.float32]]:
    """Return scores that rank the candidates of each impression as each method does: minus their new rank."""
    reader, users = ContentReader.of(dataset), np.asarray(impressions.users)
    result = {(method, diversity): np.zeros(len(scores), dtype=np.float32) for method in METHODS for diversity in KNOB}
    offsets, rank = np.asarray(impressions.offsets), ranks(scores, impressions.offsets)
    by_rank = np.empty(len(scores), dtype=np.int64)  # the candidates of each impression, best first
    by_rank[np.repeat(offsets[:-1], np.diff(offsets)) + rank - 1] = np.arange(len(scores))
    for rows in _similar_lengths(np.diff(offsets)):
        sizes = np.diff(offsets)[rows]
        mask = np.arange(sizes.max()) < sizes[:, None]  # (lists, candidates)
        place = by_rank[np.where(mask, offsets[rows][:, None] + np.arange(sizes.max()), offsets[rows][:, None])]
        stories, story = np.unique(np.asarray(impressions.candidates)[place], return_inverse=True)
        story = story.reshape(place.shape)
        contents = reader.rows(stories)
        similarity = contents.similarity(contents)
        relevance, target = scaled(scores[place], mask), shares(users[rows])
        for method, diversity in result:
            if method == "mmr":
                placing: Any = MarginalRelevance(relevance, _similar(similarity, story), diversity)
            else:
                placing = Calibration(relevance, contents.category[story], target, diversity)
            order = rerank(placing, mask)
            new_place = np.take_along_axis(place, order, axis=1)
            result[method, diversity][new_place[mask]] = -np.nonzero(mask)[1]
    return result


def write_curve(file: Path, points: list[Point], *, model: str, split: str) -> None:
    """Draw the curve to a PNG or SVG file, and write its points to a JSON file of the same name."""
    from drpn.drawing.diversity import draw_diversity  # matplotlib is imported only when needed

    with explain_write_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        draw_diversity(points, file, title=f"{model}, {split} impressions")
        with atomic_file(file.with_suffix(".json")) as scratch:
            document = {"model": model, "split": split, "points": points}
            scratch.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _similar(similarity: Floats, story: Ints) -> Callable[[Ints], Floats]:
    """Return a function of the chosen candidates: the similarity of every candidate to that of its list."""
    lists = np.arange(len(story))
    return lambda chosen: similarity[story[lists, chosen][:, None], story]


def category_shares(dataset: Dataset) -> Callable[[Array], Floats]:
    """Return a function of users: the share of each category in their clicks, or in all clicks if they have none."""
    category = np.asarray(dataset.arrays.array("news/category"))
    size = int(category.max(initial=0)) + 1
    everyone = np.bincount(category, dataset.arrays.array("news/times_clicked"), minlength=size) + 1e-12

    def shares(users: Array) -> Floats:
        clicked = np.asarray(dataset.clicked)[users]  # (users, stories)
        row, slot = np.nonzero(clicked)
        counts = np.bincount(row * size + category[clicked[row, slot]], minlength=len(users) * size)
        by_user = counts.reshape(len(users), size).astype(np.float64)
        by_user[~by_user.any(axis=1)] = everyone
        result: Floats = by_user / by_user.sum(axis=1, keepdims=True)
        return result

    return shares


def miscalibration(scores: Array, category: Array, offsets: Ints, target: Floats) -> Floats:
    """Return KL(p || q) of the first ten stories of each impression; tied stories keep their order."""
    first = ranks(scores, offsets) <= TOP
    impression = np.repeat(np.arange(len(target)), np.diff(offsets))[first]
    size = target.shape[1]
    counts = np.bincount(impression * size + category[first], minlength=target.size).reshape(target.shape)
    placed = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    divergence: Floats = divergence_terms(target, counts / placed).sum(axis=1)
    return divergence


def _similar_lengths(sizes: Ints) -> Iterator[Ints]:
    """Yield impressions of similar length, few enough for their similarities to fit in memory."""
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order):
            lists, longest = stop + 1 - start, int(sizes[order[stop]])
            if lists * longest > _CANDIDATES_AT_ONCE or lists * longest**2 > _SIMILARITIES_AT_ONCE:
                break
            stop += 1
        yield order[start:stop]
        start = stop

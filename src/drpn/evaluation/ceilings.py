"""Ceilings of noise AUC: how well noise can be found at all, in simulated logs with known truth.

A classifier learns the truth of one half of the users and is measured on the other half, in turn. *Personal* evidence
compares a story with the rest of its user's profile: how many of the other clicks and skips have the same category and
subcategory, and which share of them. Evidence *by story* is the same for all users: click rate, times shown and
category. Neither has ids or words. A model that compares stories with profiles cannot be expected to exceed the
personal ceiling by much.
"""

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.evaluation.metrics import Floats
from drpn.evaluation.trees import TreeSettings, fit_trees

PERSONAL, BY_STORY = TreeSettings(), TreeSettings(trees=200, depth=6, bins=256)
"""Classifiers of the two kinds of evidence; that of stories tells single stories apart by their counts."""

SMOOTHING = 10.0
"""Stories of a category that are assumed to be as often real as all stories."""


def personal_scores(own: Array, other: Array, kind: Array, category: Array, subcategory: Array) -> Floats:
    """Return (users, slots): scores of the stories of one sequence, from the other stories of both sequences.

    `own` and `other` are (users, slots) rows of stories, 0 is padding; `kind` is 1 (real), -1 (noise) or 0 (left out).
    """
    counts = [
        count
        for label in (category, subcategory)
        for sequence in (own, other)
        for count in _same(np.asarray(label, np.int64), own, sequence)
    ]
    return _learn_from_the_other_half(np.stack(counts, axis=2), kind, PERSONAL)


def story_scores(own: Array, kind: Array, times_shown: Array, times_clicked: Array, category: Array) -> Floats:
    """Return (users, slots): scores of the stories of one sequence, from what is known of each story alone."""
    shown = np.asarray(times_shown, np.float64)
    rate = np.asarray(times_clicked, np.float64) / np.maximum(shown, 1)
    evidence = np.stack([rate[own], shown[own], np.zeros(own.shape)], axis=2)
    return _learn_from_the_other_half(evidence, kind, BY_STORY, np.asarray(category, np.int64)[own])


def _same(label: NDArray[np.int64], own: Array, sequence: Array) -> tuple[Floats, Floats]:
    """Return (users, slots): how many other stories of a sequence have the label of each story, and their share."""
    labels = int(label.max(initial=0)) + 1
    user = np.arange(len(own), dtype=np.int64)[:, None]
    real = sequence != 0
    known, times = np.unique((user * labels + label[sequence])[real], return_counts=True)
    known, times = np.append(known, -1), np.append(times, 0)  # a key past the end has the count 0
    key = user * labels + label[own]
    place = np.searchsorted(known[:-1], key)
    itself = int(sequence is own)
    count = np.where(known[place] == key, times[place], itself) - itself
    total = real.sum(axis=1, keepdims=True) - itself
    return count.astype(np.float64), count / np.maximum(total, 1)


def _learn_from_the_other_half(
    evidence: Floats, kind: Array, settings: TreeSettings, category: NDArray[np.int64] | None = None
) -> Floats:
    """Return (users, slots): scores of even users, learned from the odd ones, and the reverse.

    The last feature becomes the share of real feedback in the category, if there is one.
    """
    scores = np.zeros(kind.shape)
    even = np.arange(len(kind)) % 2 == 0
    for half in (even, ~even):
        learned, measured = (half[:, None] & (kind != 0)), (~half[:, None] & (kind != 0))
        if not learned.any() or not measured.any():
            continue
        if category is not None:
            evidence[..., -1] = _real_share(category, kind, learned)
        trees = fit_trees(evidence[learned], kind[learned] > 0, settings)
        scores[measured] = trees.scores(evidence[measured])
    return scores


def _real_share(category: NDArray[np.int64], kind: Array, learned: NDArray[np.bool_]) -> Floats:
    """Return (users, slots): the share of real feedback among the learned stories of each story's category."""
    real = kind[learned] > 0
    size = int(category.max()) + 1
    rows, positives = np.bincount(category[learned], minlength=size), np.bincount(category[learned], real, size)
    share = (positives + SMOOTHING * real.mean()) / (rows + SMOOTHING)
    return np.asarray(share[category])

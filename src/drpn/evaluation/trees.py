"""A small gradient-boosted classifier in NumPy, fast and with the same result on every run.

Friedman, "Greedy Function Approximation: A Gradient Boosting Machine", Annals of Statistics 2001. All nodes of one
level of a tree make the same split, so that a tree of depth d is a table of 2^d values.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.evaluation.metrics import Floats

Codes = NDArray[np.int64]
"""(rows, features): the bin of each value."""


@dataclass(frozen=True, kw_only=True)
class TreeSettings:
    """Size of the classifier."""

    trees: int = 80
    depth: int = 4
    """Splits in each tree."""
    bins: int = 32
    """Values of a feature are divided into at most this many bins, equally full."""
    rate: float = 0.2
    """Share of each tree's correction that is added."""
    prior: float = 2.0
    """Weight of the assumption that a leaf changes nothing."""


class Tree(NamedTuple):
    """The feature and the bin of each split, and the value of each leaf."""

    feature: list[int]
    threshold: list[int]
    value: Floats

    def values(self, codes: Codes) -> Floats:
        """The value of each row."""
        leaf = np.zeros(len(codes), dtype=np.int64)
        for feature, threshold in zip(self.feature, self.threshold, strict=True):
            leaf = 2 * leaf + (codes[:, feature] > threshold)
        return np.asarray(self.value[leaf])


@dataclass(frozen=True)
class Trees:
    """A fitted classifier."""

    edges: list[Floats]
    """Bounds of the bins of each feature."""
    trees: list[Tree]

    def scores(self, features: Array) -> Floats:
        """The logarithm of the odds that each row is true; `features` are (rows, features)."""
        codes, place = _distinct(_codes(features, self.edges))
        total = np.zeros(len(codes))
        for tree in self.trees:
            total += tree.values(codes)
        return np.asarray(total[place])


def fit_trees(features: Array, labels: NDArray[np.bool_], settings: TreeSettings) -> Trees:
    """Fit a classifier to rows of features and their labels."""
    quantiles = np.arange(1, settings.bins) / settings.bins
    edges = [np.unique(np.quantile(column, quantiles)) for column in features.T]
    codes, place = _distinct(_codes(features, edges))
    rows, positives = np.bincount(place), np.bincount(place, labels)
    logit = np.zeros(len(codes))
    trees = []
    for _ in range(settings.trees):
        probability = 1 / (1 + np.exp(-logit))
        # first and second derivative of the log likelihood, summed over equal rows
        gradient, curvature = positives - rows * probability, rows * probability * (1 - probability)
        tree = _grow(codes, gradient, curvature, settings)
        trees.append(tree)
        logit += tree.values(codes)
    return Trees(edges, trees)


def _codes(features: Array, edges: list[Floats]) -> Codes:
    """The bin of each value: the number of bounds below it."""
    columns = [np.searchsorted(bounds, column, side="left") for bounds, column in zip(edges, features.T, strict=True)]
    return np.stack(columns, axis=1).astype(np.int64)


def _distinct(codes: Codes) -> tuple[Codes, NDArray[np.int64]]:
    """The distinct rows, and which of them each row equals."""
    place = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        _, place = np.unique(place * (column.max(initial=0) + 1) + column, return_inverse=True)
    first = np.zeros(place.max(initial=-1) + 1, dtype=np.int64)
    first[place] = np.arange(len(codes))
    return codes[first], place


def _grow(codes: Codes, gradient: Floats, curvature: Floats, settings: TreeSettings) -> Tree:
    """The tree whose splits raise the likelihood most, one level after the other."""
    bins, prior = settings.bins, settings.prior
    leaf = np.zeros(len(codes), dtype=np.int64)
    features, thresholds = [], []
    for level in range(settings.depth):
        gains = []
        for column in codes.T:
            cell = leaf * bins + column
            slope, curve = (
                np.cumsum(np.bincount(cell, weight, minlength=bins << level).reshape(-1, bins), axis=1)
                for weight in (gradient, curvature)
            )
            slope_above, curve_above = slope[:, -1:] - slope, curve[:, -1:] - curve
            gains.append((slope**2 / (curve + prior) + slope_above**2 / (curve_above + prior)).sum(axis=0))
        feature, threshold = divmod(int(np.argmax(np.concatenate(gains))), bins)
        features.append(feature)
        thresholds.append(threshold)
        leaf = 2 * leaf + (codes[:, feature] > threshold)
    leaves = 1 << settings.depth
    slope, curve = (np.bincount(leaf, weight, minlength=leaves) for weight in (gradient, curvature))
    return Tree(features, thresholds, settings.rate * slope / (curve + prior))

"""Scores without learning, over flat candidates: what every model has to beat."""

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array

SMOOTHING = 50.0
"""A story's click rate counts as if it had been shown this often more, at its category's rate.

The click rates of often shown news in MIND's sample (a table in docs/simulator.md) spread about as a beta distribution
of this weight around 4 % would.
"""


def chance(candidates: Array) -> NDArray[np.float64]:
    """One score for all, which by the tie rule earns what a random order earns on average."""
    return np.zeros(len(candidates))


def popularity(
    times_shown: Array, times_clicked: Array, category: Array, candidates: Array, smoothing: float = SMOOTHING
) -> NDArray[np.float64]:
    """The click rate of each candidate in the training data, drawn toward that of its category.

    A news that training never showed has its category's rate, one of a category never shown the overall rate. The
    first three arrays are by news, `candidates` are rows of them.
    """
    shown, clicked = np.asarray(times_shown, np.float64), np.asarray(times_clicked, np.float64)
    overall = _rates(clicked.sum(keepdims=True), shown.sum(keepdims=True), 0.0)
    of_category = _rates(np.bincount(category, clicked), np.bincount(category, shown), overall)[category]
    return _rates(clicked + smoothing * of_category, shown + smoothing, of_category)[candidates]


def _rates(clicked: Array, shown: Array, otherwise: Array | float) -> NDArray[np.float64]:
    known = shown > 0
    return np.where(known, clicked / np.where(known, shown, 1), otherwise)

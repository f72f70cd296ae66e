"""Reference scores that need no training; every model should beat them."""

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.state.count_columns import PAIR

SMOOTHING = 50.0
"""Additional impressions of each story, assumed to be clicked at the rate of its category.

The click rates of frequently shown stories in MIND's sample (table in docs/simulator.md) vary about as much as a beta
distribution with mean 4 % and this many observations.
"""

_PRIOR_CLICKS, _PRIOR_SHOWS = 0.45, 5.0
"""Added to the running clicks and shows of a story, so that a new one starts at the usual rate."""


def chance(candidates: Array) -> NDArray[np.float64]:
    """Return equal scores, which the tie rule gives the expected metrics of a random order."""
    return np.zeros(len(candidates))


def popularity(
    times_shown: Array, times_clicked: Array, category: Array, candidates: Array, smoothing: float = SMOOTHING
) -> NDArray[np.float64]:
    """Return each candidate's click rate in the training data, smoothed towards the rate of its category.

    A story not shown in training gets the rate of its category, or the overall rate if the category was not shown
    either. The first three arrays have one value per story; `candidates` holds rows of them.
    """
    shown, clicked = np.asarray(times_shown, np.float64), np.asarray(times_clicked, np.float64)
    overall = _rates(clicked.sum(keepdims=True), shown.sum(keepdims=True), 0.0)
    category_rate = _rates(np.bincount(category, clicked), np.bincount(category, shown), overall)[category]
    return _rates(clicked + smoothing * category_rate, shown + smoothing, category_rate)[candidates]


def click_rate(counts: Array) -> NDArray[np.float64]:
    """Return each candidate's click rate as of its impression, from counts of the live protocol, half-life 48 hours."""
    shows, clicks = (np.expm1(counts[:, PAIR.index(f"{what} 48 h")].astype(np.float64)) for what in ("shows", "clicks"))
    return (clicks + _PRIOR_CLICKS) / (shows + _PRIOR_SHOWS)


def _rates(clicked: Array, shown: Array, fallback: Array | float) -> NDArray[np.float64]:
    known = shown > 0
    return np.where(known, clicked / np.where(known, shown, 1), fallback)

"""How well weights over clicked stories predict reading: the noise AUC of real logs, whose only truth is the clock.

A click that was left after a few seconds was an accident, clickbait or a disappointment; one that was read was none of
these. The weights of a profile sum to 1, so those of a short profile are larger: weights can be compared within a user
and not between users.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.evaluation.metrics import Floats
from drpn.evaluation.noise import noise_auc_by_user

READ_SECONDS = 5.0
"""A click counts as read if the story was open for this many seconds or more. In EB-NeRD about 17 % of the clicks in
impressions and 21 % of those in histories were shorter."""
_PAIRS_AT_ONCE = 1 << 21


def kinds_of_read(seconds: Array) -> NDArray[np.int8]:
    """Return 1 for clicks that were read (see `READ_SECONDS`), -1 for shorter ones, 0 for an unknown read time."""
    return np.asarray(seconds >= READ_SECONDS, dtype=np.int8) - np.asarray(seconds < READ_SECONDS, dtype=np.int8)


def pooled_auc(weights: Array, kinds: Array) -> float:
    """Return the AUC over the clicks of all users in one list; NaN if they are all of one kind.

    It also compares weights of different users, so the lengths of profiles matter in it.
    """
    return float(noise_auc_by_user(weights.reshape(1, -1), kinds.reshape(1, -1))[0])


def rank_correlation_by_user(weights: Array, values: Array) -> Floats:
    """Return Spearman's rank correlation of weights and values of each user, both (users, slots).

    NaN values are left out. The result is NaN for users whose weights or values are all equal, or who have fewer than
    two values.
    """
    if weights.shape != values.shape:
        raise ValueError(f"weights are {weights.shape}, but values {values.shape}; pass one of each for every slot")
    result = np.full(len(weights), np.nan)
    for users in _chunks(*weights.shape):
        known = ~np.isnan(values[users])
        count = known.sum(axis=1, keepdims=True)
        # the ranks 1 to n have the mean (n + 1) / 2, with ties or without
        first, second = (
            np.where(known, _ranks(numbers[users], known) - (count + 1) / 2, 0) for numbers in (weights, values)
        )
        # Pearson's correlation of the ranks: sum(a b) / sqrt(sum(a a) sum(b b))
        spread = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
        result[users] = np.divide(
            (first * second).sum(axis=1), spread, out=np.full(len(spread), np.nan), where=spread > 0
        )
    return result


def _ranks(numbers: Array, known: Array) -> Floats:
    """Return the rank of each known number among those of its row, from 1; ties share their mean rank."""
    others, own = numbers[:, None, :], numbers[:, :, None]
    smaller = ((others < own) & known[:, None, :]).sum(axis=2)
    equal = ((others == own) & known[:, None, :]).sum(axis=2)  # with the number itself
    return np.asarray(smaller + (equal + 1) / 2, dtype=np.float64)


def _chunks(rows: int, slots: int) -> Iterator[slice]:
    """Yield slices of rows whose pairs of slots fit in memory."""
    step = max(1, _PAIRS_AT_ONCE // max(slots * slots, 1))
    return (slice(start, start + step) for start in range(0, rows, step))

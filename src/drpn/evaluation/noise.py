"""Noise AUC: how well weights over a profile separate real feedback from noise, in simulated logs with known truth.

For one user it is the probability that real feedback has a larger weight than noise, where ties count half; the result
is the mean over users who have both. A click is real if the user is interested, and noise if the user dislikes the
story (accidents, clickbait). A skip is real if the user dislikes the story, and noise if the user missed it despite
interest. Stories to which the user is indifferent are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.dataset.vocabulary import UNKNOWN
from drpn.evaluation.metrics import Floats, measure

_NUMBERS_AT_ONCE = 1 << 21


def kinds_of_clicked(opinion: Array) -> NDArray[np.int8]:
    """Return 1 for real interest, -1 for a click on a disliked story, 0 for indifference or an unknown opinion."""
    return np.asarray(opinion == 1, dtype=np.int8) - np.asarray(opinion == -1, dtype=np.int8)


def kinds_of_skipped(opinion: Array) -> NDArray[np.int8]:
    """Return 1 for real dislike, -1 for missed interest, 0 for indifference or an unknown opinion."""
    return -kinds_of_clicked(opinion)


def noise_auc_by_user(weights: Array, kind: Array) -> Floats:
    """Return the noise AUC of each user; NaN for users who do not have both kinds.

    `weights` and `kind` are (users, slots); a kind is 1 (real), -1 (noise) or 0 (left out).
    """
    if weights.shape != kind.shape:
        raise ValueError(f"weights are {weights.shape}, but kinds {kind.shape}; pass one of each for every slot")
    kept = kind != 0
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return measure(weights[kept], kind[kept] > 0, offsets).auc


def noise_auc(weights: Array, kind: Array) -> float:
    """Return the mean noise AUC over users who have both kinds; NaN if nobody has."""
    values = noise_auc_by_user(weights, kind)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


class Sides(NamedTuple):
    """One number per story of each sequence, 0 for padding."""

    clicked: Floats
    """(users, clicked)"""
    skipped: Floats
    """(users, skipped)"""


def tfidf_rule(words: Array, clicked: Array, skipped: Array) -> Sides:
    """A baseline for the model's weights: mean similarity to the same sequence minus that to the opposite one.

    The similarity of two stories is the cosine of their TF-IDF vectors. A story is not compared with itself; without
    stories to compare with the mean is 0. `words` is (news, words), the sequences are (users, slots), 0 is padding.
    """
    titles = _Titles.of(words)
    profiles = np.concatenate([clicked, skipped], axis=1)
    split = clicked.shape[1]
    trust = np.zeros(profiles.shape)
    for users in _chunks(len(profiles), profiles.shape[1] * words.shape[1]):
        trust[users] = _trust(titles, profiles[users], split)
    return Sides(trust[:, :split], trust[:, split:])


def _trust(titles: "_Titles", profiles: Array, split: int) -> Floats:
    """Return (users, slots): the rule for profiles whose first `split` slots are clicked stories."""
    real = profiles != 0
    is_clicked = np.arange(profiles.shape[1]) < split
    to_clicked, to_skipped = _similarities(titles, profiles, split)
    clicked_count, skipped_count = (real[:, side].sum(axis=1, keepdims=True) for side in (is_clicked, ~is_clicked))
    same_count = np.where(is_clicked, clicked_count, skipped_count) - 1
    opposite_count = np.where(is_clicked, skipped_count, clicked_count)
    same = np.where(is_clicked, to_clicked, to_skipped) - titles.length[profiles]  # minus the story itself
    opposite = np.where(is_clicked, to_skipped, to_clicked)
    same = np.where(same_count > 0, same, 0) / np.maximum(same_count, 1)
    return np.where(real, same - opposite / np.maximum(opposite_count, 1), 0)


def _similarities(titles: "_Titles", profiles: Array, split: int) -> tuple[Floats, Floats]:
    """Return (users, slots): the summed similarity of each story to all clicked and all skipped stories of its user.

    A sum of dot products with several vectors equals one dot product with the sum of the vectors.
    """
    users = np.arange(len(profiles), dtype=np.int64)[:, None, None]
    words = users * (int(titles.words.max(initial=0)) + 1) + titles.words[profiles]  # (users, slots, words)
    values = titles.values[profiles]
    distinct, place = np.unique(words, return_inverse=True)
    place = place.reshape(words.shape)
    sums = [
        np.bincount(place[:, side].ravel(), values[:, side].ravel(), minlength=len(distinct))
        for side in (slice(None, split), slice(split, None))
    ]
    to_clicked, to_skipped = ((values * word_sums[place]).sum(axis=2) for word_sums in sums)
    return to_clicked, to_skipped


@dataclass(frozen=True)
class _Titles:
    """Titles as (word, value) pairs, one per word; their sum is the title's TF-IDF vector, scaled to length 1."""

    words: Array
    values: Floats
    """(news, words); a repeated word has its value at each occurrence."""
    length: Floats
    """(news): 1, or 0 for a story without known words."""

    @classmethod
    def of(cls, words: Array) -> "_Titles":
        real = words > UNKNOWN  # neither padding nor the unknown word
        repeats = np.ones(words.shape)
        for news in _chunks(len(words), words.shape[1] ** 2):
            repeats[news] = (words[news, :, None] == words[news, None, :]).sum(axis=2)
        # smooth idf: ln((1 + stories) / (1 + stories with the word)) + 1; a word that occurs n times adds 1/n each time
        document_count = np.rint(np.bincount(words[real], 1 / repeats[real], minlength=int(words.max(initial=0)) + 1))
        idf = np.log((1 + real.any(axis=1).sum()) / (1 + document_count)) + 1
        values = np.where(real, idf[words], 0)
        length = np.sqrt((repeats * values**2).sum(axis=1))
        return cls(words, values / np.where(length > 0, length, 1)[:, None], (length > 0).astype(np.float64))


def _chunks(rows: int, size: int) -> Iterator[slice]:
    """Yield slices of rows of `size` numbers each, small enough to fit in memory."""
    step = max(1, _NUMBERS_AT_ONCE // max(size, 1))
    return (slice(start, start + step) for start in range(0, rows, step))

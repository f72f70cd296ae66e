"""Noise AUC: how well weights over a profile tell real feedback from noise, where a simulation knows the truth.

Within a user it is the chance that real feedback outweighs noise, tied weights counting half; the mean over users who
have both. Of clicked news, interest is real and a click on what the user dislikes (by accident or for clickbait) is
noise; of skipped news, dislike is real and missed interest is noise. News of indifference are left out.
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
    """1 for real interest, -1 for a click on what the user dislikes, 0 for what is left out or not known."""
    return np.asarray(opinion == 1, dtype=np.int8) - np.asarray(opinion == -1, dtype=np.int8)


def kinds_of_skipped(opinion: Array) -> NDArray[np.int8]:
    """1 for real dislike, -1 for missed interest, 0 for what is left out or not known."""
    return -kinds_of_clicked(opinion)


def noise_auc_by_user(weights: Array, kind: Array) -> Floats:
    """(users): of weights (users, slots) and kinds 1 (real), -1 (noise), 0 (left out); NaN without both kinds."""
    if weights.shape != kind.shape:
        raise ValueError(f"weights are {weights.shape}, but kinds {kind.shape}; pass one of each for every slot")
    kept = kind != 0
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return measure(weights[kept], kind[kept] > 0, offsets).auc


def noise_auc(weights: Array, kind: Array) -> float:
    """The mean over users who have both kinds, NaN where nobody has."""
    values = noise_auc_by_user(weights, kind)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


class Sides(NamedTuple):
    """Numbers for the news of both sequences, 0 for padding."""

    clicked: Floats
    """(users, clicked)"""
    skipped: Floats
    """(users, skipped)"""


def tfidf_rule(words: Array, clicked: Array, skipped: Array) -> Sides:
    """The simple rule beside the model's weights: mean similarity to the own sequence minus to the opposite one.

    The similarity of two news is the cosine of their TF-IDF vectors; a news is not compared with itself, and a mean
    over nothing is 0. `words` are (news, words), the sequences (users, news), with 0 for padding.
    """
    titles = _Titles.of(words)
    profiles = np.concatenate([clicked, skipped], axis=1)
    split = clicked.shape[1]
    trust = np.zeros(profiles.shape)
    for users in _steps(len(profiles), profiles.shape[1] * words.shape[1]):
        trust[users] = _trust(titles, profiles[users], split)
    return Sides(trust[:, :split], trust[:, split:])


def _trust(titles: "_Titles", profiles: Array, split: int) -> Floats:
    """(users, slots): the rule for profiles whose first `split` slots are clicked news."""
    real = profiles != 0
    is_clicked = np.arange(profiles.shape[1]) < split
    to_clicked, to_skipped = _similarities(titles, profiles, split)
    others = np.where(is_clicked, *(real[:, side].sum(axis=1, keepdims=True) for side in (is_clicked, ~is_clicked))) - 1
    opposed = np.where(is_clicked, *(real[:, side].sum(axis=1, keepdims=True) for side in (~is_clicked, is_clicked)))
    own = np.where(is_clicked, to_clicked, to_skipped) - titles.length[profiles]  # without itself
    opposite = np.where(is_clicked, to_skipped, to_clicked)
    own = np.where(others > 0, own, 0) / np.maximum(others, 1)
    return np.where(real, own - opposite / np.maximum(opposed, 1), 0)


def _similarities(titles: "_Titles", profiles: Array, split: int) -> tuple[Floats, Floats]:
    """(users, slots): the summed similarity of each news to all clicked and to all skipped news of its user.

    Cosines with many vectors add up to the product with the sum of the vectors.
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
    to_clicked, to_skipped = ((values * each[place]).sum(axis=2) for each in sums)
    return to_clicked, to_skipped


@dataclass(frozen=True)
class _Titles:
    """Each title as one (word, value) for each of its words; their sum is its TF-IDF vector of length 1."""

    words: Array
    values: Floats
    """(news, words); a word that stands twice has its value twice."""
    length: Floats
    """(news): 1, or 0 for a news of no known word."""

    @classmethod
    def of(cls, words: Array) -> "_Titles":
        real = words > UNKNOWN  # neither padding nor the unknown word, which says nothing
        repeats = np.ones(words.shape)
        for news in _steps(len(words), words.shape[1] ** 2):
            repeats[news] = (words[news, :, None] == words[news, None, :]).sum(axis=2)
        # smooth idf: ln((1 + news) / (1 + news with the word)) + 1; a word that stands n times adds 1/n n times
        holders = np.rint(np.bincount(words[real], 1 / repeats[real], minlength=int(words.max(initial=0)) + 1))
        idf = np.log((1 + real.any(axis=1).sum()) / (1 + holders)) + 1
        values = np.where(real, idf[words], 0)
        length = np.sqrt((repeats * values**2).sum(axis=1))
        return cls(words, values / np.where(length > 0, length, 1)[:, None], (length > 0).astype(np.float64))


def _steps(rows: int, size: int) -> Iterator[slice]:
    """Stretches of rows, each of `size` numbers, that fit in memory together."""
    step = max(1, _NUMBERS_AT_ONCE // max(size, 1))
    return (slice(start, start + step) for start in range(0, rows, step))

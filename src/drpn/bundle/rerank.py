"""Orders that trade relevance against sameness: maximal marginal relevance, and calibrated categories.

Both place one story after the other: the one with the highest value, given those placed before. With d = `diversity`,

    mmr          (1 - d) relevance - d (similarity to the most similar story placed before)
    calibrated   (1 - d) relevance - d KL(p || q)

(Carbonell and Goldstein, SIGIR 1998; Steck, RecSys 2018). The relevance is the score, scaled to 0 to 1 within the list.
p is the share of each category in the user's clicks, q that in the list with the story placed, mixed with 1 % of p so
that it is nowhere 0. Of equal values, the story that the model ranked higher is placed first.

Similarity comes from labels and titles (`dataset/contents.py`), which every bundle has. The encoded stories of models
cannot be compared by one rule: they differ in shape and meaning.
"""

from collections.abc import Callable
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from drpn.errors import SettingsError

Method = Literal["mmr", "calibrated"]
METHODS: tuple[Method, ...] = get_args(Method)
SMOOTHING = 0.01
"""Steck's alpha: the share of p in q."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def check_share(name: str, value: float) -> None:
    """Raise an error unless the value is from 0 to 1."""
    if not 0 <= value <= 1:
        raise SettingsError(f"{name} is {value}; it takes a number from 0 to 1")


def check_method(method: str) -> None:
    """Raise an error unless there is such a method."""
    if method not in METHODS:
        raise SettingsError(f"the diversity method is {method!r}; choose from {', '.join(METHODS)}")


class Placing(Protocol):
    """The values of candidates, which depend on those placed before; (lists, candidates) each."""

    def values(self) -> Floats:
        """Return the value of placing each candidate next."""

    def place(self, chosen: Ints) -> None:
        """Place one candidate of each list."""


class MarginalRelevance:
    """Maximal marginal relevance."""

    def __init__(self, relevance: Floats, similar: Callable[[Ints], Floats], diversity: float) -> None:
        """`similar` returns the similarity of every candidate to the chosen one of its list."""
        self._relevance, self._similar, self._diversity = relevance, similar, diversity
        self._nearest = np.zeros_like(relevance)

    def values(self) -> Floats:
        """Return relevance less similarity to the most similar story placed before, which is 0 for the first place."""
        return (1 - self._diversity) * self._relevance - self._diversity * self._nearest

    def place(self, chosen: Ints) -> None:
        """Note the similarity to the chosen stories."""
        np.maximum(self._nearest, self._similar(chosen), out=self._nearest)


class Calibration:
    """Calibrated categories."""

    def __init__(self, relevance: Floats, category: Ints, target: Floats, diversity: float) -> None:
        """`category` is that of each candidate; `target` (lists, categories) is p, the shares in the user's clicks."""
        self._relevance, self._category, self._target, self._diversity = relevance, category, target, diversity
        self._counts = np.zeros_like(target)
        self._lists = np.arange(len(target))

    def values(self) -> Floats:
        """Return relevance less the divergence of the list with the candidate from the user's clicks."""
        placed = self._counts.sum(axis=1, keepdims=True) + 1
        without = divergence_terms(self._target, self._counts / placed)
        with_one_more = divergence_terms(self._target, (self._counts + 1) / placed)
        # KL(p || q) if the next story has this category: only one term of the sum changes
        divergence = without.sum(axis=1, keepdims=True) - without + with_one_more  # (lists, categories)
        return (1 - self._diversity) * self._relevance - self._diversity * np.take_along_axis(
            divergence, self._category, axis=1
        )

    def place(self, chosen: Ints) -> None:
        """Count the categories of the chosen stories."""
        self._counts[self._lists, self._category[self._lists, chosen]] += 1


def divergence_terms(target: Floats, shares: Floats) -> Floats:
    """Return the terms of KL(p || q) by category, from p and the shares in the list."""
    mixed = (1 - SMOOTHING) * shares + SMOOTHING * target
    wanted = target > 0
    ratio = np.divide(target, mixed, out=np.ones_like(mixed), where=wanted)
    return target * np.log(ratio)


def scaled(scores: Floats, mask: Mask | None = None) -> Floats:
    """Return the scores of each list scaled to 0 to 1; 0 for lists of equal scores. Masked-out ones do not count."""
    scores = np.asarray(scores, dtype=np.float64)
    kept = np.ones(scores.shape, dtype=np.bool_) if mask is None else mask
    low = scores.min(axis=1, keepdims=True, initial=np.inf, where=kept)
    high = scores.max(axis=1, keepdims=True, initial=-np.inf, where=kept)
    span = np.where(high > low, high - low, 1.0)
    return np.where(kept, scores - np.where(np.isfinite(low), low, 0.0), 0.0) / span


def rerank(placing: Placing, mask: Mask) -> Ints:
    """Return (lists, candidates): the candidates of each list in their new order, then those masked out.

    Candidates are given in the order of the model, and `mask` says which of them are real.
    """
    lists, size = np.arange(len(mask)), mask.shape[1]
    order = np.empty(mask.shape, dtype=np.int64)
    open_places, masked = mask.copy(), ~mask
    for place in range(size):
        values = np.where(open_places, placing.values(), -np.inf)
        exhausted = ~open_places.any(axis=1)
        chosen = np.where(exhausted, masked.argmax(axis=1), values.argmax(axis=1))
        order[:, place] = chosen
        open_places[lists, chosen] = masked[lists, chosen] = False
        if place + 1 < size:
            placing.place(chosen)
    return order

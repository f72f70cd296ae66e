"""DKN as its paper prints it, one float at a time: for one user, one candidate, and no padding anywhere.

Weights are nested lists named as in the model's state. The first layer of each network reads [a; b] whole. Entities
have filters of their own. A title without words or entities has a learned vector in the place of their maxima; so has,
in the first layer of the prediction network, a user who clicked nothing.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, add, dot, linear, mix, part, softmax, tanh
from reference.word_loops import convolution, relu, word_vectors


class News(NamedTuple):
    """One news: its words and entities are rows of tables; `entities` is None where they are not read."""

    words: list[int]
    entities: list[int] | None = None


def maxima(weights: Weights, items: Sequence[Vector], window: int) -> list[float]:
    """The largest value of each filter, those of width 1 first."""
    if not items:
        return list(weights["nothing"])
    found: list[float] = []
    for width in range(1, window + 1):
        values = convolution(part(weights, f"convolutions.{width - 1}"), items, width)
        found += [max(column) for column in zip(*values, strict=True)]
    return found


def news(weights: Weights, one: News, window: int) -> list[float]:
    """e(t)."""
    found = maxima(part(weights, "title"), word_vectors(part(weights, "words"), one.words), window)
    if one.entities is not None:
        own = part(weights, "entities")
        vectors = word_vectors(part(own, "vectors"), one.entities)
        # g(e) = tanh(M e + b)
        found += maxima(part(own, "kcnn"), [tanh(linear(own, "transform", vector)) for vector in vectors], 1)
    return found


def first_layer(weights: Weights, clicked: Vector, candidate: Vector) -> list[float]:
    """W [a; b], W being both halves side by side."""
    halves = zip(weights["clicked.weight"], weights["candidate.weight"], strict=True)
    return [dot([*first, *second], [*clicked, *candidate]) for first, second in halves]


def normal(weights: Weights, x: Sequence[float]) -> list[float]:
    """Batch normalisation, by the mean and the variance of the weights."""
    return [
        scale * (number - mean) / math.sqrt(variance + 1e-4) + shift
        for number, mean, variance, scale, shift in zip(
            x, weights["mean"], weights["variance"], weights["scale"], weights["shift"], strict=True
        )
    ]


def attention(weights: Weights, clicked: Vector, candidate: Vector) -> float:
    """H: how much a clicked news has to do with the candidate."""
    own = part(weights, "attention")
    hidden = relu(normal(own, first_layer(own, clicked, candidate)))
    return dot(own["out.weight"][0], hidden)


def clicks(weights: Weights, clicked: Sequence[Vector], candidate: Vector) -> list[float]:
    """s: how much each clicked news counts for the candidate."""
    return softmax([attention(weights, one, candidate) for one in clicked])


def prediction_layer(weights: Weights, clicked: Sequence[Vector], candidate: Vector) -> list[float]:
    """W [e(i); e(t_j)] of the prediction network."""
    own = part(weights, "prediction")
    if clicked:
        return first_layer(own, mix(clicks(weights, clicked, candidate), clicked), candidate)
    return add(weights["nothing"], [dot(row, candidate) for row in own["candidate.weight"]])


def score(weights: Weights, clicked: Sequence[News], candidate: News, window: int) -> float:
    """G(e(i), e(t_j))."""
    own = part(weights, "prediction")
    vectors = [news(weights, one, window) for one in clicked]
    hidden = normal(own, prediction_layer(weights, vectors, news(weights, candidate, window)))
    return dot(own["out.weight"][0], [1 / (1 + math.exp(-x)) for x in hidden])

"""DKN as its paper prints it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. The first layer of each network reads [a; b]. Entities have
their own filters. A title without words or entities has a learned vector instead of the maxima, and a user who clicked
nothing has one in the first layer of the prediction network.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, add, dot, linear, mix, part, softmax, tanh
from reference.word_loops import convolution, relu, word_vectors


class Story(NamedTuple):
    """Words and entities are rows of tables; `entities` is None if they are not read."""

    words: list[int]
    entities: list[int] | None = None


def maxima(weights: Weights, items: Sequence[Vector], window: int) -> list[float]:
    """The maximum of each filter, from width 1 up."""
    if not items:
        return list(weights["nothing"])
    result: list[float] = []
    for width in range(1, window + 1):
        values = convolution(part(weights, f"convolutions.{width - 1}"), items, width)
        result += [max(column) for column in zip(*values, strict=True)]
    return result


def encode_story(weights: Weights, story: Story, window: int) -> list[float]:
    """e(t)."""
    result = maxima(part(weights, "title"), word_vectors(part(weights, "words"), story.words), window)
    if story.entities is not None:
        own = part(weights, "entities")
        vectors = word_vectors(part(own, "vectors"), story.entities)
        # g(e) = tanh(M e + b)
        result += maxima(part(own, "kcnn"), [tanh(linear(own, "transform", vector)) for vector in vectors], 1)
    return result


def first_layer(weights: Weights, clicked: Vector, candidate: Vector) -> list[float]:
    """W [a; b] with both halves of W concatenated."""
    halves = zip(weights["clicked.weight"], weights["candidate.weight"], strict=True)
    return [dot([*first, *second], [*clicked, *candidate]) for first, second in halves]


def normal(weights: Weights, x: Sequence[float]) -> list[float]:
    """Batch normalisation with the running mean and variance."""
    return [
        scale * (number - mean) / math.sqrt(variance + 1e-4) + shift
        for number, mean, variance, scale, shift in zip(
            x, weights["mean"], weights["variance"], weights["scale"], weights["shift"], strict=True
        )
    ]


def attention(weights: Weights, clicked: Vector, candidate: Vector) -> float:
    """H: the logit of a clicked story for the candidate."""
    own = part(weights, "attention")
    hidden = relu(normal(own, first_layer(own, clicked, candidate)))
    return dot(own["out.weight"][0], hidden)


def clicks(weights: Weights, clicked: Sequence[Vector], candidate: Vector) -> list[float]:
    """s: the weight of each clicked story for the candidate."""
    return softmax([attention(weights, story, candidate) for story in clicked])


def prediction_layer(weights: Weights, clicked: Sequence[Vector], candidate: Vector) -> list[float]:
    """W [e(i); e(t_j)] of the prediction network."""
    own = part(weights, "prediction")
    if clicked:
        return first_layer(own, mix(clicks(weights, clicked, candidate), clicked), candidate)
    return add(weights["nothing"], [dot(row, candidate) for row in own["candidate.weight"]])


def score(weights: Weights, clicked: Sequence[Story], candidate: Story, window: int) -> float:
    """G(e(i), e(t_j))."""
    own = part(weights, "prediction")
    vectors = [encode_story(weights, story, window) for story in clicked]
    hidden = normal(own, prediction_layer(weights, vectors, encode_story(weights, candidate, window)))
    return dot(own["out.weight"][0], [1 / (1 + math.exp(-x)) for x in hidden])

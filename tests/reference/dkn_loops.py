"""DKN as its paper prints it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. A filter has a weight for each channel, position and number of a
window, and sums over all three. The first layer of each network reads [a; b]. A title without words has a learned
vector instead of the maxima, and a user who clicked nothing has one in the first layer of the prediction network.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, add, dot, linear, mix, part, softmax, tanh
from reference.word_loops import relu, word_vectors


class Story(NamedTuple):
    """Words, and the entity that each word names, are rows of tables; entity 0 is none."""

    words: list[int]
    entities: list[int]


def channels(weights: Weights, story: Story) -> list[list[Vector]]:
    """The vectors of all words, for each channel: w_i, then g(e_i), then g of the context, as far as there are any."""
    result = [word_vectors(part(weights, "words"), story.words)]
    for name in ("entities", "contexts"):
        own = part(weights, f"knowledge.{name}")
        if own:
            table = own["vectors.table.weight" if "vectors.table.weight" in own else "vectors.table"]
            zero = [0.0] * len(table[0])
            vectors = [table[entity] if entity else zero for entity in story.entities]
            # g(e) = tanh(M e + b), e = 0 for a word that names no entity
            result.append([tanh(linear(own, "transform", vector)) for vector in vectors])
    return result


def filtered(weights: Weights, stacked: Sequence[Sequence[Vector]], width: int) -> list[list[float]]:
    """ReLU(h * W_[i:i+l-1] + b) at each word, for each filter h; words beyond the ends are zeros."""
    result = []
    for i in range(len(stacked[0])):
        first, total = i - (width - 1) // 2, list(weights["filters.bias"])
        for f, row in enumerate(weights["filters.weight"]):
            numbers = iter(row)  # the weights of a filter: position by position, channel by channel
            for place in range(first, first + width):
                for channel in stacked:
                    inside = 0 <= place < len(channel)
                    for x in channel[place] if inside else [0.0] * len(channel[0]):
                        total[f] += next(numbers) * x
            assert next(numbers, None) is None
        result.append(relu(total))
    return result


def encode_story(weights: Weights, story: Story, window: int) -> list[float]:
    """e(t): the maximum of each filter over the words, from width 1 up."""
    own = part(weights, "title")
    if not story.words:
        return list(own["nothing"])
    result: list[float] = []
    for width in range(1, window + 1):
        values = filtered(part(own, f"convolutions.{width - 1}"), channels(weights, story), width)
        result += [max(column) for column in zip(*values, strict=True)]
    return result


def first_layer(weights: Weights, clicked: Vector, candidate: Vector) -> list[float]:
    """W [a; b] with both halves of W concatenated."""
    halves = zip(weights["clicked.weight"], weights["candidate.weight"], strict=True)
    return [dot([*first, *second], [*clicked, *candidate]) for first, second in halves]


def normal(weights: Weights, x: Sequence[float]) -> list[float]:
    """Batch normalisation with the running mean and variance; without it, a bias."""
    if "mean" not in weights:
        return add(weights["shift"], x)
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

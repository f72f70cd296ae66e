"""NAML as its paper prints it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. A text without words, and a user who clicked nothing, have a
learned vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Aggregated, Vector, Weights, dot, linear, mix, part, softmax, tanh
from reference.word_loops import convolution, relu, word_vectors


class Story(NamedTuple):
    """Words and labels are rows of tables; label 0 means none. `abstract` is None if it is not read."""

    words: list[int]
    category: int
    subcategory: int
    abstract: list[int] | None = None


def additive_attention(weights: Weights, items: Sequence[Vector]) -> Aggregated:
    """The sum of alpha_i times each item with alpha = softmax of q^T tanh(V i + v)."""
    query = weights["gate.weight"][0]
    alpha = softmax([dot(query, tanh(linear(weights, "hidden", item))) for item in items])
    return Aggregated(mix(alpha, items), alpha)


def text(weights: Weights, words: Sequence[Vector], window: int) -> Vector:
    """r^t, or the vector of the abstract."""
    if not words:
        nothing: Vector = weights["nothing"]
        return nothing
    context = convolution(part(weights, "convolution"), words, window)
    return additive_attention(part(weights, "aggregate"), context).vector


def label(weights: Weights, row: int) -> Vector:
    """r^c or the vector of the subcategory: ReLU(V_c e_c + v_c)."""
    size = len(weights["table.weight"][0])
    return relu(linear(weights, "dense", weights["table.weight"][row] if row else [0.0] * size))


def views(weights: Weights, story: Story, window: int) -> list[Vector]:
    words = part(weights, "words")
    result = [
        text(part(weights, "title"), word_vectors(words, story.words), window),
        label(part(weights, "category"), story.category),
        label(part(weights, "subcategory"), story.subcategory),
    ]
    if story.abstract is not None:
        result.append(text(part(weights, "abstract"), word_vectors(words, story.abstract), window))
    return result


def encode_story(weights: Weights, story: Story, window: int) -> Aggregated:
    """r, and the weight of each view."""
    return additive_attention(part(weights, "views"), views(weights, story, window))


def user(weights: Weights, clicked: Sequence[Story], window: int) -> Vector:
    """u."""
    if not clicked:
        nothing: Vector = weights["nothing"]
        return nothing
    return additive_attention(
        part(weights, "user"), [encode_story(weights, story, window).vector for story in clicked]
    ).vector


def score(weights: Weights, clicked: Sequence[Story], candidate: Story, window: int) -> float:
    """u^T r."""
    return dot(user(weights, clicked, window), encode_story(weights, candidate, window).vector)

"""NAML as its paper prints it, one float at a time: for one user, one candidate, and no padding anywhere.

Weights are nested lists named as in the model's state. A text without words, and a user who clicked nothing, have a
learned vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Aggregated, Vector, Weights, dot, linear, mix, part, softmax, tanh
from reference.word_loops import convolution, relu, word_vectors


class News(NamedTuple):
    """One news: words and labels are rows of tables; label 0 is none. `abstract` is None where it is no view."""

    words: list[int]
    category: int
    subcategory: int
    abstract: list[int] | None = None


def additive_attention(weights: Weights, items: Sequence[Vector]) -> Aggregated:
    """The sum of alpha_i times each item, alpha being the softmax of q^T tanh(V i + v)."""
    query = weights["gate.weight"][0]
    alpha = softmax([dot(query, tanh(linear(weights, "hidden", item))) for item in items])
    return Aggregated(mix(alpha, items), alpha)


def text(weights: Weights, words: Sequence[Vector], window: int) -> Vector:
    """r^t, or that of the abstract."""
    if not words:
        nothing: Vector = weights["nothing"]
        return nothing
    context = convolution(part(weights, "convolution"), words, window)
    return additive_attention(part(weights, "aggregate"), context).vector


def label(weights: Weights, row: int) -> Vector:
    """r^c, or that of the subcategory: ReLU(V_c e_c + v_c)."""
    size = len(weights["table.weight"][0])
    return relu(linear(weights, "dense", weights["table.weight"][row] if row else [0.0] * size))


def views(weights: Weights, one: News, window: int) -> list[Vector]:
    words = part(weights, "words")
    found = [
        text(part(weights, "title"), word_vectors(words, one.words), window),
        label(part(weights, "category"), one.category),
        label(part(weights, "subcategory"), one.subcategory),
    ]
    if one.abstract is not None:
        found.append(text(part(weights, "abstract"), word_vectors(words, one.abstract), window))
    return found


def news(weights: Weights, one: News, window: int) -> Aggregated:
    """r, and how much each view counts."""
    return additive_attention(part(weights, "views"), views(weights, one, window))


def user(weights: Weights, clicked: Sequence[News], window: int) -> Vector:
    """u."""
    if not clicked:
        nothing: Vector = weights["nothing"]
        return nothing
    return additive_attention(part(weights, "user"), [news(weights, one, window).vector for one in clicked]).vector


def score(weights: Weights, clicked: Sequence[News], candidate: News, window: int) -> float:
    """u^T r."""
    return dot(user(weights, clicked, window), news(weights, candidate, window).vector)

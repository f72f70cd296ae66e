"""NPA as its paper prints it, one float at a time: for one user, one candidate, and no padding anywhere.

Weights are nested lists named as in the model's state. An attention over nothing gives a learned vector.
"""

from collections.abc import Sequence

from reference.drpn_loops import Aggregated, Vector, Weights, dot, linear, mix, part, softmax, tanh
from reference.lstur_loops import convolution, word_vectors


def user_vector(weights: Weights, row: int) -> Vector:
    """e_u; row 0 is a user that training never saw."""
    vector: Vector = weights["users.ids.table.weight"][row] if row else weights["users.ids.unknown"]
    return vector


def personal_attention(weights: Weights, user: Vector, items: Sequence[Vector]) -> Aggregated:
    """The sum of alpha_i times each item, alpha being the softmax of q^T tanh(W i + w), and q = ReLU(V e_u + v)."""
    if not items:
        return Aggregated(weights["nothing"], [])
    query = [max(x, 0.0) for x in linear(weights, "query", user)]
    alpha = softmax([dot(query, tanh(linear(weights, "key", item))) for item in items])
    return Aggregated(mix(alpha, items), alpha)


def news(weights: Weights, row: int, words: Sequence[int]) -> Aggregated:
    """r, as this user reads it, and how much each word counts."""
    vectors = word_vectors(part(weights, "words"), words)
    context = convolution(part(weights, "convolution"), vectors) if words else []
    return personal_attention(part(weights, "title"), user_vector(weights, row), context)


def score(weights: Weights, row: int, clicked: Sequence[Sequence[int]], candidate: Sequence[int]) -> float:
    """u^T r; news are given by their words."""
    read = [news(weights, row, words).vector for words in clicked]
    user = personal_attention(part(weights, "clicks"), user_vector(weights, row), read).vector
    return dot(user, news(weights, row, candidate).vector)

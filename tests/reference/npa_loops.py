"""NPA, one float at a time: one user, one candidate, no padding; logits as in the paper or as in the official code.

Weights are nested lists named as in the model's state. Attention over an empty sequence gives a learned vector.
"""

from collections.abc import Sequence

from reference.drpn_loops import Aggregated, Vector, Weights, dot, linear, mix, part, softmax, tanh
from reference.lstur_loops import convolution, word_vectors


def user_vector(weights: Weights, row: int) -> Vector:
    """e_u; row 0 is an unknown user."""
    vector: Vector = weights["users.ids.table.weight"][row] if row else weights["users.ids.unknown"]
    return vector


def paper_logits(weights: Weights, user: Vector, items: Sequence[Vector]) -> list[float]:
    """c^T tanh(W_p q + w_p) of each item c with q = ReLU(V e_u + v), as the paper prints it."""
    q = [max(x, 0.0) for x in linear(weights, "preference", user)]
    return [dot(item, tanh(linear(weights, "query", q))) for item in items]


def code_logits(weights: Weights, user: Vector, items: Sequence[Vector]) -> list[float]:
    """q^T tanh(W c + b) of each item c with q = V e_u + v, as the official code has it."""
    q = linear(weights, "query", user)
    return [dot(q, tanh(linear(weights, "key", item))) for item in items]


def personal_attention(weights: Weights, user: Vector, items: Sequence[Vector]) -> Aggregated:
    """The sum of alpha_i times each item with alpha the softmax of the logits."""
    if not items:
        return Aggregated(weights["nothing"], [])
    logits = paper_logits if "preference.weight" in weights else code_logits
    alpha = softmax(logits(weights, user, items))
    return Aggregated(mix(alpha, items), alpha)


def encode_story(weights: Weights, row: int, words: Sequence[int]) -> Aggregated:
    """r for this user, and the weight of each word."""
    vectors = word_vectors(part(weights, "words"), words)
    context = convolution(part(weights, "convolution"), vectors) if words else []
    return personal_attention(part(weights, "title"), user_vector(weights, row), context)


def score(weights: Weights, row: int, clicked: Sequence[Sequence[int]], candidate: Sequence[int]) -> float:
    """u^T r; stories are lists of words."""
    read = [encode_story(weights, row, words).vector for words in clicked]
    user = personal_attention(part(weights, "clicks"), user_vector(weights, row), read).vector
    return dot(user, encode_story(weights, row, candidate).vector)

"""NRMS as its paper prints it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. The matrix Q_k of each head is multiplied out first, and V_k
is applied to the sum of the attention. Attention over an empty sequence gives a learned vector.
"""

import math
from collections.abc import Sequence
from typing import Any

from reference.drpn_loops import Vector, Weights, add, dot, mix, part, softmax, tanh

Matrix = list[list[float]]


def times(matrix: Sequence[Vector], vector: Vector) -> list[float]:
    return [dot(row, vector) for row in matrix]


def head_rows(weights: Weights, name: str, k: int, heads: int) -> Matrix:
    """The part of the k-th head in a matrix of all heads."""
    matrix: Matrix = weights[f"attention.{name}.weight"]
    size = len(matrix) // heads
    return matrix[k * size : (k + 1) * size]


def bilinear(weights: Weights, k: int, heads: int) -> Matrix:
    """Q_k, a square matrix of the size of the items."""
    query, key = head_rows(weights, "query", k, heads), head_rows(weights, "key", k, heads)
    size, width = len(query), len(query[0])
    return [
        [sum(query[d][a] * key[d][b] for d in range(size)) / math.sqrt(size) for b in range(width)]
        for a in range(width)
    ]


def self_attention(weights: Weights, items: Sequence[Vector], heads: int) -> Matrix:
    """h_i of every item: h_{i,k} = V_k (sum of alpha^k_{i,j} e_j), all heads concatenated."""
    result: Matrix = [[] for _ in items]
    for k in range(heads):
        q, v = bilinear(weights, k, heads), head_rows(weights, "value", k, heads)
        for i, item in enumerate(items):
            alpha = softmax([dot(item, times(q, other)) for other in items])
            result[i] += times(v, mix(alpha, items))
    return result


def additive_attention(weights: Weights, items: Sequence[Vector]) -> list[float]:
    """The sum of alpha_i h_i with alpha = softmax of q^T tanh(V h_i + v)."""
    v, bias = weights["aggregate.hidden.weight"], weights["aggregate.hidden.bias"]
    query = weights["aggregate.gate.weight"][0]
    return mix(softmax([dot(query, tanh(add(times(v, item), bias))) for item in items]), items)


def encode(weights: Weights, items: Sequence[Vector], heads: int) -> Any:
    """A sequence as one vector."""
    if not items:
        return weights["nothing"]
    return additive_attention(weights, self_attention(weights, items, heads))


def encode_story(weights: Weights, words: Sequence[int], heads: int) -> Vector:
    """r: section 2.1."""
    vectors = [weights["words.table.weight"][word] for word in words]
    if "words.project.weight" in weights:
        vectors = [times(weights["words.project.weight"], vector) for vector in vectors]
    vector: Vector = encode(part(weights, "title"), vectors, heads)
    return vector


def score(weights: Weights, clicked: Sequence[Sequence[int]], candidate: Sequence[int], heads: int) -> float:
    """u^T r: section 2.3; stories are lists of words."""
    read = [encode_story(weights, words, heads) for words in clicked]
    return dot(encode(part(weights, "user"), read, heads), encode_story(weights, candidate, heads))

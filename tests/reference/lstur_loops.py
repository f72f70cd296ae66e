"""LSTUR as its paper prints it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. The loops depart from the paper where the model does; see its
module.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, dot, linear, mix, part, softmax, tanh


class Story(NamedTuple):
    """Words are rows of a table, without padding; category 0 means none."""

    words: list[int]
    category: int
    subcategory: int


def word_vectors(weights: Weights, words: Sequence[int]) -> list[Vector]:
    vectors: list[Vector] = [weights["table.weight"][word] for word in words]
    return [linear(weights, "project", vector) for vector in vectors] if "project.weight" in weights else vectors


def convolution(weights: Weights, vectors: Sequence[Vector]) -> list[list[float]]:
    """c_i = ReLU(C [w_(i-M); ...; w_(i+M)] + b); words beyond the ends are zero."""
    size = len(vectors[0])
    reach = (len(weights["filters.weight"][0]) // size - 1) // 2
    result: list[list[float]] = []
    for i in range(len(vectors)):
        result.append([])
        for filter_row, bias in zip(weights["filters.weight"], weights["filters.bias"], strict=True):
            total = bias
            for offset in range(-reach, reach + 1):
                if 0 <= i + offset < len(vectors):
                    at = (offset + reach) * size
                    total += dot(filter_row[at : at + size], vectors[i + offset])
            result[-1].append(max(total, 0.0))
    return result


def title(weights: Weights, words: Sequence[int]) -> Vector:
    """e_t."""
    own = part(weights, "title")
    if not words:
        untitled: Vector = own["nothing"]
        return untitled
    context = convolution(part(own, "convolution"), word_vectors(part(weights, "words"), words))
    if "aggregate.hidden.weight" in own:  # the official code: q^T tanh(V c_i + v)
        query = own["aggregate.gate.weight"][0]
        logits = [dot(query, tanh(linear(own, "aggregate.hidden", vector))) for vector in context]
    else:  # the paper: tanh(v^T c_i + v_b)
        logits = [math.tanh(linear(own, "aggregate.gate", vector)[0]) for vector in context]
    return mix(softmax(logits), context)


def encode_story(weights: Weights, story: Story) -> list[float]:
    """e = [e_t; e_v; e_sv], or e_t alone in a model without categories."""
    result = list(title(weights, story.words))
    for name, row in (("category", story.category), ("subcategory", story.subcategory)):
        if table := weights.get(f"{name}.table.weight"):
            result += table[row] if row else [0.0] * len(table[0])
    return result


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gru(weights: Weights, state: Vector, items: Sequence[Vector]) -> Vector:
    """h_k, one number of the state at a time."""
    for item in items:
        gates, own = linear(weights, "items", item), linear(weights, "state", state)
        size = len(state)
        moved = []
        for i in range(size):
            reset = sigmoid(gates[i] + own[i])
            update = sigmoid(gates[size + i] + own[size + i])
            new = math.tanh(gates[2 * size + i] + reset * own[2 * size + i])
            moved.append((1 - update) * new + update * state[i])
        state = moved
    return state


def user(weights: Weights, row: int, clicked: Sequence[Story], combine: str) -> Vector:
    """u, combined in one of the two ways; row 0 is an unknown user."""
    long: Vector = weights["users.ids.table.weight"][row] if row else weights["users.ids.unknown"]
    items = [encode_story(weights, story) for story in clicked]
    if combine == "ini":
        return gru(part(weights, "recent"), long, items)
    if not items:
        return [*weights["nothing"], *long]
    size = len(weights["nothing"])
    return [*gru(part(weights, "recent"), [0.0] * size, items), *long]


def score(weights: Weights, row: int, clicked: Sequence[Story], candidate: Story, combine: str) -> float:
    """u^T e."""
    return dot(user(weights, row, clicked, combine), encode_story(weights, candidate))

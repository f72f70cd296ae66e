"""GERL as its paper prints it, one float at a time: one user, one candidate, no padding.

Weights are nested lists named as in the model's state. The matrix of each head is multiplied out first. Attention over
an empty sequence gives a learned vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, add, dot, mix, part, softmax, tanh
from reference.nrms_loops import self_attention, times


class Story(NamedTuple):
    """Words, topic, and the rows of the neighbours' ids."""

    words: list[int]
    topic: int
    neighbours: list[int]


class Reader(NamedTuple):
    """A user's row (0 if unknown), the clicked stories, and the rows of neighbour users."""

    row: int
    clicked: list[Story]
    neighbours: list[int]


def attention(weights: Weights, gate: str, items: Sequence[Vector], nothing: str) -> Vector:
    """The sum of beta_i x_i with beta = softmax of q^T tanh(W x_i + w)."""
    if not items:
        learned: Vector = weights[nothing]
        return learned
    matrix, bias = weights[f"{gate}.hidden.weight"], weights[f"{gate}.hidden.bias"]
    query = weights[f"{gate}.gate.weight"][0]
    return mix(softmax([dot(query, tanh(add(times(matrix, item), bias))) for item in items]), items)


def encode_story(weights: Weights, story: Story, heads: int) -> Vector:
    """v = [v_t; v_p]."""
    own = part(weights, "news")
    words = [own["words.table.weight"][word] for word in story.words]
    if "words.project.weight" in own:
        words = [times(own["words.project.weight"], word) for word in words]
    context = self_attention(own, words, heads)
    return [*attention(own, "aggregate", context, "untitled"), *own["topics.weight"][story.topic]]


def hop(weights: Weights, name: str, items: Sequence[Vector]) -> Vector:
    """The attention with that name."""
    return attention(part(weights, name), "gate", items, "nothing")


def user(weights: Weights, reader: Reader, heads: int) -> list[float]:
    """u = [u_t^O; u_e^O; u_e^T]."""
    table = weights["users.ids.table.weight"]
    own = table[reader.row] if reader.row else weights["users.ids.unknown"]
    semantic = hop(weights, "clicked", [encode_story(weights, story, heads) for story in reader.clicked])
    return [*semantic, *own, *hop(weights, "neighbour_users", [table[row] for row in reader.neighbours])]


def candidate(weights: Weights, story: Story, neighbours: Sequence[Story], heads: int) -> list[float]:
    """n = [n_t^O; n_t^T; n_e^T]; `neighbours` are those that are encoded."""
    ids = [weights["news_ids.weight"][row] for row in story.neighbours]
    titles = hop(weights, "neighbour_news", [encode_story(weights, neighbour, heads) for neighbour in neighbours])
    return [*encode_story(weights, story, heads), *titles, *hop(weights, "neighbour_ids", ids)]


def score(weights: Weights, reader: Reader, story: Story, neighbours: Sequence[Story], heads: int) -> float:
    """u^T n."""
    return dot(user(weights, reader, heads), candidate(weights, story, neighbours, heads))

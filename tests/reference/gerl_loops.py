"""GERL as its paper prints it, one float at a time: for one user, one candidate, and no padding anywhere.

Weights are nested lists named as in the model's state. Each head's matrix is made whole first. An attention over
nothing gives a learned vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, add, dot, mix, part, softmax, tanh
from reference.nrms_loops import self_attention, times


class Story(NamedTuple):
    """One news: its words, its topic, and the rows of its neighbours' ids."""

    words: list[int]
    topic: int
    neighbours: list[int]


class Reader(NamedTuple):
    """One user: their row (0 where it is not known), what they clicked, and the rows of their neighbours."""

    row: int
    clicked: list[Story]
    neighbours: list[int]


def attention(weights: Weights, gate: str, items: Sequence[Vector], nothing: str) -> Vector:
    """The sum of beta_i x_i, beta being the softmax of q^T tanh(W x_i + w)."""
    if not items:
        learned: Vector = weights[nothing]
        return learned
    matrix, bias = weights[f"{gate}.hidden.weight"], weights[f"{gate}.hidden.bias"]
    query = weights[f"{gate}.gate.weight"][0]
    return mix(softmax([dot(query, tanh(add(times(matrix, item), bias))) for item in items]), items)


def news(weights: Weights, story: Story, heads: int) -> Vector:
    """v = [v_t; v_p]."""
    own = part(weights, "news")
    words = [own["words.table.weight"][word] for word in story.words]
    if "words.project.weight" in own:
        words = [times(own["words.project.weight"], word) for word in words]
    context = self_attention(own, words, heads)
    return [*attention(own, "aggregate", context, "untitled"), *own["topics.weight"][story.topic]]


def hop(weights: Weights, name: str, items: Sequence[Vector]) -> Vector:
    """The attention of that name."""
    return attention(part(weights, name), "gate", items, "nothing")


def user(weights: Weights, reader: Reader, heads: int) -> list[float]:
    """u = [u_t^O; u_e^O; u_e^T]."""
    table = weights["users.ids.table.weight"]
    own = table[reader.row] if reader.row else weights["users.ids.unknown"]
    semantic = hop(weights, "clicked", [news(weights, story, heads) for story in reader.clicked])
    return [*semantic, *own, *hop(weights, "neighbour_users", [table[row] for row in reader.neighbours])]


def candidate(weights: Weights, story: Story, neighbours: Sequence[Story], heads: int) -> list[float]:
    """n = [n_t^O; n_t^T; n_e^T]; `neighbours` are those whose titles are at hand."""
    ids = [weights["news_ids.weight"][row] for row in story.neighbours]
    titles = hop(weights, "neighbour_news", [news(weights, one, heads) for one in neighbours])
    return [*news(weights, story, heads), *titles, *hop(weights, "neighbour_ids", ids)]


def score(weights: Weights, reader: Reader, story: Story, neighbours: Sequence[Story], heads: int) -> float:
    """u^T n."""
    return dot(user(weights, reader, heads), candidate(weights, story, neighbours, heads))

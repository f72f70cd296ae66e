"""The features of a story as vectors, one float at a time; weights are nested lists named as in a model's state."""

from collections.abc import Sequence
from typing import NamedTuple

from reference.drpn_loops import Vector, Weights, linear


class Story(NamedTuple):
    """Words are rows of a table, without padding; a story that was not seen has no row."""

    words: list[int]
    row: int
    category: int
    subcategory: int
    seen: bool = True


def mean(vectors: Sequence[Vector]) -> list[float]:
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def relu(vector: Vector) -> list[float]:
    return [max(x, 0.0) for x in vector]


def word(weights: Weights, row: int) -> Vector:
    """The vector of a word, after its weight if words have weights."""
    vector: Vector = weights["words.table.weight"][row]
    if "words.project.weight" in weights:
        vector = linear(weights, "words.project", vector)
    return [*weights["word_weights.weight"][row], *vector] if "word_weights.weight" in weights else vector


def fields(weights: Weights, story: Story) -> list[Vector]:
    """Title, id, category, subcategory."""
    return [
        mean([word(weights, row) for row in story.words]) if story.words else weights["untitled"],
        weights["ids.table.weight"][story.row] if story.seen else weights["ids.unknown"],
        weights["category.weight"][story.category],
        weights["subcategory.weight"][story.subcategory],
    ]

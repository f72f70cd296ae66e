"""Readers with tastes, for generated data that contain something to learn.

A story's vector is that of its topic plus a part of its own, which its title does not tell. A reader likes two to four
topics. Among the stories shown to a reader, those with the largest utility + Gumbel noise are clicked, where

    utility = STRENGTH * <reader, story> + appeal of the story
"""

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from draws import Ragged, zipf

SIZE = 16
"""Numbers of a vector."""
OWN = 0.6
"""Share of a story's vector that is its own."""
STRENGTH, APPEAL = 5.0, 0.5
"""Weight of taste, and standard deviation of the stories' appeal."""
CHUNK = 2**20
"""Pairs of a reader and a story that are compared at once."""


class Tastes:
    """The vectors of readers and stories; row 0 of each is padding."""

    def __init__(self, users: int, news: int, topics: int, rng: Generator) -> None:
        self._rng = rng
        by_topic = _unit(rng.standard_normal((topics, SIZE)))
        self.topics = zipf(topics, news, rng)
        """The topic of each story, without the padding row."""
        own = _unit(rng.standard_normal((news, SIZE)))
        self._stories = _padded(_unit((1 - OWN**2) ** 0.5 * by_topic[self.topics] + OWN * own))
        liked, others = zipf(topics, 4 * users, rng).reshape(users, 4), rng.integers(2, 5, users)
        among = np.arange(4) < others[:, None]
        self._readers = _padded(_unit((by_topic[liked] * among[..., None]).sum(1)))
        self._appeal = np.concatenate([[0], rng.normal(0, APPEAL, news)]).astype(np.float32)

    def ranks(self, readers: NDArray[np.int64], shown: Ragged) -> NDArray[np.int64]:
        """The place of each shown story in its reader's order of noisy utility, from 0; one reader a sequence."""
        sizes = np.diff(shown.offsets)
        utility = self.utility(np.repeat(readers, sizes), shown.flat) + self._rng.gumbel(size=len(shown.flat))
        # one sort: sequences one after the other, each by falling utility
        order = np.argsort(np.repeat(np.arange(len(sizes)), sizes) + 1 / (1 + np.exp(utility)), kind="stable")
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order)) - np.repeat(shown.offsets[:-1], sizes)
        return ranks

    def utility(self, readers: NDArray[np.int64], stories: NDArray[np.int32]) -> NDArray[np.float64]:
        """The worth of each story to its reader, without noise."""
        parts = [
            STRENGTH * np.einsum("nd,nd->n", self._readers[readers[part]], self._stories[stories[part]])
            + self._appeal[stories[part]]
            for part in _slices(len(stories))
        ]
        return np.concatenate(parts).astype(np.float64)


def clicked_first(shown: Ragged, ranks: NDArray[np.int64], clicked: NDArray[np.int64]) -> Ragged:
    """The same sequences with the `clicked` best stories of each in front; their order tells nothing else."""
    sizes = np.diff(shown.offsets)
    skipped = ranks >= np.repeat(clicked, sizes)
    order = np.argsort(2 * np.repeat(np.arange(len(sizes)), sizes) + skipped, kind="stable")
    return Ragged(shown.offsets, shown.flat[order])


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _padded(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.concatenate([np.zeros((1, vectors.shape[1])), vectors]).astype(np.float32)


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))

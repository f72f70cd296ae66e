"""The contract of a click model: what depends on the news alone is computed once per news, and what depends on the user
alone once per user."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from drpn.batches.batch import Batch, NewsRows

Encoded = Any
"""Tensors whose first axis is the news; a tensor, or named tuples of tensors."""
Readers = Any
"""Tensors whose first axis is the users; a tensor, or named tuples of tensors."""


@dataclass(frozen=True)
class DataShape:
    """How many rows each table has, padding included: what a model must know of its data."""

    news: int
    words: int
    users: int
    categories: int
    subcategories: int
    vectors: NDArray[np.float32] | None = None
    """Pre-trained word vectors, one for each word; zeros where there is none."""
    entities: int = 0
    """0 where the dataset has no entities."""
    entity_vectors: NDArray[np.float32] | None = None
    """Likewise of entities."""


class ClickModel(nn.Module, ABC):
    """Scores candidates for users."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Which sequences of a profile the model looks at; the others need not be there."""
        return ("clicked", "skipped")

    @property
    def needs(self) -> tuple[str, ...]:
        """What of `batches.tables.NEEDS` the dataset must have.

        With "news_neighbours" the graph neighbours of candidates come along with every batch, so that `NewsRows.places`
        finds them.
        """
        return ()

    @abstractmethod
    def encode_news(self, news: NewsRows) -> Encoded:
        """What depends on the news alone."""

    @abstractmethod
    def read(self, encoded: Encoded, batch: Batch) -> Readers:
        """What depends on the user, whatever the candidates; positions of the batch point into what was encoded."""

    @abstractmethod
    def match(self, encoded: Encoded, readers: Readers, candidates: Int[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """The score of every candidate for its user."""

    def score(self, encoded: Encoded, batch: Batch) -> Float[Tensor, "B C"]:
        """The score of every candidate of a batch."""
        return self.match(encoded, self.read(encoded, batch), batch.candidates)

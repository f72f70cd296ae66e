"""The contract of a click model: two stages, so that what depends on the news alone is computed once per news."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from drpn.batches.batch import Batch, NewsRows

Encoded = Any
"""Tensors whose first axis is the news; a tensor, or named tuples of tensors."""


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


class ClickModel(nn.Module, ABC):
    """Scores candidates for users."""

    @abstractmethod
    def encode_news(self, news: NewsRows) -> Encoded:
        """What depends on the news alone."""

    @abstractmethod
    def score(self, encoded: Encoded, batch: Batch) -> Float[Tensor, "B C"]:
        """The score of every candidate; positions of the batch point into what was encoded."""

"""Taste vectors of stories, which `preparation.tastes` learns from clicks: sums of vectors of words and labels."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array

PREFIX = "counts/taste_"
"""How the names of the arrays begin in a dataset folder and in a bundle."""


@dataclass(frozen=True)
class TasteVectors:
    """Gives stories taste vectors; row 0 of each table is zero."""

    words: NDArray[np.float32]
    categories: NDArray[np.float32]
    subcategories: NDArray[np.float32]

    @classmethod
    def stored(cls, array: Callable[[str], Array]) -> "TasteVectors":
        """From arrays by name."""
        return cls(*(np.asarray(array(f"{PREFIX}{field.name}")) for field in fields(cls)))

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The tables by the names of their arrays."""
        return {f"{PREFIX}{field.name}": getattr(self, field.name) for field in fields(self)}

    def read(self, words: Array, category: Array, subcategory: Array) -> NDArray[np.float32]:
        """(stories, size): the mean vector of the words, plus those of category and subcategory."""
        count = np.maximum((np.asarray(words) > 0).sum(1, keepdims=True), 1)
        texts = [self.words[words[row]].sum(0) for row in range(len(words))]
        size = self.words.shape[1]
        mean = (np.stack(texts) if texts else np.zeros((0, size), np.float32)) / count
        result: NDArray[np.float32] = mean + self.categories[category] + self.subcategories[subcategory]
        return result.astype(np.float32)

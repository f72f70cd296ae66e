"""Vectors of texts that counts compare: sums of word vectors in which rare words weigh more."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.state.text_sums import units

SIZE = 64
"""Dimensions that are compared."""


@dataclass(frozen=True)
class TextVectors:
    """Gives texts unit vectors."""

    table: NDArray[np.float32]
    """(words, size): the weighted vector of each word; zeros for padding."""

    @classmethod
    def of(cls, vectors: Array, words: Array) -> "TextVectors":
        """From the vectors of words and the words of all stories; the fewer stories a word has, the more it weighs."""
        table = np.asarray(vectors)[:, :SIZE].astype(np.float32)
        stories_with = np.bincount(words.ravel(), minlength=len(table))
        weight = (np.log((len(words) + 1) / (stories_with + 1)) + 1).astype(np.float32)
        weight[0] = 0
        return cls(table * weight[:, None])

    def read(self, words: Array) -> NDArray[np.float32]:
        """(texts, size): the unit vector of each text; zeros without a word that has a vector."""
        sums = [self.table[words[row]].sum(0) for row in range(len(words))]
        return units(np.stack(sums) if sums else np.zeros((0, self.table.shape[1]), np.float32))

"""Word vectors from the titles of the log: words that occur in the same titles get similar vectors.

Latent semantic analysis (Deerwester et al., JASIS 1990): the leading right singular vectors of the TF-IDF matrix of
titles and words.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from drpn.dataset.vocabulary import UNKNOWN
from drpn.preparation.singular import rarity, right_singular_vectors, unit_rows
from drpn.preparation.vectors import WordVectors


def vectors_from_titles(titles: NDArray[np.int32], *, words: int, size: int) -> WordVectors:
    """A vector of norm 1 for every word of the titles (rows of the vocabulary), most important dimension first."""
    titles = titles[(titles > UNKNOWN).any(1)]
    matrix, in_titles = _tf_idf(titles, words)
    vectors = np.zeros((words, size), dtype=np.float32)
    rank = min(size, *matrix.shape)
    if len(titles) and in_titles.any():
        leading = right_singular_vectors(matrix, rank).numpy()
        vectors[:, :rank] = leading / np.maximum(np.linalg.norm(leading, axis=1, keepdims=True), 1e-12)
    vectors[~in_titles] = 0
    return WordVectors(vectors, in_titles & vectors.any(1))


def _tf_idf(titles: NDArray[np.int32], words: int) -> tuple[Tensor, NDArray[np.bool_]]:
    """(titles, words): sparse TF-IDF weights with rows of norm 1; and which words occur."""
    row, slot = np.nonzero(titles > UNKNOWN)
    pairs, counts = np.unique(row * np.int64(words) + titles[row, slot], return_counts=True)
    row, word = pairs // words, pairs % words
    weight = counts * rarity(word, rows=len(titles), columns=words)[word]
    return unit_rows(row, word, weight, (len(titles), words)), np.bincount(word, minlength=words) > 0

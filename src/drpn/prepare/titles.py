"""Word vectors from the titles of the log itself: words that stand in the same titles get vectors that are alike.

Titles as rows of TF-IDF weights, and the leading right singular vectors of that matrix (latent semantic analysis:
Deerwester et al., JASIS 1990), found by subspace iteration (Halko, Martinsson and Tropp, SIAM Review 2011).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpn.dataset.vocabulary import UNKNOWN
from drpn.prepare.vectors import WordVectors

_SPARE, _ROUNDS = 16, 4
"""Directions kept beside those asked for while looking for them, and how often all are refined."""


def vectors_from_titles(titles: NDArray[np.int32], *, words: int, size: int) -> WordVectors:
    """A vector of length 1 for every word of the titles (rows of words); the leading numbers tell most."""
    titles = titles[(titles > UNKNOWN).any(1)]
    matrix, found = _tf_idf(titles, words)
    vectors = np.zeros((words, size), dtype=np.float32)
    wide = min(size, *matrix.shape)
    if len(titles) and found.any():
        leading = _right_vectors(matrix, wide).numpy()
        vectors[:, :wide] = leading / np.maximum(np.linalg.norm(leading, axis=1, keepdims=True), 1e-12)
    vectors[~found] = 0
    return WordVectors(vectors, found & vectors.any(1))


def _tf_idf(titles: NDArray[np.int32], words: int) -> tuple[Tensor, NDArray[np.bool_]]:
    """(titles, words), sparse, each row of length 1; and which words there are."""
    row, slot = np.nonzero(titles > UNKNOWN)
    pairs, times = np.unique(row * np.int64(words) + titles[row, slot], return_counts=True)
    row, word = pairs // words, pairs % words
    titles_with = np.bincount(word, minlength=words)
    weight = times * (np.log((len(titles) + 1) / (titles_with[word] + 1)) + 1)
    weight /= np.sqrt(np.bincount(row, weight**2, minlength=len(titles)))[row]
    matrix = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([row, word])),
        torch.from_numpy(weight.astype(np.float32)),
        (len(titles), words),
        check_invariants=True,
    )
    return matrix.coalesce(), titles_with > 0


def _right_vectors(matrix: Tensor, count: int) -> Tensor:
    """(columns, count): the right singular vectors of the largest singular values, each times its value."""
    wide = count + _SPARE
    if wide >= min(matrix.shape):  # few titles or few words: whole
        values, right = torch.linalg.svd(matrix.to_dense(), full_matrices=False)[1:]
        whole: Tensor = _signed(right[:count].T) * values[:count]
        return whole
    transposed = matrix.t().coalesce()
    basis = torch.randn(matrix.shape[1], wide, generator=torch.Generator().manual_seed(0))
    for _ in range(_ROUNDS):
        basis = _orthonormal(torch.sparse.mm(matrix, basis))
        basis = _orthonormal(torch.sparse.mm(transposed, basis))
    seen = torch.sparse.mm(matrix, basis)
    squares, turn = torch.linalg.eigh(seen.T @ seen)  # ascending
    found: Tensor = _signed(basis @ turn.flip(1)[:, :count]) * squares.flip(0)[:count].clamp(min=0).sqrt()
    return found


def _signed(vectors: Tensor) -> Tensor:
    """Singular vectors, the largest number of each above zero: the sign is nobody's choice."""
    largest = vectors.abs().argmax(0, keepdim=True)
    signed: Tensor = vectors * vectors.gather(0, largest).sign()
    return signed


def _orthonormal(columns: Tensor) -> Tensor:
    """A basis of what the columns span, from their inner products: several times as quick as a QR decomposition."""
    squares, turn = torch.linalg.eigh((columns.T @ columns).double())
    basis: Tensor = columns @ (turn / squares.clamp(min=float(squares.max()) * 1e-10).sqrt()).float()
    return basis

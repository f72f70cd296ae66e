"""Word vectors from the titles of the log: words that occur in the same titles get similar vectors.

Latent semantic analysis (Deerwester et al., JASIS 1990): the leading right singular vectors of the TF-IDF matrix of
titles and words, computed by subspace iteration (Halko, Martinsson and Tropp, SIAM Review 2011).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpn.dataset.vocabulary import UNKNOWN
from drpn.preparation.vectors import WordVectors

_OVERSAMPLING, _ITERATIONS = 16, 4
"""Extra directions during the iteration, and number of iterations."""


def vectors_from_titles(titles: NDArray[np.int32], *, words: int, size: int) -> WordVectors:
    """A vector of norm 1 for every word of the titles (rows of the vocabulary), most important dimension first."""
    titles = titles[(titles > UNKNOWN).any(1)]
    matrix, in_titles = _tf_idf(titles, words)
    vectors = np.zeros((words, size), dtype=np.float32)
    rank = min(size, *matrix.shape)
    if len(titles) and in_titles.any():
        leading = _right_singular_vectors(matrix, rank).numpy()
        vectors[:, :rank] = leading / np.maximum(np.linalg.norm(leading, axis=1, keepdims=True), 1e-12)
    vectors[~in_titles] = 0
    return WordVectors(vectors, in_titles & vectors.any(1))


def _tf_idf(titles: NDArray[np.int32], words: int) -> tuple[Tensor, NDArray[np.bool_]]:
    """(titles, words): sparse TF-IDF weights with rows of norm 1; and which words occur."""
    row, slot = np.nonzero(titles > UNKNOWN)
    pairs, counts = np.unique(row * np.int64(words) + titles[row, slot], return_counts=True)
    row, word = pairs // words, pairs % words
    titles_with = np.bincount(word, minlength=words)
    weight = counts * (np.log((len(titles) + 1) / (titles_with[word] + 1)) + 1)
    weight /= np.sqrt(np.bincount(row, weight**2, minlength=len(titles)))[row]
    matrix = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([row, word])),
        torch.from_numpy(weight.astype(np.float32)),
        (len(titles), words),
        check_invariants=True,
    )
    return matrix.coalesce(), titles_with > 0


def _right_singular_vectors(matrix: Tensor, count: int) -> Tensor:
    """(columns, count): the right singular vectors of the largest singular values, each times its singular value."""
    width = count + _OVERSAMPLING
    if width >= min(matrix.shape):  # few titles or few words: decompose the dense matrix
        values, right = torch.linalg.svd(matrix.to_dense(), full_matrices=False)[1:]
        exact: Tensor = _fix_signs(right[:count].T) * values[:count]
        return exact
    transposed = matrix.t().coalesce()
    basis = torch.randn(matrix.shape[1], width, generator=torch.Generator().manual_seed(0))
    for _ in range(_ITERATIONS):
        basis = _orthonormal(torch.sparse.mm(matrix, basis))
        basis = _orthonormal(torch.sparse.mm(transposed, basis))
    projected = torch.sparse.mm(matrix, basis)
    squares, rotation = torch.linalg.eigh(projected.T @ projected)  # ascending
    vectors: Tensor = _fix_signs(basis @ rotation.flip(1)[:, :count]) * squares.flip(0)[:count].clamp(min=0).sqrt()
    return vectors


def _fix_signs(vectors: Tensor) -> Tensor:
    """The vectors with the sign that makes their largest component positive, since singular vectors have no sign."""
    largest = vectors.abs().argmax(0, keepdim=True)
    signed: Tensor = vectors * vectors.gather(0, largest).sign()
    return signed


def _orthonormal(columns: Tensor) -> Tensor:
    """An orthonormal basis of the column space, from the Gram matrix: several times as fast as a QR decomposition."""
    squares, rotation = torch.linalg.eigh((columns.T @ columns).double())
    basis: Tensor = columns @ (rotation / squares.clamp(min=float(squares.max()) * 1e-10).sqrt()).float()
    return basis

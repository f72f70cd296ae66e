"""The leading singular vectors of large sparse matrices, such as titles and their words.

Computed by subspace iteration (Halko, Martinsson and Tropp, SIAM Review 2011).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_OVERSAMPLING, _ITERATIONS = 16, 4
"""Extra directions during the iteration, and number of iterations."""


def rarity(column: NDArray[np.int64], *, rows: int, columns: int) -> NDArray[np.float64]:
    """Inverse document frequency: the fewer rows have a column, the larger. `column` is that of each distinct entry."""
    rows_with = np.bincount(column, minlength=columns)
    frequency: NDArray[np.float64] = np.log((rows + 1) / (rows_with + 1)) + 1
    return frequency


def unit_rows(
    row: NDArray[np.int64], column: NDArray[np.int64], weight: NDArray[np.float64], shape: tuple[int, int]
) -> Tensor:
    """The sparse matrix with these entries, its rows scaled to norm 1."""
    weight = weight / np.sqrt(np.bincount(row, weight**2, minlength=shape[0]))[row]
    matrix = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([row, column])),
        torch.from_numpy(weight.astype(np.float32)),
        shape,
        check_invariants=True,
    )
    return matrix.coalesce()


def right_singular_vectors(matrix: Tensor, count: int) -> Tensor:
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

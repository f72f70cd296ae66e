"""Sums and similarities of the text vectors of many stories, in blocks that fit into the processor's cache."""

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 2048
"""Stories whose vectors are looked up together."""
_FEW_ROUNDS = 16
"""Sums are made in rounds if a round adds to at least this many groups on average."""


def sum_of_rows(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], groups: NDArray[np.int64], count: int
) -> NDArray[np.float32]:
    """(count, size): the sum of the vectors in `rows` for each group; `groups` never fall."""
    sums = np.zeros((count, vectors.shape[1]), np.float32)
    if not len(rows):
        return sums
    starts = np.concatenate([[0], (groups[1:] != groups[:-1]).nonzero()[0] + 1])
    sizes = np.append(starts[1:], len(rows)) - starts
    longest = int(sizes.max())
    if longest * _FEW_ROUNDS > len(rows):
        sums[groups[starts]] = np.add.reduceat(vectors.take(rows, axis=0), starts, axis=0)
        return sums
    # the largest groups first: round r adds member r of the groups that have one
    by_size = np.argsort(-sizes, kind="stable")
    starts, sizes = starts[by_size], sizes[by_size]
    totals = vectors.take(rows[starts], axis=0)
    for member in range(1, longest):
        present = int(np.searchsorted(-sizes, -member, side="left"))
        totals[:present] += vectors.take(rows[starts[:present] + member], axis=0)
    sums[groups[starts]] = totals
    return sums


def similarities_to(
    vectors: NDArray[np.float32],
    rows: NDArray[np.int64],
    others: NDArray[np.float32],
    which: NDArray[np.int64],
) -> NDArray[np.float32]:
    """(kinds, rows): the products of the vectors in `rows` with all kinds of vectors in rows `which` of `others`."""
    products = np.empty((others.shape[1], len(rows)), np.float32)
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        one, other = vectors.take(rows[part], axis=0), others.take(which[part], axis=0)
        np.einsum("pd,pkd->kp", one, other, out=products[:, part])
    return products


def units(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """The vectors along the last axis with length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)

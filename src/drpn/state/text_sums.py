"""Sums and similarities of the text vectors of many stories, in blocks that fit into the processor's cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 2048
"""Stories whose vectors are looked up together."""


def sum_of_rows(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], groups: NDArray[np.int64], count: int
) -> NDArray[np.float32]:
    """(count, size): the sum of the vectors in `rows` for each group; `groups` never fall.

    Vectors are added one after the other, so a sum does not depend on the other groups, not even in its last bit.
    """
    sums = np.zeros((count, vectors.shape[1]), np.float32)
    if not len(rows):
        return sums
    starts = np.concatenate([[0], (groups[1:] != groups[:-1]).nonzero()[0] + 1])
    sizes = np.append(starts[1:], len(rows)) - starts
    longest = int(sizes.max())
    if len(starts) < longest:
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            sums[groups[start]] = np.cumsum(vectors.take(rows[start : start + size], axis=0), axis=0)[-1]
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
    vectors: NDArray[np.floating],
    rows: NDArray[np.int64],
    others: NDArray[np.floating],
    which: NDArray[np.int64],
) -> NDArray[Any]:
    """(kinds, rows): the products of the vectors in `rows` with all kinds of vectors in rows `which` of `others`."""
    products = np.empty((others.shape[1], len(rows)), np.result_type(vectors, others))
    for start in range(0, len(rows), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        one, other = vectors.take(rows[part], axis=0), others.take(which[part], axis=0)
        np.einsum("pd,pkd->kp", one, other, out=products[:, part])
    return products


def units(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    """The vectors along the last axis with length 1; zeros stay."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)

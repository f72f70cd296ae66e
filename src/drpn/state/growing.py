"""Arrays that get more rows at the end."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GROWTH = 1.5
"""How much more space is reserved when an array is full. Memory is only taken by rows that exist."""

_AT_ONCE = 1 << 20
"""Rows that are moved together when some are dropped."""


class GrowingRows:
    """Rows of one shape, numbered from 0 on."""

    def __init__(self, dtype: type[np.generic], *, missing: float = 0, shape: tuple[int, ...] = ()) -> None:
        """`missing` is the value of a row before it is set."""
        self._space: NDArray[Any] = np.empty((0, *shape), dtype)
        self._count, self._missing = 0, missing

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> NDArray[Any]:
        """All rows, to be read or set; no longer those of this object after it has grown."""
        return self._space[: self._count]

    def at(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows; those that do not exist yet have the value `missing`."""
        if not len(rows) or int(rows.max()) < self._count:
            return self._space.take(rows, axis=0)
        values = np.full((len(rows), *self._space.shape[1:]), self._missing, self._space.dtype)
        present = rows < self._count
        values[present] = self._space[rows[present]]
        return values

    def reach(self, count: int) -> None:
        """Have at least `count` rows."""
        if count <= self._count:
            return
        if count > len(self._space):
            # memory that is reserved and not yet written costs nothing: the system provides it page by page
            space = np.empty((max(count, int(_GROWTH * len(self._space))), *self._space.shape[1:]), self._space.dtype)
            space[: self._count] = self.rows
            self._space = space
        self._space[self._count : count] = self._missing
        self._count = count

    def cut(self, count: int) -> None:
        """Drop all rows from number `count` on."""
        self._count = min(self._count, count)

    def replace(self, values: NDArray[Any]) -> None:
        """Take other rows in place of all rows."""
        self._space, self._count = np.array(values, self._space.dtype), len(values)

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep some rows, which are then numbered from 0 on."""
        self.reach(len(which))
        count = 0
        for start in range(0, len(which), _AT_ONCE):
            part = slice(start, min(start + _AT_ONCE, len(which)))
            kept = self._space[part][which[part]]
            self._space[count : count + len(kept)] = kept
            count += len(kept)
        self.cut(count)

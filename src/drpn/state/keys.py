"""Rows for keys, such as one for each pair of a user and a story: a hash table of whole numbers in arrays."""

import numpy as np
from numpy.typing import NDArray

_EMPTY = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: multiplied with it, similar keys get unlike places."""
_LOAD = 0.6
"""The table grows when more than this share of its places is taken."""


class KeyRows:
    """Numbers keys from 0 on, in the order in which they came; many keys at once."""

    def __init__(self) -> None:
        self._keys: NDArray[np.int64] = np.empty(0, np.int64)
        self._count = 0
        self._places = np.full(1024, _EMPTY, np.int32)

    def __len__(self) -> int:
        return self._count

    def rows(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each key; new keys get new rows."""
        rows = self.find(keys)
        missing = rows == _EMPTY
        if not missing.any():
            return rows
        self._add(np.unique(keys[missing]))
        rows[missing] = self.find(keys[missing])
        return rows

    def rows_without_adding(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each key; new keys get the rows that they would have next, but are not added."""
        rows = self.find(keys)
        missing = rows == _EMPTY
        rows[missing] = self._count + np.unique(keys[missing], return_inverse=True)[1]
        return rows

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each key, -1 for a key that has none."""
        rows = np.full(len(keys), _EMPTY, np.int64)
        place, open_ = self._home(keys), np.arange(len(keys))
        while len(open_):
            row = self._places[place]
            taken = row != _EMPTY
            match = taken.copy()
            match[taken] = self._keys[row[taken]] == keys[open_[taken]]
            rows[open_[match]] = row[match]
            further = taken & ~match  # another key has the place: try the next one
            open_, place = open_[further], (place[further] + 1) & (len(self._places) - 1)
        return rows

    def keys(self) -> NDArray[np.int64]:
        """The key of each row."""
        return self._keys[: self._count]

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> "KeyRows":
        """The numbering that gives these distinct keys the rows 0, 1, ..."""
        rows = cls()
        rows._add(np.asarray(keys, np.int64))
        return rows

    def _home(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the search for each key begins."""
        bits = np.uint64(len(self._places).bit_length() - 1)
        return ((keys.astype(np.uint64) * _MIX) >> (np.uint64(64) - bits)).astype(np.int64)

    def _add(self, keys: NDArray[np.int64]) -> None:
        """Add distinct keys that have no row."""
        total = self._count + len(keys)
        if total > len(self._keys):
            self._keys = np.resize(self._keys, max(total, 2 * len(self._keys)))
        self._keys[self._count : total] = keys
        first, self._count = self._count, total
        if total > _LOAD * len(self._places):
            size = len(self._places)
            while total > _LOAD / 2 * size:
                size *= 2
            self._places, first = np.full(size, _EMPTY, np.int32), 0
        self._place(np.arange(first, total))

    def _place(self, rows: NDArray[np.int64]) -> None:
        """Enter rows into the table, each at the first free place from its key's home on."""
        place = self._home(self._keys[rows])
        while len(rows):
            free = self._places[place] == _EMPTY
            self._places[place[free]] = rows[free]  # of several rows for one place, the last one stays
            further = self._places[place] != rows
            rows, place = rows[further], (place[further] + 1) & (len(self._places) - 1)

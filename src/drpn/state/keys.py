"""Rows for keys, such as one for each pair of a user and a story: a hash table of whole numbers in arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.state.growing import GrowingRows

_EMPTY = -1
_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2**64 divided by the golden ratio: multiplied with it, similar keys get unlike places."""
_LOAD = 0.65
"""The table grows when more than this share of its places would be taken."""
_AT_ONCE = 1 << 18
"""Keys that enter a new table at once."""


class KeyRows:
    """Numbers keys from 0 on, in the order in which they came; many keys at once."""

    def __init__(self) -> None:
        self._keys = GrowingRows(np.int64)
        self._places = np.full(1024, _EMPTY, np.int32)

    def __len__(self) -> int:
        return len(self._keys)

    def rows(self, keys: NDArray[np.int64], new: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """The row of each key; new keys get new rows, or only those in `new`; -1 for a key without a row."""
        if new is not None and not new.all():
            if new.any():
                self.rows(keys[new])
            return self.find(keys)
        self._make_room(len(keys))
        rows, place = self._search(keys, self._home(keys))
        missing = (rows == _EMPTY).nonzero()[0]
        if len(missing):
            rows[missing] = self._add(keys[missing], place[missing])
        return rows

    def rows_without_adding(self, keys: NDArray[np.int64], new: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """The rows that `rows` would return; nothing is added."""
        rows = self.find(keys)
        missing = (rows == _EMPTY).nonzero()[0]
        added = keys[missing if new is None else missing[new[missing]]]
        if len(added):
            added, first = np.unique(added, return_index=True)
            numbers = np.empty(len(added), np.int64)
            numbers[np.argsort(first)] = len(self) + np.arange(len(added))
            at = np.minimum(np.searchsorted(added, keys[missing]), len(added) - 1)
            rows[missing] = np.where(added[at] == keys[missing], numbers[at], _EMPTY)
        return rows

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each key, -1 for a key that has none."""
        if not len(self):
            return np.full(len(keys), _EMPTY, np.int64)
        self._make_room(0)
        return self._search(keys, self._home(keys))[0]

    def keys(self) -> NDArray[np.int64]:
        """The key of each row."""
        return self._keys.rows

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep some keys, which are then numbered from 0 on; the table is made when somebody asks."""
        self._places = np.zeros(0, np.int32)
        self._keys.keep(which)

    @classmethod
    def of(cls, keys: NDArray[np.int64]) -> "KeyRows":
        """The numbering that gives these distinct keys the rows 0, 1, ..."""
        rows = cls()
        rows._keys.replace(keys)
        rows._make_table(0)
        return rows

    def _home(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the search for each key begins."""
        bits = np.uint64(len(self._places).bit_length() - 1)
        return ((keys.astype(np.uint64) * _MIX) >> (np.uint64(64) - bits)).astype(np.int64)

    def _search(self, keys: NDArray[np.int64], place: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row of each key, and its place; -1 and the free place that it would get for a key without a row."""
        rows, end = self._places.take(place).astype(np.int64), place.copy()
        open_ = self._taken_by_others(rows, keys)
        while len(open_):
            place = (end[open_] + 1) & (len(self._places) - 1)
            row = self._places.take(place)
            rows[open_], end[open_] = row, place
            open_ = open_[self._taken_by_others(row, keys[open_])]
        return rows, end

    def _taken_by_others(self, rows: NDArray[Any], keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The keys whose place is that of another key, from the row that each place holds."""
        if not len(self):
            return np.zeros(0, np.int64)
        others = self._keys.rows.take(rows, mode="wrap") != keys  # any key for a free place, -1
        at: NDArray[np.int64] = (others & (rows != _EMPTY)).nonzero()[0]
        return at

    def _add(self, keys: NDArray[np.int64], place: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add keys without a row, some of them equal, from the free place on that the search found for each."""
        count = len(self)
        self._keys.reach(count + len(keys))
        self._keys.rows[count:] = keys  # for now, each has a row
        rows, open_ = np.full(len(keys), _EMPTY, np.int64), np.arange(len(keys))
        while len(open_):
            self._places[place[open_][::-1]] = count + open_[::-1]  # of several for one place, the first one stays
            rows[open_], place[open_] = self._search(keys[open_], place[open_])
            open_ = open_[rows[open_] == _EMPTY]
        first = rows == count + np.arange(len(keys))
        if first.all():
            return rows
        # of equal keys, the first has the place: these keep a row, without gaps
        numbers = count - 1 + np.cumsum(first)
        self._places[place[first]] = numbers[first]
        self._keys.cut(count + int(np.count_nonzero(first)))
        self._keys.rows[count:] = keys[first]
        return numbers[rows - count]

    def _make_room(self, more: int) -> None:
        """Have free places for more keys."""
        if not len(self._places) or len(self) + more > _LOAD * len(self._places):
            self._make_table(more)

    def _make_table(self, more: int) -> None:
        size = 1024
        while len(self) + more > _LOAD * size:
            size *= 2
        self._places = np.zeros(0, np.int32)  # free the old table first
        self._places = np.full(size, _EMPTY, np.int32)
        for start in range(0, len(self), _AT_ONCE):
            self._place(np.arange(start, min(start + _AT_ONCE, len(self))))

    def _place(self, rows: NDArray[np.int64]) -> None:
        """Enter rows into the table, each at the first free place from its key's home on."""
        place = self._home(self._keys.rows[rows])
        while len(rows):
            free = self._places[place] == _EMPTY
            self._places[place[free]] = rows[free]  # of several rows for one place, the last one stays
            further = self._places[place] != rows
            rows, place = rows[further], (place[further] + 1) & (len(self._places) - 1)

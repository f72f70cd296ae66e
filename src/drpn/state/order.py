"""Events sorted by row, for what is computed row by row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MANY = 1000
"""From this many events on, sorting by 16 bits at a time is faster."""


@dataclass(frozen=True)
class Order:
    """Events sorted by row, and where the row of each and its second begin."""

    which: NDArray[np.int64]
    """The sorted events."""
    rows: NDArray[np.int64]
    """Their rows."""
    row_start: NDArray[np.int64]
    """For each sorted event, the place of the first event of its row."""
    second_start: NDArray[np.int64]
    """The place of the first event of its row and second."""
    first: NDArray[np.int64]
    """The place of the first event of each row."""
    last: NDArray[np.int64]
    """The place of the last event of each row."""
    numbers: NDArray[np.int64]
    """For each sorted event, the number of its row among the rows that occur."""
    places: NDArray[np.int64]
    """The place of each event among the sorted ones."""

    @property
    def has_earlier(self) -> NDArray[np.bool_]:
        """Whether the row of each sorted event has an event with a smaller second."""
        return self.second_start > self.row_start

    def unsorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of sorted events, along the last axis, in the order of the events."""
        return values.take(self.places, axis=-1)

    @classmethod
    def of(cls, rows: NDArray[np.int64], times: NDArray[np.int64]) -> "Order":
        """`times` never fall."""
        which = _sorting(rows)
        rows, times = rows.take(which), times.take(which)
        place = np.arange(len(rows))
        new_row = np.ones(len(rows), np.bool_)
        np.not_equal(rows[1:], rows[:-1], out=new_row[1:])
        new_second = new_row.copy()
        new_second[1:] |= times[1:] != times[:-1]
        first = new_row.nonzero()[0]
        last = np.empty_like(first)
        last[:-1], last[-1:] = first[1:] - 1, len(rows) - 1
        numbers = np.cumsum(new_row) - 1
        second_start = np.maximum.accumulate(np.where(new_second, place, 0))
        places = np.empty_like(place)
        places[which] = place
        return cls(which, rows, first.take(numbers), second_start, first, last, numbers, places)


def _sorting(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The events sorted by row, those of one row as they came."""
    if len(rows) < _MANY or int(rows.max()) >= 2**32:
        return np.argsort(rows, kind="stable")
    # numpy sorts numbers of 16 bits in linear time: by the lower half, then by the upper half
    which = np.argsort(rows.astype(np.uint16), kind="stable")
    upper = (rows >> 16).astype(np.uint16)
    return which.take(np.argsort(upper.take(which), kind="stable")) if upper.any() else which

"""Sums over earlier events, by row: all of them, or decayed with a half-life.

Events come in time order, in parts of any size, each with the second at which it happened. The sum of an event is over
the events of its row with a strictly smaller second, so that what happens within one second does not know of each
other. A sum with half-life h counts an event of dt seconds ago as 0.5 ** (dt / h).

Events without `record` ask and change nothing. A class whose state is saved has `arrays`, which returns all of it as
named arrays, and `restore`, which takes them back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.state.keys import KeyRows

NEVER = np.iinfo(np.int64).min
"""The time of a last event that has not happened."""
MOST_HALF_LIVES = 12.0
"""Half-lives that one part may span: growing weights within it would lose small sums otherwise."""


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
    last: NDArray[np.int64]
    """The place of the last event of each row."""

    @property
    def has_earlier(self) -> NDArray[np.bool_]:
        """Whether the row of each sorted event has an event with a smaller second."""
        return self.second_start > self.row_start

    def unsorted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of sorted events in the order of the events."""
        result = np.empty_like(values)
        result[self.which] = values
        return result

    @classmethod
    def of(cls, rows: NDArray[np.int64], times: NDArray[np.int64]) -> "Order":
        """`times` never fall."""
        which = np.argsort(rows, kind="stable")
        rows, times = rows[which], times[which]
        place = np.arange(len(rows))
        new_row = np.ones(len(rows), np.bool_)
        new_row[1:] = rows[1:] != rows[:-1]
        new_second = new_row.copy()
        new_second[1:] |= times[1:] != times[:-1]
        ends = np.flatnonzero(np.append(new_row[1:], True)) if len(rows) else place
        return cls(
            which,
            rows,
            np.maximum.accumulate(np.where(new_row, place, 0)),
            np.maximum.accumulate(np.where(new_second, place, 0)),
            ends,
        )


class RunningSums:
    """Sums of some columns of values, for each row and half-life."""

    def __init__(self, columns: int, half_lives: Sequence[float] = ()) -> None:
        self._half_lives = np.asarray(half_lives, np.float64)
        # plain counts are exact in float32 and take half the memory
        self._sums = np.zeros((0, max(len(half_lives), 1), columns), np.float64 if len(half_lives) else np.float32)
        # the moment of each row's sums: only the rows of a part decay, so that one event costs little
        self._moments = np.zeros(0, np.int64)

    def before(
        self, order: Order, times: NDArray[np.int64], values: NDArray[np.floating], *, record: bool = True
    ) -> NDArray[np.float32]:
        """(events, half-lives, columns): the sums before each event; without `record` the events are forgotten.

        `values` are (events, columns), 0 for what only asks.
        """
        if not len(times):
            return np.zeros((0, *self._sums.shape[1:]), np.float32)
        rows, sizes = order.rows[order.last], np.diff(order.last, prepend=-1)
        start = int(times[0])
        known = _at(self._sums, rows, 0) * self._decay(rows, start)
        weights = self._weights(times - start)[order.which]  # (events, half-lives)
        weighted = values[order.which][:, None, :] * weights[:, :, None]
        sums = np.zeros((len(times) + 1, *weighted.shape[1:]))
        np.cumsum(weighted, axis=0, out=sums[1:])
        earlier = np.repeat(known, sizes, axis=0) + (sums[order.second_start] - sums[order.row_start])
        result = np.empty(weighted.shape, np.float32)
        result[order.which] = earlier / weights[:, :, None]
        if record:
            self._sums = _grown(self._sums, order, 0)
            self._sums[rows] = known + (sums[order.last + 1] - sums[order.row_start[order.last]])
            if len(self._half_lives):
                self._moments = _grown(self._moments, order, 0)
                self._moments[rows] = np.maximum(self._moments[rows], start)
        return result

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name: the rows in use and what they hold."""
        return {"rows": self.in_use} | self.at(self.in_use)

    def at(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What some rows hold, by name."""
        moments = {"moments": _at(self._moments, rows, 0)} if len(self._half_lives) else {}
        return {"sums": _at(self._sums, rows, 0)} | moments

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        rows = arrays["rows"]
        size = int(rows[-1]) + 1 if len(rows) else 0
        self._sums = np.zeros((size, *self._sums.shape[1:]), self._sums.dtype)
        self._sums[rows] = arrays["sums"]
        if len(self._half_lives):
            self._moments = np.zeros(size, np.int64)
            self._moments[rows] = arrays["moments"]

    @property
    def in_use(self) -> NDArray[np.int64]:
        """The rows that hold something: a sum, or the moment of one."""
        rows = _in_use(self._sums, 0)
        return np.union1d(rows, np.flatnonzero(self._moments)) if len(self._half_lives) else rows

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some rows, which are then numbered from 0 on."""
        self._sums, self._moments = _at(self._sums, rows, 0), _at(self._moments, rows, 0)

    def _weights(self, seconds: NDArray[np.int64]) -> NDArray[np.float64]:
        if not len(self._half_lives):
            return np.ones((len(seconds), 1))
        weights: NDArray[np.float64] = np.exp2(seconds[:, None] / self._half_lives)
        return weights

    def _decay(self, rows: NDArray[np.int64], moment: int) -> NDArray[np.float64] | float:
        """(rows, half-lives, 1): what is left of the sums of rows at a moment; sums do not grow at an earlier one."""
        if not len(self._half_lives):
            return 1.0
        seconds = np.minimum(_at(self._moments, rows, 0) - moment, 0)
        decay: NDArray[np.float64] = np.exp2(seconds[:, None, None] / self._half_lives[:, None])
        return decay


class KeyedSums:
    """Sums for keys, such as pairs of a user and a story; new keys get new rows."""

    def __init__(self, columns: int, half_lives: Sequence[float] = ()) -> None:
        self._rows, self._sums = KeyRows(), RunningSums(columns, half_lives)

    def before(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[np.floating], *, record: bool = True
    ) -> NDArray[np.float32]:
        """(events, half-lives, columns): the sums before each event."""
        return self.before_with_order(keys, times, values, record=record)[0]

    def before_with_order(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[np.floating], *, record: bool = True
    ) -> tuple[NDArray[np.float32], Order]:
        """The same, and the order of the events by key."""
        order = Order.of(self._rows.rows(keys) if record else self._rows.rows_without_adding(keys), times)
        return self._sums.before(order, times, values, record=record), order

    @property
    def keys(self) -> NDArray[np.int64]:
        """The key of each row."""
        return self._rows.keys()

    @property
    def in_use(self) -> NDArray[np.int64]:
        """The rows that hold something."""
        return self._sums.in_use

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some rows, which are then numbered from 0 on."""
        self._rows = KeyRows.of(self.keys[rows])
        self._sums.keep(rows)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name."""
        return {"keys": self.keys} | self._sums.at(np.arange(len(self.keys)))

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        self._rows = KeyRows.of(arrays["keys"])
        self._sums.restore({**arrays, "rows": np.arange(len(arrays["keys"]))})


class OneArray:
    """A state that is one array, with a row for each row of the events."""

    def __init__(self, dtype: type[np.generic], missing: float) -> None:
        self._state: NDArray[Any] = np.zeros(0, dtype)
        self._missing = missing

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name."""
        return {"rows": _trimmed(self._state, self._missing)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        self._state = np.array(arrays["rows"])

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep some rows, which are then numbered from 0 on."""
        self._state = self.at(rows)

    def at(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The state of some rows."""
        return _at(self._state, rows, self._missing)

    def _set(self, order: Order, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        self._state = _grown(self._state, order, self._missing)
        self._state[rows] = values


class FirstTimes(OneArray):
    """The time of the first event of each row."""

    def __init__(self) -> None:
        super().__init__(np.int64, NEVER)

    def before(
        self, order: Order, times: NDArray[np.int64], counts: NDArray[np.bool_], *, record: bool = True
    ) -> NDArray[np.int64]:
        """The time of the first event with a smaller second, of those that count; `NEVER` without one."""
        in_order, place = times[order.which], np.arange(len(times))
        nothing = len(times)
        # the place of the next event that counts, from the first of the row on
        following = np.minimum.accumulate(np.where(counts[order.which], place, nothing)[::-1])[::-1]
        first = following[order.row_start]
        end = order.last[np.searchsorted(order.last, order.row_start)]
        known = self.at(order.rows)
        within = np.where(first <= end, in_order[np.minimum(first, nothing - 1)], NEVER)
        if record:
            at = order.last
            self._set(order, order.rows[at], np.where(known[at] == NEVER, within[at], known[at]))
        earlier = np.where((within != NEVER) & (within < in_order), within, NEVER)
        return order.unsorted(np.where(known == NEVER, earlier, known))


class LastValues(OneArray):
    """The value of the last event of each row."""

    missing = 0
    """Stands for the value of an event that has not happened."""

    def __init__(self) -> None:
        super().__init__(np.int64, self.missing)

    def before(
        self, order: Order, values: NDArray[np.int64], counts: NDArray[np.bool_], *, record: bool = True
    ) -> NDArray[np.int64]:
        """The value of the last event with a smaller second, of those that count; `missing` without one."""
        in_order, place = values[order.which], np.arange(len(values))
        latest = np.maximum.accumulate(np.where(counts[order.which], place, -1))  # up to and with each event
        at = np.where(order.has_earlier, latest[order.second_start - 1], -1)
        last = np.where(at >= order.row_start, in_order[at], self.at(order.rows))
        if record:
            end = order.last
            within = latest[end] >= order.row_start[end]
            self._set(order, order.rows[end[within]], in_order[latest[end[within]]])
        return order.unsorted(last)


class LastTimes(LastValues):
    """The time of the last event of each row."""

    missing = NEVER

    def _set(self, order: Order, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        super()._set(order, rows, np.maximum(values, self.at(rows)))  # an event may come late


class Sessions(OneArray):
    """How many page views a session has so far; a long gap begins a new one."""

    def __init__(self, gap: float) -> None:
        super().__init__(np.float64, 0)
        self._gap = gap

    def before(
        self,
        order: Order,
        hours: NDArray[np.floating],
        views: NDArray[np.floating],
        counts: NDArray[np.bool_],
        *,
        record: bool = True,
    ) -> NDArray[np.float64]:
        """Page views of the session so far, from the hours since the user's last one and all views so far.

        Only events that count can begin a session.
        """
        views, place = views[order.which].astype(np.float64), np.arange(len(views))
        new = (hours[order.which] * 3600 >= self._gap) & counts[order.which]
        begin = np.maximum.accumulate(np.where(new, place, -1))
        begun = np.where(begin >= order.row_start, views[begin], self.at(order.rows))
        if record:
            self._set(order, order.rows[order.last], begun[order.last])
        return order.unsorted(views - begun)


def _at(state: NDArray[Any], rows: NDArray[np.int64], missing: float) -> NDArray[Any]:
    """The state of some rows, `missing` for rows that it does not have yet."""
    if not len(rows) or int(rows.max()) < len(state):
        return state[rows]
    values = np.full((len(rows), *state.shape[1:]), missing, state.dtype)
    present = rows < len(state)
    values[present] = state[rows[present]]
    return values


def _trimmed(state: NDArray[Any], missing: float) -> NDArray[Any]:
    """The state without the last rows that hold nothing."""
    used = _in_use(state, missing)
    return state[: int(used[-1]) + 1 if len(used) else 0]


def _in_use(state: NDArray[Any], missing: float) -> NDArray[np.int64]:
    return np.flatnonzero((state != missing).reshape(len(state), int(np.prod(state.shape[1:]))).any(1))


def _grown(state: NDArray[Any], order: Order, value: float) -> NDArray[Any]:
    """The state with a row for every row of the order, `value` in new ones."""
    rows = int(order.rows[-1]) + 1 if len(order.rows) else 0
    if rows <= len(state):
        return state
    more = np.full((max(rows, 2 * len(state)) - len(state), *state.shape[1:]), value, state.dtype)
    return np.concatenate([state, more])

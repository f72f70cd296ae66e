"""Sums over earlier events, by row: all of them, or decayed with a half-life.

Events come in time order, in parts of any size, each with the second at which it happened. The sum of an event is over
the events of its row with a strictly smaller second, so that what happens within one second does not know of each
other. A sum with half-life h counts an event of dt seconds ago as 0.5 ** (dt / h).

Events without `record` ask and change nothing. A class whose state is saved has `arrays`, which returns all of it as
named arrays, and `restore`, which takes them back.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.state.growing import GrowingRows
from drpn.state.keys import KeyRows
from drpn.state.order import Order
from drpn.state.stepwise import Sums, sums_before

NEVER = np.iinfo(np.int64).min
"""The time of a last event that has not happened."""
MOST_HALF_LIVES = 12.0
"""Half-lives that one part may span: growing weights within it would lose small sums otherwise."""
_MANY = 1000
"""From this many events on, sums are made row by row."""


class RunningSums:
    """Sums of some columns of values, for each row and half-life."""

    def __init__(self, columns: int, half_lives: Sequence[float] = (), *, few: bool = False) -> None:
        """`few`: a row has few events, as those of one user, which are added one after the other (`stepwise`).

        Single precision is then exact enough and half the memory. Plain counts are exact in it anyway.
        """
        self._half_lives, self._few = np.asarray(half_lives, np.float64), few and len(half_lives) > 0
        dtype = np.float64 if len(half_lives) and not few else np.float32
        self._sums = GrowingRows(dtype, shape=(max(len(half_lives), 1), columns))
        # the moment of each row's sums: only the rows of a part decay, so that one event costs little
        self._moments = GrowingRows(np.int64)

    def before(
        self,
        order: Order,
        times: NDArray[np.int64],
        values: NDArray[Any],
        *,
        record: bool = True,
        start: int | None = None,
        dtype: type[np.floating] = np.float32,
    ) -> NDArray[Any]:
        """(events, half-lives, columns): the sums before each event; without `record` the events are forgotten.

        `values` are (events, columns), 0 for what only asks. The weights of the events refer to the second `start`, by
        default that of the first one. Inside, events are the last axis: numpy is fastest along a long one.
        """
        if not len(times):
            return np.zeros((0, *self.shape), dtype)
        if self._few:
            return self._before_stepwise(order, times, values, record=record)
        start = int(times[0]) if start is None else start
        rows = order.rows[order.last]
        known = self._sums.at(rows).transpose(1, 2, 0) * self._decay(rows, start)  # (half-lives, columns, rows)
        weighted = values.T.take(order.which, axis=-1)[None]  # (1, columns, events)
        weights = self._weights(times.take(order.which) - start) if len(self._half_lives) else None
        if weights is not None:
            weighted = weighted * weights  # (half-lives, columns, events)
        sums = np.zeros((*weighted.shape[:2], len(times) + 1))
        _cumulate(weighted, sums[..., 1:])
        at_start = sums.take(order.first, axis=-1)
        earlier = sums.take(order.second_start, axis=-1)
        earlier -= at_start.take(order.numbers, axis=-1)
        earlier += known.take(order.numbers, axis=-1)
        if weights is not None:
            earlier /= weights
        if record:
            reached = int(rows[-1]) + 1
            self._sums.reach(reached)
            self._sums.rows[rows] = (known + (sums.take(order.last + 1, axis=-1) - at_start)).transpose(2, 0, 1)
            if len(self._half_lives):
                self._moments.reach(reached)
                self._moments.rows[rows] = np.maximum(self._moments.rows[rows], start)
        return order.unsorted(earlier.astype(dtype)).transpose(2, 0, 1)

    def _before_stepwise(
        self, order: Order, times: NDArray[np.int64], values: NDArray[Any], *, record: bool
    ) -> NDArray[np.float32]:
        rows = order.rows[order.last]
        known = Sums(self._sums.at(rows), self._moments.at(rows))
        before, after = sums_before(known, order, times, values, self._half_lives)
        if record:
            for held, new in ((self._sums, after.sums), (self._moments, after.moments)):
                held.reach(int(rows[-1]) + 1)
                held.rows[rows] = new
        return before

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name: the rows in use and what they hold."""
        rows = self._in_use
        moments = {"moments": self._moments.at(rows)} if len(self._half_lives) else {}
        return {"rows": rows, "sums": self._sums.at(rows)} | moments

    def first_rows(self, count: int) -> dict[str, NDArray[Any]]:
        """The sums and moments of the rows before number `count`, by name."""
        held = {"sums": self._sums} | ({"moments": self._moments} if len(self._half_lives) else {})
        for array in held.values():
            array.reach(count)
        return {name: array.rows[:count] for name, array in held.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        rows = arrays["rows"]
        for name, array in {"sums": self._sums, "moments": self._moments}.items():
            array.cut(0)
            if name in arrays and len(rows):
                array.reach(int(rows[-1]) + 1)
                array.rows[rows] = arrays[name]

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep some rows, which are then numbered from 0 on."""
        self._sums.keep(which)
        if len(self._half_lives):
            self._moments.keep(which)

    @property
    def shape(self) -> tuple[int, ...]:
        """(half-lives, columns)"""
        return self._sums.rows.shape[1:]

    @property
    def _in_use(self) -> NDArray[np.int64]:
        """The rows that hold something: a sum, or the moment of one."""
        sums = self._sums.rows
        rows = np.flatnonzero((sums != 0).reshape(len(sums), int(np.prod(self.shape))).any(1))
        return np.union1d(rows, np.flatnonzero(self._moments.rows)) if len(self._half_lives) else rows

    def _weights(self, seconds: NDArray[np.int64]) -> NDArray[np.float64]:
        """(half-lives, 1, events): growing weights, by which later events count more."""
        weights: NDArray[np.float64] = np.exp2(seconds / self._half_lives[:, None, None])
        return weights

    def _decay(self, rows: NDArray[np.int64], moment: int) -> NDArray[np.float64] | float:
        """(half-lives, 1, rows): what is left of the sums of rows at a moment; sums do not grow at an earlier one."""
        if not len(self._half_lives):
            return 1.0
        seconds = np.minimum(self._moments.at(rows) - moment, 0)
        decay: NDArray[np.float64] = np.exp2(seconds / self._half_lives[:, None, None])
        return decay


class KeyedSums:
    """Sums for keys, such as pairs of a user and a story; new keys get new rows."""

    def __init__(self, columns: int, half_lives: Sequence[float] = (), *, few: bool = False) -> None:
        """The same as those of `RunningSums`."""
        self._rows, self._sums = KeyRows(), RunningSums(columns, half_lives, few=few)

    def before(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[Any], *, record: bool = True
    ) -> NDArray[np.float32]:
        """(events, half-lives, columns): the sums before each event. Keys whose values are all 0 get no row."""
        given: NDArray[np.bool_] = np.any(values.T, axis=0)
        rows = self._rows.rows(keys, given) if record else self._rows.rows_without_adding(keys, given)
        at, start = (rows >= 0).nonzero()[0], int(times[0]) if len(times) else 0
        if len(at) == len(rows):
            return self._sums.before(Order.of(rows, times), times, values, record=record, start=start)
        sums = np.zeros((*self._sums.shape, len(keys)), np.float32)
        if len(at):
            order = Order.of(rows[at], times[at])
            known = self._sums.before(order, times[at], values[at], record=record, start=start)
            sums[..., at] = known.transpose(1, 2, 0)
        return sums.transpose(2, 0, 1)

    def before_with_order(
        self, keys: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[Any], *, record: bool = True
    ) -> tuple[NDArray[np.float32], Order]:
        """The same, and the order of the events by key; every key gets a row."""
        order = Order.of(self._rows.rows(keys) if record else self._rows.rows_without_adding(keys), times)
        return self._sums.before(order, times, values, record=record), order

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def keys(self) -> NDArray[np.int64]:
        """The key of each row."""
        return self._rows.keys()

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep some rows, which are then numbered from 0 on."""
        self._rows.keep(which)
        self._sums.keep(which)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name."""
        return {"keys": self.keys} | self._sums.first_rows(len(self))

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        self._rows = KeyRows.of(arrays["keys"])
        self._sums.restore({**arrays, "rows": np.arange(len(arrays["keys"]))})


class OneArray:
    """A state that is one array, with a row for each row of the events."""

    def __init__(self, dtype: type[np.generic], missing: float) -> None:
        self._state = GrowingRows(dtype, missing=missing)
        self._missing = missing

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name, without the last rows that hold nothing."""
        rows = self._state.rows
        used = rows[::-1] != self._missing
        return {"rows": rows[: len(rows) - int(used.argmax()) if used.any() else 0]}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        self._state.replace(arrays["rows"])

    def keep(self, which: NDArray[np.bool_]) -> None:
        """Keep some rows, which are then numbered from 0 on."""
        self._state.keep(which)

    def at(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The state of some rows."""
        return self._state.at(rows)

    def _set(self, order: Order, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        self._state.reach(int(order.rows[-1]) + 1 if len(order.rows) else 0)
        self._state.rows[rows] = values


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
        end = order.last.take(order.numbers)
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


def _cumulate(values: NDArray[Any], out: NDArray[np.float64]) -> None:
    """Sum along the last axis."""
    if values.shape[-1] < _MANY:
        np.cumsum(values, axis=-1, out=out)
        return
    # another thread can compute only while numpy cumulates a single row
    for place in np.ndindex(values.shape[:-1]):
        np.cumsum(values[place], out=out[place])

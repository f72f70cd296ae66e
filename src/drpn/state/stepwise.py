"""Sums over earlier events of rows that have few events each, made one event after the other.

Every event that adds something rounds the sum of its row to single precision, in whatever parts the events come. So the
sums of a log that is read at once and of a site that is told one page view at a time are the same to the last bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.state.order import Order


class Sums(NamedTuple):
    """Sums of some rows, and the moment that each refers to."""

    sums: NDArray[np.float32]
    """(rows, half-lives, columns)"""
    moments: NDArray[np.int64]

    def at(self, rows: NDArray[np.int64]) -> "Sums":
        """Those of some rows."""
        return Sums(self.sums.take(rows, axis=0), self.moments.take(rows))

    def decay(self, times: NDArray[np.int64], half_lives: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rows, half-lives, 1): what is left of each sum at a time; sums do not grow at an earlier one."""
        seconds = np.minimum(self.moments - times, 0)
        decay: NDArray[np.float64] = np.exp2(seconds[:, None] / half_lives)[..., None]
        return decay


def sums_before(
    known: Sums, order: Order, times: NDArray[np.int64], values: NDArray[Any], half_lives: NDArray[np.float64]
) -> tuple[NDArray[np.float32], Sums]:
    """(events, half-lives, columns): the sums before each event; and those of the rows of `order` after all events.

    `known` are the sums of these rows before all events. Only events with a strictly smaller second count.
    """
    moments, values = times.take(order.which), values.take(order.which, axis=0)
    changes = np.flatnonzero(values.any(axis=1))
    first = np.searchsorted(order.numbers.take(changes), np.arange(len(order.first)))  # the first change of each row
    after, last = _after_each(known, moments[changes], values[changes], first, half_lives)
    earlier = np.searchsorted(changes, order.second_start)  # changes with a smaller row or second
    state = known.at(order.numbers)
    changed = (earlier > first.take(order.numbers)).nonzero()[0]
    state.sums[changed], state.moments[changed] = after.at(earlier[changed] - 1)
    before = state.sums * state.decay(moments, half_lives).astype(np.float32)
    return before.take(order.places, axis=0), last


def _after_each(
    known: Sums,
    times: NDArray[np.int64],
    values: NDArray[Any],
    first: NDArray[np.int64],
    half_lives: NDArray[np.float64],
) -> tuple[Sums, Sums]:
    """The sums after each of some changes, which are sorted by row, and those of the rows after all of them.

    Round r adds change r of the rows that have one.
    """
    after = Sums(np.empty((len(times), *known.sums.shape[1:]), np.float32), np.empty(len(times), np.int64))
    last = Sums(known.sums.copy(), known.moments.copy())
    if not len(times):
        return after, last
    sizes = np.append(first[1:], len(times)) - first
    by_size = np.argsort(-sizes, kind="stable")  # the rows with most changes first
    ending = -sizes[by_size]
    for member in range(int(sizes.max())):
        rows = by_size[: np.searchsorted(ending, -member)]
        changes = first[rows] + member
        now, moment = last.at(rows), times[changes]
        # s <- s * 0.5 ** (dt / h) + value
        sums = now.sums * now.decay(moment, half_lives) + values[changes][:, None]
        last.sums[rows], last.moments[rows] = sums, np.maximum(now.moments, moment)
        after.sums[changes], after.moments[changes] = last.at(rows)
    return after, last

"""Sums, times, values and sessions before each event, compared with plain loops over the events."""

from collections.abc import Callable
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drpn.state.order import Order
from drpn.state.running import NEVER, FirstTimes, KeyedSums, LastTimes, LastValues, RunningSums, Sessions

DAY = 86_400
HALF_LIVES = (600.0, 7_200.0, float("inf"))


class Event(NamedTuple):
    """An event of a row."""

    row: int
    time: int
    value: int
    counts: bool


class Log(NamedTuple):
    """Events in time order, cut into parts between two seconds, none longer than two hours."""

    events: list[Event]
    parts: list[list[Event]]


@st.composite
def logs(draw: st.DrawFn, *, longest_gap: int = 4 * DAY) -> Log:
    """Few rows, and gaps of 0 to days, so that many events share a second."""
    gaps = st.sampled_from([0, 0, 0, 1, 30, 600, 1_799, 1_800, 5_000, DAY, longest_gap])
    time, events = draw(st.integers(0, 2 * 10**9)), []
    for _ in range(draw(st.integers(0, 25))):
        time += draw(gaps)
        events.append(Event(draw(st.integers(0, 3)), time, draw(st.integers(0, 5)), draw(st.booleans())))
    parts = list[list[Event]]()
    for event in events:
        new_second = not parts or parts[-1][-1].time != event.time
        too_long = bool(parts) and event.time - parts[-1][0].time > 7_200
        if too_long or (new_second and (not parts or draw(st.booleans()))):
            parts.append([])
        parts[-1].append(event)
    return Log(events, parts)


def columns(events: list[Event]) -> tuple[Order, np.ndarray, np.ndarray, np.ndarray]:
    """The order, times, values and flags of some events."""
    rows, times, values, counts = (np.array(column) for column in zip(*events, strict=True))
    return Order.of(rows, times), times, values, counts


def earlier(log: Log, event: Event) -> list[Event]:
    return [other for other in log.events if other.row == event.row and other.time < event.time]


def together(log: Log, ask: Callable[[list[Event]], np.ndarray]) -> list[Any]:
    """The answers for all parts, one after the other."""
    return [answer for part in log.parts for answer in ask(part).tolist()]


@given(logs())
def test_sums_against_loops(log: Log) -> None:
    sums = RunningSums(2, HALF_LIVES)

    def ask(part: list[Event]) -> np.ndarray:
        order, times, values, counts = columns(part)
        return sums.before(order, times, np.stack([values, counts * 1.0], axis=1))

    expected = [
        [
            [
                sum(old[column] * 0.5 ** ((event.time - old.time) / life) for old in earlier(log, event))
                for column in (2, 3)
            ]
            for life in HALF_LIVES
        ]
        for event in log.events
    ]
    np.testing.assert_allclose(np.array(together(log, ask)), np.array(expected), rtol=1e-5, atol=1e-7)


@given(logs(), st.integers(0, 1000))
def test_sums_of_few_events_do_not_depend_on_the_parts(log: Log, seed: int) -> None:
    """To the last bit: half precision, which rounds later, would make a step of a difference."""
    random = np.random.default_rng(seed)
    values = {event: random.normal(size=2) * event.counts for event in log.events}
    by_second = [list(several) for _, several in groupby(log.events, key=lambda event: event.time)]

    def answers(parts: list[list[Event]]) -> list[Any]:
        sums = RunningSums(2, HALF_LIVES, few=True)

        def ask(part: list[Event]) -> np.ndarray:
            order, times, _, _ = columns(part)
            return sums.before(order, times, np.array([values[event] for event in part], np.float32))

        return together(Log(log.events, parts), ask)

    assert answers(log.parts) == answers(by_second) == answers([log.events] if log.events else [])


@given(logs())
def test_sums_of_few_events_against_loops(log: Log) -> None:
    few, many = RunningSums(1, HALF_LIVES, few=True), RunningSums(1, HALF_LIVES)
    for part in log.parts:
        order, times, values, _ = columns(part)
        one, other = (sums.before(order, times, values[:, None]) for sums in (few, many))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@given(logs())
def test_plain_sums_are_exact(log: Log) -> None:
    sums = RunningSums(1)

    def ask(part: list[Event]) -> np.ndarray:
        order, times, values, _ = columns(part)
        return sums.before(order, times, values[:, None])[:, 0, 0]

    assert together(log, ask) == [sum(old.value for old in earlier(log, event)) for event in log.events]


@given(logs())
def test_sums_of_keys_are_those_of_rows(log: Log) -> None:
    sums, keyed = RunningSums(1, HALF_LIVES), KeyedSums(1, HALF_LIVES)
    for part in log.parts:
        order, times, values, _ = columns(part)
        keys = np.array([event.row for event in part]) * 2**40 - 7
        np.testing.assert_array_equal(
            keyed.before(keys, times, values[:, None]), sums.before(order, times, values[:, None])
        )


@given(logs())
def test_asking_about_keys_answers_as_recording_would(log: Log) -> None:
    keyed = KeyedSums(1, HALF_LIVES)
    for part in log.parts:
        _, times, values, _ = columns(part)
        keys = np.array([event.row for event in part]) * 2**40 - 7
        known = keyed.keys.tolist()
        asked = keyed.before(keys, times, values[:, None], record=False)
        assert keyed.keys.tolist() == known
        np.testing.assert_array_equal(asked, keyed.before(keys, times, values[:, None]))


@given(logs())
def test_only_keys_with_a_value_get_a_row(log: Log) -> None:
    keyed = KeyedSums(1, HALF_LIVES)
    for part in log.parts:
        _, times, values, _ = columns(part)
        keyed.before(np.array([event.row for event in part]), times, values[:, None])
    assert sorted(keyed.keys.tolist()) == sorted({event.row for event in log.events if event.value})


def test_single_precision_suffices_for_the_events_of_a_user() -> None:
    """Ten thousand events, two minutes apart, in parts of an hour."""
    times = 1_700_000_000 + np.arange(0, 10_000 * 120, 120)
    few, many = RunningSums(1, (np.inf, 172_800.0), few=True), RunningSums(1, (np.inf, 172_800.0))
    for start in range(0, len(times), 30):
        part = times[start : start + 30]
        order = Order.of(np.zeros(len(part), np.int64), part)
        one, other = (sums.before(order, part, np.ones((len(part), 1))) for sums in (few, many))
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert few.arrays()["sums"].dtype == np.float32


@pytest.mark.parametrize("largest", [40, 50_000, 2**17, 80_000_000, 2**40])
def test_many_events_are_sorted_by_row_and_stay_in_order(largest: int) -> None:
    random = np.random.default_rng(largest)
    rows = random.integers(0, largest, 20_000)
    order = Order.of(rows, np.arange(len(rows)))
    assert order.which.tolist() == sorted(range(len(rows)), key=lambda event: (rows[event], event))
    assert (order.unsorted(order.rows) == rows).all()


def test_sums_neither_overflow_nor_vanish_in_months_of_events() -> None:
    """An event a minute for ninety days, in parts of two hours: a naive sum of growing weights overflows after days."""
    times = 1_700_000_000 + np.arange(0, 90 * DAY, 60)
    sums, last = RunningSums(1, (600.0, 172_800.0)), np.zeros((1, 2, 1))
    for start in range(0, len(times), 120):
        part = times[start : start + 120]
        order = Order.of(np.zeros(len(part), np.int64), part)
        last = sums.before(order, part, np.ones((len(part), 1)))
    ratios = 0.5 ** (60 / np.array([600.0, 172_800.0]))
    np.testing.assert_allclose(last[-1, :, 0], ratios / (1 - ratios), rtol=1e-4)
    later = times[-1:] + 365 * DAY
    forgotten = sums.before(Order.of(np.zeros(1, np.int64), later), later, np.ones((1, 1)))
    assert (forgotten == 0).all()
    next_second = later + 1
    assert sums.before(Order.of(np.zeros(1, np.int64), next_second), next_second, np.ones((1, 1))) == pytest.approx(
        1, rel=0.01
    )


@given(logs())
def test_last_times_against_loops(log: Log) -> None:
    last = LastTimes()

    def ask(part: list[Event]) -> np.ndarray:
        order, times, _, counts = columns(part)
        return last.before(order, times, counts)

    expected = [max((old.time for old in earlier(log, event) if old.counts), default=NEVER) for event in log.events]
    assert together(log, ask) == expected


@given(logs())
def test_first_times_against_loops(log: Log) -> None:
    first = FirstTimes()

    def ask(part: list[Event]) -> np.ndarray:
        order, times, _, counts = columns(part)
        return first.before(order, times, counts)

    expected = [min((old.time for old in earlier(log, event) if old.counts), default=NEVER) for event in log.events]
    assert together(log, ask) == expected


@given(logs())
def test_last_values_against_loops(log: Log) -> None:
    last = LastValues()

    def ask(part: list[Event]) -> np.ndarray:
        order, _, values, counts = columns(part)
        return last.before(order, values, counts)

    expected = [([0] + [old.value for old in earlier(log, event) if old.counts])[-1] for event in log.events]
    assert together(log, ask) == expected


@given(logs())
def test_sessions_against_loops(log: Log) -> None:
    """A session begins with an event that counts half an hour or more after the last one that counts."""
    sessions, views, last = Sessions(1_800), RunningSums(1), LastTimes()

    def ask(part: list[Event]) -> np.ndarray:
        order, times, _, counts = columns(part)
        so_far = views.before(order, times, counts[:, None] * 1.0)[:, 0, 0]
        before = last.before(order, times, counts)
        hours = np.where(before == NEVER, np.inf, times - np.maximum(before, 0)) / 3_600
        return sessions.before(order, hours, so_far, counts)

    expected = []
    for event in log.events:
        length, previous = 0, None  # page views of the session that the event belongs to, before its second
        for old in [*(old for old in earlier(log, event) if old.counts), *([event] if event.counts else [])]:
            if previous is None or old.time - previous >= 1_800:
                length = 0
            if old is not event:
                length, previous = length + 1, old.time
        expected.append(length)
    counted = [place for place, event in enumerate(log.events) if event.counts]
    actual = together(log, ask)
    assert [actual[place] for place in counted] == [expected[place] for place in counted]


@settings(max_examples=30)
@given(logs(), st.integers(0, 3 * 365 * DAY))
def test_asking_leaves_no_trace(log: Log, later: int) -> None:
    """Questions about any later moment, before each part, change no answer."""

    def answers(*, question: bool) -> list[Any]:
        sums, last, first, values = RunningSums(1, HALF_LIVES), LastTimes(), FirstTimes(), LastValues()
        results = list[Any]()
        for part in log.parts:
            for seconds, record in ((later, False), (0, True)) if question else ((0, True),):
                order, times, value, counts = columns([event._replace(time=event.time + seconds) for event in part])
                result = [
                    sums.before(order, times, value[:, None], record=record),
                    last.before(order, times, counts, record=record),
                    first.before(order, times, counts, record=record),
                    values.before(order, value, counts, record=record),
                ]
                if record:
                    results.append([array.tolist() for array in result])
        return results

    assert answers(question=True) == answers(question=False)


def test_an_order_of_nothing_asks_nothing() -> None:
    nothing = np.zeros(0, np.int64)
    order = Order.of(nothing, nothing)
    assert RunningSums(2, HALF_LIVES).before(order, nothing, np.zeros((0, 2))).shape == (0, 3, 2)
    assert LastTimes().before(order, nothing, nothing > 0).shape == (0,)
    assert FirstTimes().before(order, nothing, nothing > 0).shape == (0,)

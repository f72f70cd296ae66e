"""User profiles: the update by one event equals the expression over the whole log, and profiles written by hand."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random
from typing import Any, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from drpn.state.profile import CLICKED_KEPT, SKIPPED_KEPT, Entry, Event, Profile, ProfileState
from drpn.state.profile_expressions import (
    PLACES,
    feedback_matrix,
    history_events,
    impression_events,
    profile_sequences,
)

LIMITS = [(2, 3), (1, 1), (3, 2), (CLICKED_KEPT, SKIPPED_KEPT)]
USERS = 4
SHOWN = ibis.schema({"impression": "int64", "news": "string", "clicked": "bool", "order": "int32", "seen": "bool"})
HISTORY = ibis.schema({"user": "int32", "news": "string", "order": "int32", "after": "int64"})
HEADS = ibis.schema({"impression": "int64", "user": "int32"})
random_logs = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would query thousands of logs
)


class Log(NamedTuple):
    """A random log, with the columns that the expressions read."""

    users: list[int]  # of each impression
    shown: list[tuple[int, str, bool, int, bool | None]]  # impression, news, clicked, order, seen
    history: list[tuple[int, str, int, int]]  # user, news, order, after

    def events(self) -> Iterator[tuple[int, Event]]:
        """The user and the event of each row, written from the definition and not with the expressions."""
        for user, news, order, after in self.history:
            yield user, Event(news, True, after * PLACES + PLACES // 2 + order)
        for impression, news, clicked, order, seen in self.shown:
            if clicked or seen is not False:
                yield self.users[impression], Event(news, clicked, impression * PLACES + order)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Up to a few hundred events of four users; stories repeat, and some pages have no positions."""
    stories = st.integers(0, draw(st.sampled_from([3, 15, 150]))).map(str)
    rows = st.tuples(stories, st.booleans(), st.sampled_from([True, True, None, False]))
    size = draw(st.sampled_from([0, 1, 4, 15, 60]))
    users = st.integers(0, USERS - 1)
    pages = draw(st.lists(st.tuples(users, st.lists(rows, min_size=1, max_size=12)), min_size=size, max_size=size))
    positions = draw(st.booleans())
    shown = [
        (number, news, clicked, order if positions else 0, seen)
        for number, (_, page) in enumerate(pages)
        for order, (news, clicked, seen) in enumerate(page)
    ]
    shown += shown[: draw(st.integers(0, 5))]  # the same rows again
    clicks = draw(st.lists(st.tuples(users, stories, st.integers(-1, size - 1)), max_size=10))
    history = [(user, news, order, after) for order, (user, news, after) in enumerate(clicks)]
    return Log([user for user, _ in pages], shown, history)


def long_log() -> Log:
    """A log whose first two users clicked and skipped more stories than the largest limits keep."""
    random = Random(1)
    users = [number % 2 for number in range(80)]
    shown = [
        (number, str(random.randrange(400)), random.random() < 0.2, order, random.random() < 0.9)
        for number in range(80)
        for order in range(8)
    ]
    return Log(users, shown, [])


def memtable(rows: Iterable[tuple[Any, ...]], schema: ibis.Schema) -> ibis.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return ibis.memtable(pa.table(list(columns), schema=schema.to_pyarrow()))


def expression_profiles(log: Log, limits: tuple[int, int], *, start: int | None = None) -> dict[int, Profile]:
    """The profile of each user by the expressions on DuckDB, over the events from `start` on."""
    engine = ibis.duckdb.connect()
    events = impression_events(memtable(log.shown, SHOWN), memtable(enumerate(log.users), HEADS))
    events = events.union(history_events(memtable(log.history, HISTORY)))
    if start is not None:
        events = events.filter(events.moment >= start)
    feedback = engine.create_table("feedback", feedback_matrix(events))
    sides: list[dict[int, list[Entry]]] = []
    for clicked, keep in zip((True, False), limits, strict=True):
        table = engine.to_pyarrow(profile_sequences(feedback, clicked=clicked, keep=keep).order_by("user", "slot"))
        entries: dict[int, list[Entry]] = {user: [] for user in range(USERS)}
        for row in table.to_pylist():
            assert row["slot"] == len(entries[row["user"]])
            entries[row["user"]].append(Entry(row["news"], row["moment"]))
        sides.append(entries)
    engine.disconnect()
    return {user: Profile(sides[0][user], sides[1][user]) for user in range(USERS)}


def profiles_of(states: dict[int, ProfileState], limits: tuple[int, int]) -> dict[int, Profile]:
    return {user: replace(state.profile(*limits), as_of=None) for user, state in states.items()}


@random_logs
@example(long_log(), (CLICKED_KEPT, SKIPPED_KEPT), 1)
@given(logs(), st.sampled_from(LIMITS), st.integers(0, 2**32))
def test_the_updates_give_the_profiles_of_the_expressions(log: Log, limits: tuple[int, int], seed: int) -> None:
    """For events in any order, some of them twice."""
    events = list(log.events())
    events += events[:20]
    Random(seed).shuffle(events)
    states = {user: ProfileState() for user in range(USERS)}
    for user, event in events:
        states[user].update(event)
    assert profiles_of(states, limits) == expression_profiles(log, limits)


@settings(random_logs, max_examples=20)
@given(logs(), st.sampled_from(LIMITS), st.integers(0, 2**32), st.data())
def test_expired_events_leave_the_profiles_of_the_window(
    log: Log, limits: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    """Events expire half-way through; older events that arrive later are ignored."""
    start = data.draw(st.integers(-1, len(log.users))) * PLACES + data.draw(st.integers(0, 5))
    events = list(log.events())
    Random(seed).shuffle(events)
    states = {user: ProfileState() for user in range(USERS)}
    for number, (user, event) in enumerate(events):
        if number == len(events) // 2:
            for state in states.values():
                state.expire_before(start)
                state.expire_before(start - 1)  # never brings anything back
        states[user].update(event)
    assert profiles_of(states, limits) == expression_profiles(log, limits, start=start)


def test_the_long_log_has_more_than_is_kept() -> None:
    events = list(long_log().events())
    for user in (0, 1):
        profile = ProfileState(event for owner, event in events if owner == user).profile(1000, 1000)
        assert len(profile.clicked) > CLICKED_KEPT
        assert len(profile.skipped) > SKIPPED_KEPT


def ids(side: tuple[Entry, ...]) -> list[str]:
    return [entry.news_id for entry in side]


def test_a_click_after_a_skip_moves_the_story() -> None:
    state = ProfileState([Event("storm", False, 1), Event("chess", False, 2)])
    assert ids(state.profile().skipped) == ["storm", "chess"]
    state.update(Event("storm", True, 3))
    assert state.profile() == Profile(clicked=[Entry("storm", 3)], skipped=[Entry("chess", 2)], as_of=3)


def test_a_skip_after_a_click_does_not_move_the_story() -> None:
    state = ProfileState([Event("storm", True, 1), Event("storm", False, 2)])
    assert state.profile() == Profile(clicked=[Entry("storm", 1)], as_of=2)


def test_a_story_clicked_beyond_the_limit_stays_out_of_the_skipped_side() -> None:
    state = ProfileState(Event(f"N{number}", True, number) for number in range(CLICKED_KEPT + 1))
    state.update(Event("N0", False, 1000))
    profile = state.profile()
    assert len(profile.clicked) == CLICKED_KEPT
    assert "N0" not in ids(profile.clicked)
    assert profile.skipped == ()


def test_the_newest_are_kept_oldest_first() -> None:
    state = ProfileState(Event(f"N{number}", number % 2 == 0, number) for number in range(200))
    profile = state.profile()
    assert ids(profile.clicked) == [f"N{number}" for number in range(140, 200, 2)]
    assert ids(profile.skipped) == [f"N{number}" for number in range(81, 200, 2)]
    assert ids(state.profile(clicked=1, skipped=0).clicked) == ["N198"]
    assert state.profile(clicked=1, skipped=0).skipped == ()


def test_a_second_click_makes_a_story_the_newest() -> None:
    state = ProfileState([Event("storm", True, 1), Event("chess", True, 2), Event("storm", True, 3)])
    assert state.profile().clicked == (Entry("chess", 2), Entry("storm", 3))


def test_the_order_of_arrival_does_not_matter_for_events_of_one_moment() -> None:
    page = [Event("storm", False, 5), Event("chess", False, 5), Event("vote", True, 5), Event("vote", False, 5)]
    profiles = {ProfileState(order).profile(skipped=1) for order in permutations(page)}
    assert profiles == {Profile([Entry("vote", 5)], [Entry("storm", 5)], as_of=5)}


def test_datetimes_are_moments() -> None:
    noon = datetime(2019, 11, 9, 12, tzinfo=UTC)
    state = ProfileState([Event("storm", True, noon), Event("chess", True, noon - timedelta(hours=1))])
    assert ids(state.profile().clicked) == ["chess", "storm"]
    assert state.profile().as_of == noon
    state.expire_before(noon)
    assert ids(state.profile(as_of=noon + timedelta(days=1)).clicked) == ["storm"]


def test_an_expired_click_uncovers_a_later_skip() -> None:
    state = ProfileState([Event("storm", True, 1), Event("storm", False, 2)])
    state.expire_before(2)
    assert state.profile() == Profile(skipped=[Entry("storm", 2)], as_of=2)
    state.update(Event("storm", True, 1))
    assert state.profile().clicked == ()


def test_a_state_without_events_has_an_empty_profile() -> None:
    assert ProfileState().profile() == Profile()


def test_a_profile_written_by_hand() -> None:
    profile = Profile(clicked=["storm", "vote"], skipped=["chess"])
    assert profile.clicked == (Entry("storm"), Entry("vote"))
    assert profile.skipped == (Entry("chess"),)
    assert profile.as_of is None
    assert profile == Profile(clicked=[Entry("storm"), "vote"], skipped=("chess",))
    assert profile == Profile(clicked=iter(["storm", "vote"]), skipped={"chess": 1})
    with pytest.raises(FrozenInstanceError):
        profile.as_of = 3  # type: ignore[misc]


def test_a_profile_with_moments() -> None:
    profile = Profile(clicked=[Entry("storm", 1), "vote", Entry("chess", 3)], as_of=3)
    assert [entry.moment for entry in profile.clicked] == [1, None, 3]


def test_clicked_beats_skipped_in_a_profile_written_by_hand() -> None:
    assert Profile(clicked=["storm"], skipped=["storm", "chess"]) == Profile(clicked=["storm"], skipped=["chess"])


def test_a_story_listed_twice_keeps_its_last_place() -> None:
    assert Profile(clicked=["storm", "chess", "storm"]) == Profile(clicked=["chess", "storm"])
    twice = Profile(clicked=[Entry("storm", 1), Entry("chess", 2), Entry("storm", 3)])
    assert twice.clicked == (Entry("chess", 2), Entry("storm", 3))


def test_integer_ids_become_strings() -> None:
    profile = Profile(clicked=[7, np.int32(8)], skipped=[7, "9"])
    assert profile == Profile(clicked=["7", "8"], skipped=["9"])
    state = ProfileState([Event(7, False, 1), Event("7", True, 2), Event(np.int64(8), True, 3)])
    assert ids(state.profile().clicked) == ["7", "8"]
    assert state.profile().skipped == ()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Profile(clicked="storm"), r"clicked is 'storm'; it takes a list of story ids, such as \['storm'\]"),
        (lambda: Profile(skipped=7), r"skipped is 7; it takes a list of story ids"),
        (lambda: Profile(clicked=Entry("storm", 1)), r"clicked is Entry\(.*\); it takes a list of story ids"),
        (lambda: Profile(clicked=[1.5]), r"news_id is 1.5; it takes the id of a story"),
        (lambda: Profile(clicked=[True]), r"news_id is True; it takes the id of a story"),
        (lambda: Profile(clicked=[("storm", 1)]), r"news_id is \('storm', 1\); it takes the id of a story"),
        (lambda: Profile(clicked=[""]), r"news_id is ''; it takes .* a string that is not empty, or an integer"),
        (lambda: Profile(as_of="today"), r"as_of is 'today'; it takes a number or a datetime"),
        (
            lambda: Profile(skipped=[Entry("storm", 2), "vote", Entry("chess", 1)]),
            r"skipped lists 'chess' of 1 after 'storm' of 2; list the oldest first",
        ),
        (
            lambda: Profile(clicked=[Entry("storm", 4)], as_of=3),
            r"clicked lists 'storm' of 4, which is later than as_of 3",
        ),
        (lambda: Entry("storm", "noon"), r"moment is 'noon'; it takes a number or a datetime"),
        (lambda: Event("storm", 1, 2), r"clicked is 1; it takes True or False"),
        (lambda: Event("storm", True, None), r"moment is None; it takes a number or a datetime"),
        (lambda: Event("storm", True, float("nan")), r"moment is nan; it takes a number or a datetime"),
        (lambda: Event(None, True, 1), r"news_id is None; it takes the id of a story"),
        (lambda: ProfileState().profile(clicked=-1), r"clicked is -1; it takes 0 or more"),
        (lambda: ProfileState().profile(as_of="today"), r"as_of is 'today'; it takes a number or a datetime"),
        (lambda: ProfileState().expire_before("today"), r"moment is 'today'; it takes a number or a datetime"),
        (
            lambda: ProfileState([Event("storm", True, 5)]).profile(as_of=4),
            r"as_of is 4, but the newest event is of 5; it takes that or later",
        ),
    ],
)
def test_errors_say_what_is_taken(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def test_an_event_that_cannot_be_compared_changes_nothing() -> None:
    state = ProfileState([Event("storm", True, 1)])
    before = state.profile()
    with pytest.raises(ValueError, match=r"the moments 1 and datetime.*cannot be compared; use only numbers"):
        state.update(Event("chess", True, datetime(2019, 11, 9)))
    with pytest.raises(ValueError, match="cannot be compared"):
        state.expire_before(datetime(2019, 11, 9))
    assert state.profile() == before


def test_profiles_import_only_the_standard_library() -> None:
    code = """
import sys
before = set(sys.modules)
import drpn.state.profile
imported = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(imported - sys.stdlib_module_names))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["drpn"]

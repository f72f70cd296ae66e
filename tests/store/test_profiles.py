"""Profiles of a store equal the plain rule over its log, whatever arrived in which order."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from drpn.errors import RefusedError
from drpn.state.profile import CLICKED_KEPT, SKIPPED_KEPT
from drpn.store.base import Store
from drpn.store.opening import open_store
from drpn.store.records import (
    Click,
    ClickCounted,
    Closed,
    Erased,
    Impression,
    LoggedEvent,
    NewsPut,
    Seeded,
    Shown,
    TakenDown,
)
from drpn.store.settings import StoreSettings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
USERS, STORIES, NAMES = ("anna", "ben"), "abcde", ("i1", "i10", "i2", "j", "ä", "z")
Sides = tuple[list[str], list[str]]

seldom = st.sampled_from([False, False, False, False, True])  # most stories are skipped
shown = st.lists(
    st.builds(
        Shown,
        st.sampled_from(STORIES),
        seldom,
        position=st.none() | st.integers(0, 3),
        seen=st.sampled_from([None, None, True, False]),
    ),
    min_size=2,
    max_size=5,
    unique_by=lambda story: story.news_id,
).map(tuple)
minutes = st.integers(0, 3).map(lambda minute: NOW - timedelta(minutes=minute))
impressions = st.builds(
    Impression, st.sampled_from(NAMES), st.sampled_from(USERS), shown, minutes, complete=st.booleans()
)
clicks = st.builds(Click, st.sampled_from(NAMES), st.sampled_from(USERS), st.sampled_from(STORIES), minutes)
closings = st.tuples(st.sampled_from(USERS), minutes)
operations = st.lists(
    st.one_of(impressions, impressions, clicks, clicks, clicks, closings, minutes, st.just("reopen"))
    | st.sampled_from(USERS),
    max_size=25,
)


@contextmanager
def a_store(file: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{file}", StoreSettings(key_hours=1), clock=lambda: NOW)
    try:
        yield store
    finally:
        store.close()


def apply(store: Store, operation: object) -> None:
    """One call; refusals are part of the game."""
    with suppress(RefusedError):
        match operation:
            case Impression():
                store.add_impression(operation).result()
            case Click():
                store.add_click(operation).result()
            case (str(user), now):
                store.close_for(user, now).result()
            case datetime():
                store.close_before(operation).result()
            case str(user):
                store.erase(user).result()


def plain_rule(log: list[LoggedEvent], user: str) -> Sides:
    """The profile by sorting all clicks and skips in the log by the time, id and position of their impressions."""
    pages: dict[str, Impression] = {}
    events: list[tuple[tuple[datetime, str, int], str, bool]] = []
    for entry in log:
        match entry.what:
            case Impression() as page:
                pages[page.impression_id] = page
                told = [(page, story.news_id, True) for story in page.shown if story.clicked]
            case ClickCounted(click):
                told = [(pages[click.impression_id], click.news_id, True)]
            case Closed() as closed:
                told = [(pages[closed.impression_id], story, False) for story in closed.skipped]
            case NewsPut() | TakenDown() | Erased() | Seeded():
                told = []
        for page, story, clicked in told:
            if page.user_id == user:
                place = next(number for number, one in enumerate(page.shown) if one.news_id == story)
                position = page.shown[place].position
                assert page.time is not None
                moment = (page.time, page.impression_id, place if position is None else position)
                events.append((moment, story, clicked))
    last = {
        clicked: {story: moment for moment, story, kind in sorted(events) if kind is clicked}
        for clicked in (True, False)
    }
    sides = last[True], {story: moment for story, moment in last[False].items() if story not in last[True]}
    clicks_, skips = (sorted(side, key=lambda story, side=side: (side[story], story)) for side in sides)
    return clicks_[-CLICKED_KEPT:], skips[-SKIPPED_KEPT:]


def profile(store: Store, user: str) -> Sides:
    state = store.user(user).profile
    return [entry.news_id for entry in state.clicked], [entry.news_id for entry in state.skipped]


@given(operations)
@settings(deadline=None, max_examples=60)
def test_profiles_equal_the_plain_rule_over_the_log(operations: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        rest = list(operations)
        while True:
            with a_store(file) as store:
                while rest and rest[0] != "reopen":
                    apply(store, rest.pop(0))
                log = store.events_after(0)
                for user in USERS:
                    assert profile(store, user) == plain_rule(log, user)
                    assert store.user(user).clicked == set(plain_rule(log, user)[0])
            if not rest:
                break
            rest.pop(0)


pages_of_anna = st.lists(
    st.builds(Impression, st.sampled_from(NAMES), st.just("anna"), shown, minutes, complete=st.booleans()),
    unique_by=lambda page: page.impression_id,
    min_size=2,
)


@given(st.data(), pages_of_anna)
@settings(deadline=None, max_examples=40)
def test_the_order_of_arrival_does_not_matter(data: st.DataObject, pages: list[Impression]) -> None:
    late = [
        Click(page.impression_id, "anna", story.news_id, NOW)
        for page in pages
        for story in page.shown
        if data.draw(seldom)
    ]
    orders = [data.draw(st.permutations(pages)), pages]
    results = []
    for order, close_first in zip(orders, (True, False), strict=True):
        with tempfile.TemporaryDirectory() as folder, a_store(Path(folder) / "store.db") as store:
            for page in order:
                store.add_impression(page).result()
            if close_first:
                store.close_for("anna").result()
            for click in data.draw(st.permutations(late)):
                store.add_click(click).result()
            store.close_for("anna").result()
            results.append((profile(store, "anna"), store.user("anna").clicked))
    assert results[0] == results[1]

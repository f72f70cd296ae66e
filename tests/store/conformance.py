"""The rules of `drpn.store.base` as tests that every kind of store passes.

A kind of store makes a subclass with a fixture `opener`: a function that opens the same store again and again.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pytest

from drpn.errors import (
    EventTimeError,
    NotShownError,
    RefusedError,
    RepeatedKeyError,
    SettingsError,
    StoreError,
    UnknownImpressionError,
)
from drpn.state.profile import Profile
from drpn.store.base import Store
from drpn.store.keys import SCOPES, create_key, find_key, revoke_key
from drpn.store.records import (
    Click,
    ClickCounted,
    Closed,
    Erased,
    Impression,
    LoggedRanking,
    NewsPut,
    Receipt,
    Seed,
    Seeded,
    Shown,
    Story,
    TakenDown,
    UserState,
    VariantCounts,
    shown_stories,
)
from drpn.store.settings import StoreSettings

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


class Opener(Protocol):
    """Opens the store of a test."""

    def __call__(self, settings: StoreSettings = StoreSettings()) -> Store: ...


def page(number: int, user: str = "anna", stories: str = "abc", clicked: str = "", **columns: object) -> Impression:
    """An impression of minute `number` after noon; each letter is a story."""
    time = columns.pop("time", NOON + number * MINUTE)
    return Impression(f"i{number}", user, shown_stories(stories, clicked), time=time, **columns)  # type: ignore[arg-type]


def sides(state: UserState) -> tuple[str, str]:
    """The clicked and the skipped stories of a profile, as letters."""
    return tuple("".join(entry.news_id for entry in side) for side in (state.profile.clicked, state.profile.skipped))  # type: ignore[return-value]


def times_skipped(state: UserState) -> dict[str, int]:
    """How often each story was skipped."""
    return {news_id: skips.times for news_id, skips in state.skips.items()}


class StoreConformance:
    """Tests of a store."""

    @pytest.fixture
    def clock(self) -> Clock:
        clock = Clock()
        clock.now = NOON + 60 * MINUTE
        return clock

    @pytest.fixture
    def opener(self, clock: Clock) -> Iterator[Opener]:
        raise NotImplementedError

    @pytest.fixture
    def store(self, opener: Opener) -> Store:
        return opener()

    # clicks and skips

    def test_clicks_count_at_once_and_skips_at_closing(self, store: Store) -> None:
        store.add_impression(page(0, clicked="b")).result()
        assert sides(store.user("anna")) == ("b", "")
        assert [stored.impression.impression_id for stored in store.open_impressions("anna")] == ["i0"]
        closed = store.close_for("anna").result()
        assert closed == (Closed("i0", "anna", NOON, ("a", "c")),)
        assert sides(store.user("anna")) == ("b", "ac")
        assert store.open_impressions("anna") == []
        assert store.close_for("anna").result() == ()

    def test_late_click_turns_a_skip_into_a_click(self, store: Store) -> None:
        store.add_impression(page(0)).result()
        store.add_click(Click("i0", "anna", "a", NOON)).result()
        store.close_for("anna").result()
        store.add_click(Click("i0", "anna", "c", NOON + MINUTE)).result()
        assert sides(store.user("anna")) == ("ac", "b")
        clicks = [event.what for event in store.events_after(0) if isinstance(event.what, ClickCounted)]
        assert [click.was_skipped for click in clicks] == [False, True]
        assert [click.position for click in clicks] == [0, 2]

    def test_complete_impression_is_closed_at_once(self, store: Store) -> None:
        store.add_impression(page(0, clicked="a", complete=True)).result()
        assert sides(store.user("anna")) == ("a", "bc")
        assert [type(event.what) for event in store.events_after(0)] == [Impression, Closed]

    def test_unseen_stories_are_not_skipped(self, store: Store) -> None:
        shown = (Shown("a"), Shown("b", seen=False), Shown("c", seen=True), Shown("d", seen=False))
        store.add_impression(Impression("i", "anna", shown, NOON)).result()
        store.close_for("anna").result()
        assert sides(store.user("anna")) == ("", "ac")
        store.add_click(Click("i", "anna", "d", NOON)).result()
        assert sides(store.user("anna")) == ("d", "ac")

    def test_skips_are_counted(self, store: Store, clock: Clock) -> None:
        for number in range(3):
            store.add_impression(page(-3 + number, stories="ab" if number else "abc", complete=True)).result()
        store.add_impression(page(-3, user="ben", complete=True)).exception()  # refused: the id is taken
        assert times_skipped(store.user("anna")) == {"a": 3, "b": 3, "c": 1}
        store.add_click(Click("i-3", "anna", "a")).result()
        assert times_skipped(store.user("anna")) == {"b": 3, "c": 1}
        clock.now += MINUTE
        store.add_impression(page(0, stories="bd")).result()
        assert times_skipped(store.user("anna")) == {"b": 3, "c": 1}  # open: nothing is a skip yet
        store.close_for("anna").result()
        assert times_skipped(store.user("anna")) == {"b": 4, "c": 1, "d": 1}
        last = {news_id: skips.last for news_id, skips in store.user("anna").skips.items()}
        assert last == {"b": NOON.timestamp(), "c": (NOON - 3 * MINUTE).timestamp(), "d": NOON.timestamp()}

    def test_a_user_as_if_page_views_were_stored(self, store: Store) -> None:
        store.add_impression(page(-9, stories="abcd", clicked="a", complete=True)).result()
        before, events = store.user("anna"), store.last_sequence()
        also = [page(-2, stories="ace", clicked="e"), page(-1, stories="cdf", clicked="d")]
        also.append(replace(page(0, stories="g"), shown=(Shown("g", seen=False),)))
        expected = store.user("anna", also=also)
        assert (store.user("anna"), store.last_sequence()) == (before, events)
        assert store.user("stranger", also=[page(-1, stories="ab", clicked="b")]).profile.clicked[0].news_id == "b"
        for impression in also:
            store.add_impression(impression).result()
        store.close_for("anna").result()
        stored = store.user("anna")
        assert expected == replace(stored, version=before.version)
        assert sides(stored) == ("aed", "bcf")
        assert times_skipped(stored) == {"b": 1, "c": 3, "f": 1}

    def test_repeated_clicks_count_once(self, store: Store) -> None:
        store.add_impression(page(0)).result()
        first = store.add_click(Click("i0", "anna", "a", NOON)).result()
        again = store.add_click(Click("i0", "anna", "a", NOON + MINUTE)).result()
        assert (first.repeated, again.repeated) == (False, True)
        assert store.last_sequence() == first.sequence

    def test_click_with_the_impression_counts_once(self, store: Store) -> None:
        store.add_impression(page(0, clicked="a")).result()
        assert store.add_click(Click("i0", "anna", "a", NOON)).result().repeated

    def test_clicks_that_are_refused(self, store: Store) -> None:
        store.add_impression(page(0)).result()
        version = store.version("anna")
        with pytest.raises(UnknownImpressionError, match="i1"):
            store.add_click(Click("i1", "anna", "a")).result()
        with pytest.raises(UnknownImpressionError, match="i0"):
            store.add_click(Click("i0", "ben", "a")).result()
        with pytest.raises(NotShownError, match="'z'"):
            store.add_click(Click("i0", "anna", "z")).result()
        assert store.version("anna") == version
        assert store.version("ben") == 0
        assert store.last_sequence() == 1

    def test_only_impressions_up_to_now_are_closed(self, store: Store) -> None:
        store.add_impression(page(5, stories="a")).result()
        store.add_impression(page(7, stories="b")).result()
        assert [closed.impression_id for closed in store.close_for("anna", NOON + 6 * MINUTE).result()] == ["i5"]
        assert sides(store.user("anna")) == ("", "a")

    def test_old_impressions_are_closed_in_steps(self, store: Store) -> None:
        for number in range(5):
            store.add_impression(page(number, user=f"u{number}")).result()
        assert store.close_before(NOON + 4 * MINUTE, limit=3).result() == 3
        assert store.close_before(NOON + 4 * MINUTE, limit=3).result() == 1
        assert store.close_before(NOON + 4 * MINUTE, limit=3).result() == 0
        assert [sides(store.user(f"u{number}"))[1] for number in range(5)] == ["abc"] * 4 + [""]

    # order and times

    def test_profiles_follow_the_time_of_impressions(self, store: Store) -> None:
        store.add_impression(page(9, stories="xy", clicked="x", complete=True)).result()
        store.add_impression(page(3, stories="abxy", clicked="a", complete=True)).result()
        store.add_impression(page(5, stories="cd", clicked="c", complete=True)).result()
        state = store.user("anna")
        assert sides(state) == ("acx", "bdy")
        assert state.profile.clicked[0].moment == NOON + 3 * MINUTE
        assert state.profile.as_of == NOON + 9 * MINUTE
        assert state.clicked == {"a", "c", "x"}

    def test_impressions_of_one_moment_are_in_the_order_of_their_ids(self, store: Store) -> None:
        for name, story in (("i2", "a"), ("i10", "b"), ("i1", "c")):
            store.add_impression(Impression(name, "anna", shown_stories(story, story), NOON)).result()
        assert sides(store.user("anna")) == ("cba", "")

    def test_positions_order_a_page(self, store: Store) -> None:
        shown = (Shown("a", True, position=7), Shown("b", True, position=2), Shown("c", True))
        store.add_impression(Impression("i", "anna", shown, NOON)).result()
        assert sides(store.user("anna")) == ("bca", "")

    def test_times(self, store: Store, clock: Clock) -> None:
        clock.now = NOON
        store.add_impression(Impression("late", "anna", shown_stories("a"))).result()
        stored = store.impression("late")
        assert stored is not None
        assert stored.impression.time == NOON
        store.add_impression(page(0, time=NOON + timedelta(seconds=59))).result()
        with pytest.raises(EventTimeError, match="future"):
            store.add_impression(page(1, time=NOON + timedelta(seconds=61))).result()
        with pytest.raises(EventTimeError, match="365 days"):
            store.add_impression(page(2, time=NOON - 366 * DAY)).result()
        with pytest.raises(EventTimeError, match="future"):
            store.add_click(Click("i0", "anna", "a", NOON + timedelta(hours=1))).result()
        store.add_impression(page(3, time=datetime(2026, 3, 1, 11))).result()  # UTC without a time zone
        stored = store.impression("i3")
        assert stored is not None
        assert stored.impression.time == NOON - 60 * MINUTE

    def test_profile_keeps_the_newest(self, store: Store) -> None:
        for number in range(40):
            shown = (Shown(f"c{number:02}", True), Shown(f"s{number:02}"), Shown(f"t{number:02}"))
            store.add_impression(
                Impression(f"i{number}", "anna", shown, NOON + number * MINUTE, complete=True)
            ).result()
        state = store.user("anna")
        assert [entry.news_id for entry in state.profile.clicked] == [f"c{number:02}" for number in range(10, 40)]
        assert len(state.profile.skipped) == 60
        assert len(state.clicked) == 40

    # repeated requests

    def test_same_key_and_content_is_acknowledged_again(self, store: Store) -> None:
        impression, click = page(0), Click("i0", "anna", "a", NOON)
        story = Story("a", "Storm", published=NOON)
        for change in (
            lambda: store.add_impression(impression, key="one"),
            lambda: store.add_click(click, key="two"),
            lambda: store.put_news([story], key="three"),
            lambda: store.take_down(["a"], key="four"),
        ):
            first, again = change().result(), change().result()
            assert (first.repeated, again) == (False, Receipt(first.sequence, repeated=True))
        assert store.last_sequence() == 4

    def test_same_key_with_other_content_is_refused(self, store: Store) -> None:
        store.add_impression(page(0), key="one").result()
        for change in (
            lambda: store.add_impression(page(1), key="one"),
            lambda: store.add_impression(page(0, user="ben"), key="one"),
            lambda: store.add_click(Click("i0", "anna", "a"), key="one"),
            lambda: store.put_news([Story("a", "Storm")], key="one"),
        ):
            with pytest.raises(RepeatedKeyError):
                change().result()
        assert store.last_sequence() == 1

    def test_refused_change_does_not_use_its_key(self, store: Store) -> None:
        with pytest.raises(UnknownImpressionError):
            store.add_click(Click("i0", "anna", "a", NOON), key="one").result()
        store.add_impression(page(0)).result()
        assert not store.add_click(Click("i0", "anna", "a", NOON), key="one").result().repeated

    def test_keys_are_forgotten(self, store: Store, clock: Clock) -> None:
        store.put_news([Story("a", "Storm")], key="one").result()
        clock.now += timedelta(hours=73)
        assert not store.put_news([Story("b", "Flood")], key="one").result().repeated

    def test_an_impression_id_works_like_a_key(self, store: Store) -> None:
        first = store.add_impression(page(0)).result()
        assert store.add_impression(page(0)).result() == Receipt(first.sequence, repeated=True)
        for other in (page(0, clicked="a"), page(0, user="ben"), page(0, device="phone")):
            with pytest.raises(RepeatedKeyError, match="i0"):
                store.add_impression(other).result()

    def test_concurrent_retries_make_one_event(self, store: Store) -> None:
        receipts = [store.add_impression(page(0), key="one") for _ in range(50)]
        assert sum(not receipt.result().repeated for receipt in receipts) == 1
        assert store.last_sequence() == 1

    # the log

    def test_log_gives_back_what_was_written(self, store: Store) -> None:
        shown = (Shown("a", True, 3, True, 0.5, 0.25), Shown("b", seen=False), Shown("c", score=-1.5))
        impression = Impression(
            "i", "änna", shown, NOON, "p", "front page", "s1", "phone", 42.0, "f", "yes", "bundle", "B"
        )  # fmt: skip
        story = Story("a", "Störm", "weather", "rain", "Wet.", NOON, NOON + DAY, (0.5, -1.0), "[]")
        store.add_impression(impression).result()
        store.add_click(Click("i", "änna", "c", NOON + MINUTE)).result()
        store.close_for("änna").result()
        store.put_news([story]).result()
        store.take_down(["a"]).result()
        log = store.events_after(0)
        assert [event.sequence for event in log] == [1, 2, 3, 4, 5]
        assert [event.what for event in log] == [
            impression,
            ClickCounted(Click("i", "änna", "c", NOON + MINUTE), NOON, 2, was_skipped=False),
            Closed("i", "änna", NOON, ()),
            NewsPut(story),
            TakenDown("a"),
        ]
        assert [event.time for event in log[:2]] == [NOON, NOON + MINUTE]
        assert [event.sequence for event in store.events_after(2, limit=2)] == [3, 4]
        assert store.events_after(5) == []
        stored = store.impression("i")
        assert stored is not None
        assert (stored.impression, stored.closed) == (impression, True)
        assert [click.news_id for click in stored.clicks] == ["c", "a"]
        assert [event.sequence for event in store.user_events("änna")] == [1, 2, 3]
        assert store.impression("other") is None

    def test_sequence_of_a_moment(self, store: Store) -> None:
        for number in (1, 5, 3):
            store.add_impression(page(number)).result()
        moments = [store.sequence_at(NOON + number * MINUTE) for number in range(6)]
        assert moments == [0, 1, 1, 1, 1, 3]

    def test_versions_rise_with_each_change(self, store: Store) -> None:
        versions = [store.version("anna")]
        for change in (
            lambda: store.add_impression(page(0)),
            lambda: store.add_click(Click("i0", "anna", "a", NOON)),
            lambda: store.close_for("anna"),
            lambda: store.add_click(Click("i0", "anna", "b", NOON)),
        ):
            change().result()
            versions.append(store.version("anna"))
            assert store.user("anna").version == versions[-1]
        assert versions == sorted(set(versions))
        store.add_impression(page(1, user="ben")).result()
        assert store.version("anna") == versions[-1]

    def test_everything_is_there_after_opening_again(self, store: Store, opener: Opener) -> None:
        store.add_impression(page(0, clicked="a"), key="one").result()
        store.put_news([Story("a", "Storm")]).result()
        before = store.user("anna"), store.events_after(0), list(store.stories())
        store.close()
        again = opener()
        assert (again.user("anna"), again.events_after(0), list(again.stories())) == before
        assert again.add_impression(page(0, clicked="a"), key="one").result().repeated
        assert [closed.impression_id for closed in again.close_for("anna").result()] == ["i0"]

    def test_two_open_stores_see_each_other(self, store: Store, opener: Opener) -> None:
        other = opener()
        store.add_impression(page(0), key="one").result()
        assert other.add_impression(page(0), key="one").result().repeated
        other.add_click(Click("i0", "anna", "a", NOON)).result()
        store.close_for("anna").result()
        assert other.user("anna") == store.user("anna")
        assert [event.sequence for event in store.events_after(0)] == [1, 2, 3]

    def test_closed_store_says_so(self, store: Store) -> None:
        store.close()
        for call in (
            lambda: store.add_impression(page(0)),
            lambda: store.append_rankings([]),
            lambda: store.user("anna"),
        ):
            with pytest.raises(StoreError, match="closed"):
                call()
        store.close()

    def test_closing_writes_what_waits(self, store: Store, opener: Opener) -> None:
        receipts = [store.add_impression(page(number, user=f"u{number}")) for number in range(50)]
        store.append_rankings([LoggedRanking("i0", "u0", NOON, "b", "A", ("a",))])
        store.close()
        assert all(receipt.result().sequence for receipt in receipts)
        again = opener()
        assert again.last_sequence() == 50
        assert list(again.rankings(["i0"])) == ["i0"]

    # news

    def test_news(self, store: Store, clock: Clock) -> None:
        store.put_news([Story("a", "Storm", expires=clock.now + MINUTE), Story("b", "Chess")]).result()
        repeated = store.put_news([Story("b", "Chess")]).result()
        assert repeated.repeated
        assert store.last_sequence() == 2
        store.put_news([Story("b", "Chess again")]).result()
        store.put_news([Story("c", "Derby")]).result()
        assert [stored.story.title for stored in store.stories()] == ["Storm", "Chess again", "Derby"]
        assert [stored.story.title for stored in store.stories(["c", "a", "unknown"])] == ["Storm", "Derby"]
        a, b, _ = store.stories()
        assert (a.live(clock.now), a.live(clock.now + MINUTE), b.live(clock.now + DAY)) == (True, False, True)

    def test_takedown(self, store: Store, clock: Clock) -> None:
        store.put_news([Story("a", "Storm")]).result()
        store.take_down(["a", "unknown"]).result()
        assert {stored.story.news_id: stored.live(clock.now) for stored in store.stories()} == {
            "a": False,
            "unknown": False,
        }
        assert store.take_down(["a"]).result().repeated
        store.put_news([Story("a", "Storm")]).result()
        (again,) = store.stories(["a"])
        assert again.live(clock.now)

    # erasure

    def test_erasure(self, store: Store) -> None:
        store.add_impression(page(0, clicked="a", complete=True)).result()
        store.add_impression(page(1, user="ben", clicked="a")).result()
        version, mark = store.version("anna"), store.mark("anna")
        receipt = store.erase("anna").result()
        assert store.user("anna") == UserState(0, Profile(), frozenset(), erased=True)
        assert store.is_erased("anna")
        assert not store.is_erased("ben")
        assert list(store.user_events("anna")) == []
        assert store.impression("i0") is None
        log = store.events_after(0)
        assert [event.what for event in log if isinstance(event.what, Erased)] == [Erased(mark)]
        assert {event.what.user_id for event in log if isinstance(event.what, Impression | Closed)} == {"ben"}
        assert log[-1].sequence == receipt.sequence
        with pytest.raises(UnknownImpressionError):
            store.add_click(Click("i0", "anna", "b", NOON)).result()
        store.add_impression(page(2, clicked="c")).result()
        state = store.user("anna")
        assert sides(state) == ("c", "")
        assert state.version > version
        assert state.erased

    def test_a_retry_does_not_bring_an_erased_user_back(self, store: Store) -> None:
        store.add_impression(page(0), key="one").result()
        store.erase("anna").result()
        assert store.add_impression(page(0), key="one").result().repeated
        assert store.version("anna") == 0

    def test_erasure_of_an_unknown_user(self, store: Store) -> None:
        assert store.erase("nobody").result().sequence == 1
        assert store.is_erased("nobody")

    # seeds

    def test_seed(self, store: Store, opener: Opener) -> None:
        seeds = [
            Seed("anna", Profile(["b", "a"], ["z", "y"], NOON - DAY), ("a", "b", "old")),
            Seed("ben", Profile(["c"])),
            Seed("carl", Profile()),
        ]
        store.erase("ben").result()
        assert store.seed(iter(seeds), batch=2)
        state = store.user("anna")
        assert sides(state) == ("oldba", "zy")
        assert state.clicked == {"a", "b", "old"}
        assert state.profile.as_of == NOON - DAY
        assert {entry.moment for entry in state.profile.clicked} == {None}
        assert store.user("ben") == UserState(0, Profile(), frozenset(), erased=True)
        assert [event.what for event in store.events_after(1)] == [Seeded(1), Seeded(1)]
        assert state.version > 0
        assert not store.seed([Seed("dora", Profile(["c"]))])
        store.add_impression(page(0, stories="yzn", clicked="y", complete=True)).result()
        changed = store.user("anna")
        assert sides(changed) == ("oldbay", "zn")
        assert changed.version > state.version
        store.erase("anna").result()
        assert store.version("anna") == 0
        store.close()
        assert not opener().seed(seeds)

    def test_interrupted_seed_is_completed(self, store: Store) -> None:
        def broken() -> Iterator[Seed]:
            yield from [Seed("anna", Profile(["a"])), Seed("ben", Profile(["b"]))]
            raise OSError("unplugged")

        with pytest.raises(OSError, match="unplugged"):
            store.seed(broken(), batch=1)
        version = store.version("anna")
        assert store.seed([Seed("anna", Profile(["a"])), Seed("ben", Profile(["b"])), Seed("carl", Profile(["c"]))])
        assert [sides(store.user(name))[0] for name in ("anna", "ben", "carl")] == ["a", "b", "c"]
        assert store.version("anna") == version

    def test_only_an_empty_store_is_seeded(self, store: Store) -> None:
        store.add_impression(page(0)).result()
        with pytest.raises(StoreError, match="empty"):
            store.seed([Seed("ben", Profile(["a"]))])

    # retention

    def test_retention(self, store: Store, clock: Clock) -> None:
        for number in range(35):
            story = (Shown(f"c{number:02}", True),)
            store.add_impression(Impression(f"old{number}", "anna", story, NOON, complete=True)).result()
        store.add_impression(page(0, user="ben", stories="xyz", clicked="x")).result()
        store.append_rankings([LoggedRanking("old1", "carl", NOON, "b", "A", ("a",))])
        clock.now += 300 * DAY
        fresh = Impression("new", "anna", shown_stories("ab", "a"), complete=True)
        store.add_impression(fresh, key="one").result()
        before = store.user("anna")
        assert store.delete_expired().result() == 0
        clock.now += 100 * DAY
        steps = []
        while (deleted := store.delete_expired(limit=10).result()) and len(steps) < 50:
            steps.append(deleted)
        assert len(steps) >= 4
        assert max(steps) <= 31
        after = store.user("anna")
        assert after.profile == before.profile
        assert after.version == before.version
        assert after.clicked == {entry.news_id for entry in before.profile.clicked}
        assert [type(event.what) for event in store.events_after(0)] == [Impression, Closed, Closed]
        assert sides(store.user("ben")) == ("x", "yz")
        assert store.impression("i0") is None
        assert store.rankings(["old1"]) == {}

    def test_retention_of_news(self, store: Store, clock: Clock) -> None:
        store.put_news([Story("old", "Old", expires=clock.now), Story("live", "Live"), Story("down", "Down")]).result()
        store.take_down(["down"]).result()
        clock.now += 400 * DAY
        while store.delete_expired().result():
            pass
        assert {stored.story.news_id: stored.live(clock.now) for stored in store.stories()} == {
            "old": False,
            "live": True,
            "down": False,
        }
        assert [stored.story.title for stored in store.stories(["live"])] == ["Live"]
        assert [stored.story.title for stored in store.stories(["old", "down"])] == ["", ""]

    # rankings

    def test_rankings_and_counts_for_each_variant(self, store: Store) -> None:
        rankings = [
            LoggedRanking("i0", "anna", NOON, "b1", "A", ("a", "b"), (0.5, 0.25), (1.0, 0.5)),
            LoggedRanking("i1", None, NOON, "b1", "B", ("b",), fallback=True),
        ]
        assert store.append_rankings(rankings) == 0
        store.add_impression(page(0, clicked="a", bundle="b1", variant="A")).result()
        store.add_impression(page(1, bundle="b1", variant="B")).result()
        store.add_impression(page(2, bundle="b1", variant="B")).result()
        store.add_impression(page(3)).result()
        for story in "aab":
            store.add_click(Click("i1", "anna", story, NOON)).result()
        assert store.variant_counts() == [VariantCounts("b1", "A", 1, 3, 1), VariantCounts("b1", "B", 2, 6, 2)]
        assert store.rankings(["i0", "i1", "i2"]) == {"i0": rankings[0], "i1": rankings[1]}
        store.erase("anna").result()
        assert store.rankings(["i0", "i1"]) == {"i1": rankings[1]}
        assert store.variant_counts()[1] == VariantCounts("b1", "B", 2, 6, 2)

    def test_a_user_who_was_only_ranked_for_has_no_profile(self, store: Store) -> None:
        store.append_rankings([LoggedRanking("i0", "anna", NOON, "b1", "A", ("a",))])
        store.add_impression(page(1, user="ben")).result()
        assert store.user("anna") == UserState(0, Profile(), frozenset(), erased=False)
        assert store.figures().users == 1

    # input that is refused

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Impression("", "anna", shown_stories("a")),
            lambda: Impression("i", " ", shown_stories("a")),
            lambda: Impression("i", "anna", ()),
            lambda: Impression("i", "anna", shown_stories("aa")),
            lambda: Impression("i", "an\0na", shown_stories("a")),
            lambda: Impression("i", "\ud800", shown_stories("a")),
            lambda: Impression("i", "a" * 257, shown_stories("a")),
            lambda: Impression("i", "ä" * 129, shown_stories("a")),
            lambda: Impression("i", "anna", tuple(Shown(str(number)) for number in range(1001))),
            lambda: Impression("i", "anna", shown_stories("a"), age=float("nan")),
            lambda: shown_stories("a", "b"),
            lambda: Shown("a", position=-1),
            lambda: Shown("a", score=float("inf")),
            lambda: Story("a", "Storm", vector=(1.0, float("nan"))),
            lambda: Click("i", "", "a"),
            lambda: LoggedRanking("i", "anna", NOON, "b", "A", ("a", "b"), (1.0,)),
        ],
    )  # fmt: skip
    def test_records_that_cannot_be_stored(self, make: Callable[[], object]) -> None:
        with pytest.raises(RefusedError):
            make()

    @pytest.mark.parametrize("name", ["", " ", "\0", "\ud800", "x" * 257])
    def test_ids_that_cannot_be_stored(self, store: Store, name: str) -> None:
        for call in (
            lambda: store.user(name),
            lambda: store.version(name),
            lambda: store.is_erased(name),
            lambda: store.mark(name),
            lambda: next(store.user_events(name)),
            lambda: store.impression(name),
            lambda: store.open_impressions(name),
            lambda: store.close_for(name),
            lambda: store.erase(name),
            lambda: store.take_down([name]),
        ):
            with pytest.raises(RefusedError):
                call()
        assert store.last_sequence() == 0

    def test_keys_that_cannot_be_stored(self, store: Store) -> None:
        for call in (
            lambda: store.add_impression(page(0), key="\ud800"),
            lambda: store.add_click(Click("i0", "anna", "a"), key="\ud800"),
            lambda: store.put_news([Story("a", "Storm")], key="\ud800"),
            lambda: store.take_down(["a"], key="\ud800"),
        ):
            with pytest.raises(RefusedError, match="key"):
                call()

    def test_one_failing_change_leaves_the_others_alone(self, store: Store) -> None:
        good = [store.add_impression(page(number)) for number in range(5)]
        bad = store.add_click(Click("i0", "ben", "a", NOON))
        more = [store.add_impression(page(number)) for number in range(5, 10)]
        with pytest.raises(UnknownImpressionError):
            bad.result()
        assert [receipt.result().sequence for receipt in good + more] == list(range(1, 11))

    # many threads

    def test_readers_see_whole_changes_in_order(self, store: Store) -> None:
        """A reader that follows the log sees each number once, in order, while several threads write."""
        writers, each = 4, 40
        errors: list[BaseException] = []
        done = threading.Event()

        def write(name: int) -> None:
            for number in range(each):
                shown = shown_stories("ab", "a")
                store.add_impression(Impression(f"{name}-{number}", f"u{name}", shown, NOON, complete=True)).result()

        def follow() -> None:
            try:
                last, seen = 0, 0
                while seen < 2 * writers * each:
                    finished = done.is_set()
                    events = store.events_after(last, limit=7)
                    assert [event.sequence for event in events] == list(range(last + 1, last + 1 + len(events)))
                    for event in events:
                        if isinstance(event.what, Impression):
                            assert store.version(event.what.user_id) >= event.sequence
                    last, seen = last + len(events), seen + len(events)
                    assert events or not finished
            except BaseException as error:
                errors.append(error)

        readers = [threading.Thread(target=follow) for _ in range(3)]
        threads = [threading.Thread(target=write, args=(name,)) for name in range(writers)]
        for thread in readers + threads:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        for thread in readers:
            thread.join()
        assert not errors

    # API keys

    def test_keys(self, store: Store, opener: Opener) -> None:
        key, record = create_key(store, "front page", ["rank", "events"], NOON)
        other, _ = create_key(store, "admin", SCOPES, NOON + MINUTE)
        store.close()
        store = opener()
        assert [stored.name for stored in store.api_keys()] == ["front page", "admin"]
        assert find_key(store.api_keys(), key) == record
        assert record.scopes == {"rank", "events"}
        for wrong in ("", "drpn", key[:-1], key + "x", "\ud800", record.digest.hex()):
            assert find_key(store.api_keys(), wrong) is None
        revoke_key(store, record.key_id, NOON + MINUTE)
        assert find_key(store.api_keys(), key) is None
        assert find_key(store.api_keys(), other) is not None
        assert store.api_keys()[0].revoked == NOON + MINUTE
        with pytest.raises(SettingsError, match="no key"):
            revoke_key(store, record.key_id, NOON)
        assert all(part.encode() not in repr(store.api_keys()).encode() for part in (key, key.split("_", 2)[2]))

    def test_keys_that_cannot_be_made(self, store: Store) -> None:
        for name, scopes in (("x", ["rule"]), ("x", []), ("", ["rank"]), ("x" * 101, ["rank"])):
            with pytest.raises(SettingsError):
                create_key(store, name, scopes, NOON)

"""Counts that are saved and loaded, asked without recording, and forgotten."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drpn.state.count_columns import DAY, HOUR, PAIR
from drpn.state.counts import KEPT, Known, LiveCounts, Stories
from drpn.state.keys import KeyRows
from drpn.state.page_views import PageViews, parts

NEWS, USERS, SIZE = 40, 15, 5
START = 1_600_000_000


def some_stories(seed: int = 0) -> Stories:
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(NEWS, 8)).astype(np.float32)
    vectors[[0, 7]] = 0
    return Stories(
        random.integers(0, 4, NEWS).astype(np.int32),
        random.integers(0, 6, NEWS).astype(np.int32),
        START - random.integers(0, 10**5, NEWS),
        vectors,
        random.normal(size=(NEWS, 3)).astype(np.float32),
    )


def some_views(seed: int, count: int, *, start: int = START, hours: float = 30) -> PageViews:
    """Page views with pages, groups, unseen stories and some clicks from before the log."""
    random = np.random.default_rng(seed)
    pairs = count * SIZE
    past = np.arange(count) < count // 10
    clicked = random.random(pairs) < 0.2
    clicked[: count // 10 * SIZE] = True
    return PageViews(
        random.integers(1, USERS, count),
        np.sort(start + random.integers(0, int(hours * HOUR), count)),
        random.integers(0, NEWS, count) * (random.random(count) < 0.5),
        random.integers(0, 3, count),
        past,
        np.arange(count + 1) * SIZE,
        np.concatenate([random.choice(np.arange(1, NEWS), SIZE, replace=False) for _ in range(count)]),
        clicked,
        ~clicked & (random.random(pairs) < 0.9),
    )


def observe(counts: LiveCounts, views: PageViews, **options: Any) -> Known:
    known = [counts.observe(part, **options) for part in parts(views, pairs=60)]
    return Known(np.concatenate([one.pairs for one in known]), np.concatenate([one.page for one in known]))


def same(one: Known, other: Known) -> None:
    np.testing.assert_array_equal(one.pairs, other.pairs)
    np.testing.assert_array_equal(one.page, other.page)


def through_files(arrays: dict[str, NDArray[Any]], folder: Any) -> dict[str, NDArray[Any]]:
    for name, array in arrays.items():
        np.save(folder / name, array, allow_pickle=False)
    return {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in arrays}


def after(seed: int, count: int = 300) -> LiveCounts:
    counts = LiveCounts(some_stories())
    observe(counts, some_views(seed, count))
    return counts


@pytest.mark.parametrize("count", [1, 300])
def test_saved_and_loaded_counts_give_the_same_numbers_ever_after(count: int, tmp_path: Any) -> None:
    counts, loaded = after(1, count), LiveCounts(some_stories())
    loaded.restore(through_files(counts.arrays(), tmp_path))
    later = some_views(2, 200, start=START + 31 * HOUR)
    known = observe(counts, later)
    same(observe(loaded, later), known)
    assert np.ptp(known.pairs, axis=0).any()
    for name, array in counts.arrays().items():
        np.testing.assert_array_equal(array, loaded.arrays()[name], err_msg=name)


@pytest.mark.parametrize("column", PAIR)
def test_every_column_tells_stories_apart(column: str) -> None:
    """Otherwise the tests above would not notice a state that is not saved."""
    known = observe(after(1), some_views(2, 200, start=START + 31 * HOUR))
    assert np.ptp(known.pairs[:, PAIR.index(column)]) > 0


def test_asking_changes_nothing_and_knows_what_recording_would() -> None:
    counts = after(3)
    before = {name: array.copy() for name, array in counts.arrays().items()}
    later = some_views(4, 60, start=START + 31 * HOUR, hours=1.9)
    asked = counts.observe(later, record=False)
    for name, array in counts.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    same(asked, counts.observe(later))


def test_a_moment_before_the_newest_event_does_not_make_counts_grow() -> None:
    counts = after(5)
    last = some_views(6, 1, start=START + 31 * HOUR, hours=0.001)
    known = counts.observe(last._replace(past=np.zeros(1, np.bool_)))
    early = last._replace(times=last.times - 3000 * HOUR)
    asked = counts.observe(early)
    assert np.isfinite(asked.pairs).all()
    shows = PAIR.index("shows 10 min")
    assert (asked.pairs[:, shows] <= known.pairs[:, shows] + np.log(2) + 1e-6).all()
    hours = counts.observe(last, record=False).pairs[:, PAIR.index("hours since shown to user")]
    assert (hours[last.clicked | last.skipped] == 0).all()


def test_users_of_stories_that_are_no_longer_shown_are_forgotten_at_midnight() -> None:
    midnight = START - START % DAY + 10 * DAY
    views = some_views(7, 60, start=midnight - KEPT - 30 * HOUR, hours=60)
    counts = LiveCounts(some_stories())
    observe(counts, views)
    told = (views.clicked | views.skipped) & (np.repeat(views.times, SIZE) >= midnight - KEPT)
    kept = np.unique(views.stories[told])
    assert 5 < len(kept) < NEWS - 1
    before, after = (some_views(8, 100)._replace(times=np.full(100, time)) for time in (midnight - 1, midnight))
    known, forgotten = (counts.observe(one, record=False) for one in (before, after))
    still = np.isin(before.stories, kept)
    shown = PAIR.index("times shown to user")
    assert known.pairs[~still, shown].any()
    assert not forgotten.pairs[~still, shown].any()
    np.testing.assert_array_equal(forgotten.pairs[still, shown], known.pairs[still, shown])
    ever = [PAIR.index(name) for name in ("hours since first shown", "user category shows", "category shows")]
    np.testing.assert_allclose(forgotten.pairs[:, ever], known.pairs[:, ever], atol=1 / 3000)
    keys = len(counts.arrays()["user_story.keys"])
    nothing = np.zeros_like(after.clicked)
    counts.observe(after._replace(clicked=nothing, skipped=nothing, past=np.zeros(100, np.bool_)).part(0, 1))
    assert len(counts.arrays()["user_story.keys"]) < keys
    np.testing.assert_array_equal(counts.observe(after, record=False).pairs[:, shown], forgotten.pairs[:, shown])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**62), unique=True, max_size=2000), st.lists(st.integers(0, 2**62), max_size=50))
def test_rows_of_keys_that_are_not_added(known: list[int], asked: list[int]) -> None:
    rows = KeyRows.of(np.array(known, np.int64))
    assert rows.keys().tolist() == known
    next_rows = rows.rows_without_adding(np.array(asked, np.int64)).tolist()
    assert len(rows) == len(known)
    assert [row < len(known) for row in next_rows] == [key in set(known) for key in asked]
    assert next_rows == rows.rows(np.array(asked, np.int64)).tolist()

"""Counts before each page view, compared with lists of all that happened before."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drpn.state.count_columns import PAGE, PAIR
from drpn.state.counts import Known, LiveCounts, Stories
from drpn.state.moving_profile import profiles_before
from drpn.state.page_views import LONGEST_PART, PageViews, parts
from drpn.state.profile import Event, ProfileState
from drpn.state.running import NEVER
from reference.live_counts import Story, View, known_before

START = int(datetime(2026, 5, 18, 6, tzinfo=UTC).timestamp())
NO_STORY = Story(0, 0, None, (0.0, 0.0), (0.0, 0.0, 0.0))
STORIES = [
    NO_STORY,
    Story(1, 1, START - 5_000, (1.0, 0.0), (0.5, 0.1, 0.0)),
    Story(1, 2, START + 90, (0.6, 0.8), (0.4, -0.3, 0.0)),
    Story(2, 3, None, (0.0, -1.0), (-0.2, 0.0, 1.5)),
    Story(0, 0, START - 40 * 86_400, (0.0, 0.0), (0.0, 0.0, 0.0)),
    Story(2, 0, START, (-0.8, 0.6), (0.1, 0.9, 0.3)),
]
slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@st.composite
def logs(draw: st.DrawFn) -> list[View]:
    """Few users and stories: shared seconds, unseen stories, pages, groups, clicks without a page, and long gaps."""
    time, views = START, []
    for _ in range(draw(st.integers(1, 14))):
        time += draw(st.sampled_from([0, 0, 1, 60, 1_799, 1_800, 9_000, 86_400, 12 * 86_400]))
        user, past = draw(st.integers(1, 3)), draw(st.integers(0, 5)) == 0
        count = 1 if past else draw(st.integers(0, 4))
        stories = tuple(draw(st.permutations(range(1, len(STORIES))))[:count])
        seen = [draw(st.sampled_from(["clicked", "skipped", "skipped", "unseen"])) for _ in stories]
        clicked = tuple(past or kind == "clicked" for kind in seen)
        skipped = tuple(not past and kind == "skipped" for kind in seen)
        page, group = (0, 0) if past else (draw(st.sampled_from([0, 0, 2, 3])), draw(st.integers(0, 2)))
        views.append(View(user, time, page, group, past, stories, clicked, skipped))
    return views


def page_views(views: list[View]) -> PageViews:
    users, times, pages, groups, past, stories, clicked, skipped = zip(*views, strict=True)
    sizes = [len(several) for several in stories]
    return PageViews(
        *(np.array(column, np.int64) for column in (users, times, pages, groups)),
        np.array(past, np.bool_),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array([story for several in stories for story in several], np.int64),
        np.array([flag for several in clicked for flag in several], np.bool_),
        np.array([flag for several in skipped for flag in several], np.bool_),
    )


def live_counts() -> LiveCounts:
    category, subcategory, published, vectors, tastes = zip(*STORIES, strict=True)
    return LiveCounts(
        Stories(
            np.array(category, np.int32),
            np.array(subcategory, np.int32),
            np.array([NEVER if time is None else time for time in published], np.int64),
            np.array(vectors, np.float32),
            np.array(tastes, np.float32),
        )
    )


def observed(views: list[View], *, pairs: int) -> Known:
    """The counts before each page view, observed in parts of about `pairs` stories."""
    counts = live_counts()
    answers = [counts.observe(part) for part in parts(page_views(views), pairs=pairs)]
    return Known(*(np.concatenate(columns) for columns in zip(*answers, strict=True)))


@slow
@given(logs(), st.sampled_from([1, 5, 1_000]))
def test_every_column_against_lists_of_events(views: list[View], pairs: int) -> None:
    expected_pairs, expected_pages = known_before(views, STORIES)
    actual = observed(views, pairs=pairs)
    # a value of PAGE for a click without its page means nothing: nobody ranks there
    asked = np.array([not view.past for view in views])
    of_pairs = np.repeat(asked, [len(view.stories) for view in views])
    for rows, expected, names, which in (
        (actual.pairs, expected_pairs, PAIR, of_pairs),
        (actual.page, expected_pages, PAGE, asked),
    ):
        assert rows.shape == (len(expected), len(names))
        for row, columns in zip(
            rows[which], [row for row, keep in zip(expected, which, strict=True) if keep], strict=True
        ):
            assert set(columns) == set(names)
            assert dict(zip(names, row.tolist(), strict=True)) == pytest.approx(columns, rel=1e-5, abs=1e-6)


@slow
@given(logs(), st.data())
def test_the_future_changes_nothing(views: list[View], data: st.DataObject) -> None:
    """After some second, page views are dropped, changed or come in another order: earlier rows stay the same."""
    cut = data.draw(st.sampled_from([view.time for view in views]))
    past = [view for view in views if view.time <= cut]
    future = data.draw(st.permutations([view for view in views if view.time > cut]))
    future = future[: data.draw(st.integers(0, len(future)))]
    changed = [
        view._replace(time=cut + 1 + number, user=4 - view.user, clicked=view.skipped, skipped=view.clicked, past=False)
        for number, view in enumerate(future)
    ]
    whole, other = observed(views, pairs=3), observed([*past, *changed], pairs=1_000)
    rows = sum(len(view.stories) for view in past)
    np.testing.assert_allclose(other.pairs[:rows], whole.pairs[:rows], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(other.page[: len(past)], whole.page[: len(past)], rtol=1e-5, atol=1e-6)


@slow
@given(logs())
def test_page_views_of_one_second_do_not_know_each_other(views: list[View]) -> None:
    """The same page views in another order within each second have the same counts."""
    order = sorted(range(len(views)), key=lambda number: (views[number].time, -number))
    whole, other = observed(views, pairs=1_000), observed([views[number] for number in order], pairs=1_000)
    unordered = [
        "clicks after last click",
        "all clicks after last click",
    ]  # of clicks of one second, the last one counts
    columns = [place for place, name in enumerate(PAGE) if name not in unordered]
    asked = [place for place, number in enumerate(order) if not views[number].past]
    expected = whole.page[order][asked][:, columns]
    np.testing.assert_allclose(other.page[asked][:, columns], expected, rtol=1e-5, atol=1e-6)


def test_stories_that_nobody_clicks_take_little_memory() -> None:
    """Readers, subcategories, pages and stories in all combinations: only what was clicked is kept."""
    random, views, size = np.random.default_rng(0), 400, 20
    news = 1 + size * 4
    rows = np.arange(news)
    counts = LiveCounts(
        Stories(rows % 3, rows.astype(np.int32), np.full(news, START), *np.zeros((2, news, 1), np.float32))
    )
    clicked = np.zeros(views * size, np.bool_)
    clicked[:: 50 * size] = True  # one click in fifty page views
    whole = PageViews(
        np.arange(1, views + 1),
        START + np.arange(views),
        random.integers(1, news, views),
        np.zeros(views, np.int64),
        np.zeros(views, np.bool_),
        np.arange(views + 1) * size,
        np.concatenate([1 + random.permutation(news - 1)[:size] for _ in range(views)]),
        clicked,
        ~clicked,
    )
    for part in parts(whole, pairs=500):
        counts.observe(part)
    keys = {name: len(array) for name, array in counts.arrays().items() if name.endswith(".keys")}
    assert keys["user_story.keys"] <= views * (size + 1)  # when each was shown is needed, and who visited
    assert keys["user_subcategory.keys"] == keys["from_page.keys"] == int(clicked.sum())
    assert keys["after.keys"] <= int(clicked.sum())


def test_two_threads_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    random, views, size = np.random.default_rng(1), 300, 100
    clicked = random.random(views * size) < 0.1
    whole = PageViews(
        random.integers(1, 30, views),
        START + np.sort(random.integers(0, 3_000, views)),
        random.integers(0, len(STORIES), views),
        random.integers(0, 3, views),
        np.zeros(views, np.bool_),
        np.arange(views + 1) * size,
        random.integers(1, len(STORIES), views * size),
        clicked,
        ~clicked,
    )
    one, two = live_counts(), live_counts()
    with_threads = two.observe(whole)
    monkeypatch.setattr("drpn.state.counts._PAIRS_FOR_THREADS", 10**9)
    for alone, together in zip(one.observe(whole), with_threads, strict=True):
        np.testing.assert_array_equal(alone, together)
    for name, array in one.arrays().items():
        np.testing.assert_array_equal(array, two.arrays()[name], err_msg=name)


@slow
@given(logs(), st.integers(0, 10**8))
def test_questions_leave_no_trace(views: list[View], later: int) -> None:
    """Asking about page views without recording them, now or later, changes no later answer."""
    plain, asked = live_counts(), live_counts()
    for part in parts(page_views(views), pairs=4):
        question = part._replace(times=part.times + later)
        asked.observe(question, record=False)
        for one, other in zip(plain.observe(part), asked.observe(part), strict=True):
            np.testing.assert_array_equal(one, other)


@given(logs(), st.integers(1, 40))
def test_parts_hold_whole_seconds_and_two_hours_at_most(views: list[View], pairs: int) -> None:
    whole, pieces = page_views(views), list(parts(page_views(views), pairs=pairs))
    assert np.concatenate([piece.times for piece in pieces]).tolist() == whole.times.tolist()
    assert np.concatenate([piece.stories for piece in pieces]).tolist() == whole.stories.tolist()
    assert all(piece.times[-1] - piece.times[0] <= LONGEST_PART for piece in pieces)
    assert all(one.times[-1] < other.times[0] for one, other in pairwise(pieces))


@dataclass(frozen=True)
class Sides:
    """A profile as lists of stories."""

    clicked: list[int]
    skipped: list[int]


@slow
@given(logs(), st.integers(1, 3), st.integers(1, 3))
def test_profiles_before_each_page_view_follow_the_update_rule(views: list[View], clicked: int, skipped: int) -> None:
    which = np.array([not view.past for view in views])
    kept = profiles_before(page_views(views), clicked=clicked, skipped=skipped, which=which)
    for number, view in enumerate(views):
        state = ProfileState()
        for place, other in enumerate(views):
            if other.user == view.user and other.time < view.time:
                for position, story in enumerate(other.stories):
                    if other.clicked[position] or other.skipped[position]:
                        # stories of a page are ordered by their position
                        state.update(Event(story, other.clicked[position], place * 100 + position))
        profile = state.profile(clicked, skipped)
        expected = Sides(
            [int(entry.news_id) for entry in profile.clicked], [int(entry.news_id) for entry in profile.skipped]
        )
        actual = Sides(*([story for story in side[number].tolist() if story] for side in kept))
        assert actual == (expected if which[number] else Sides([], []))

"""Running counts of users, stories and pages, as a site knows them at the moment of ranking.

`LiveCounts` takes page views in time order, in parts of any size, returns what was known before each, and adds what
they tell. Only strictly earlier seconds count. A part of one page view is the update by one event; a whole log in large
parts gives the same numbers. `count_columns` names the columns. `arrays` and `restore` save and load the state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.state.audience import Audience
from drpn.state.count_columns import DAY, GROUP, HALF_LIVES, HOUR, MINUTE, PAGE, PAIR, STORY, SURFACE, VISITS
from drpn.state.order import Order
from drpn.state.page_views import PageViews, midnight
from drpn.state.running import (
    NEVER,
    FirstTimes,
    KeyedSums,
    LastTimes,
    LastValues,
    OneArray,
    RunningSums,
    Sessions,
)
from drpn.state.text_sums import similarities_to, sum_of_rows, units
from drpn.state.threads import run_together

SESSION_GAP = 30 * MINUTE
"""A page view this much later than the user's last one begins a new session."""
AUDIENCE_LIFE = 24 * HOUR
"""Half-life of the readers of a story."""
KEPT = 3 * DAY
"""Who was shown a story is forgotten at midnight (UTC) if nobody was shown, clicked or visited it for so long: these
counts grow with users times stories, and only matter for stories that are still shown."""
LONG_AGO = 240.0
"""Hours that stand for never and for anything longer ago."""

_PAIRS_FOR_THREADS = 20_000
"""From this many stories on, the columns of PAIR are computed by two threads."""
_KEYS_AT_ONCE = 1 << 20
"""Pairs of a user and a story that are looked at together when some are forgotten."""


@dataclass(frozen=True)
class Stories:
    """Facts about each story that page views do not change; row 0 is padding."""

    category: NDArray[np.int32]
    subcategory: NDArray[np.int32]
    published: NDArray[np.int64]
    """Seconds since 1970; `NEVER` if unknown."""
    vectors: NDArray[np.float32]
    """Unit vectors of their texts; zeros without a text."""
    tastes: NDArray[np.float32]
    """Vectors learned from earlier clicks: the mean of those of a user's clicks tells which stories the user clicks."""


class Known(NamedTuple):
    """The counts before page views."""

    pairs: NDArray[np.float32]
    """(stories of all page views, PAIR)"""
    page: NDArray[np.float32]
    """(page views, PAGE)"""


_Columns = Mapping[str, NDArray[Any]]
"""Columns of PAIR by name."""


class _Pairs(NamedTuple):
    """The stories of some page views, and what is known about each."""

    stories: NDArray[np.int64]
    times: NDArray[np.int64]
    users: NDArray[np.int64]
    pages: NDArray[np.int64]
    shown: NDArray[np.float32]
    """1 if it was seen or clicked on a page."""
    clicks: NDArray[np.float32]
    """1 if it was clicked on a page."""
    clicked: NDArray[np.float32]
    """1 if it was clicked, on a page or before the log."""
    category: NDArray[np.int64]
    subcategory: NDArray[np.int64]


class _Tastes(NamedTuple):
    """Sums of vectors of the stories that the user of each page view clicked and skipped so far."""

    clicked: NDArray[np.float32]
    """(page views, 2, size) of their texts: all, and recent ones."""
    skipped: NDArray[np.float32]
    """(page views, 1, size) of their texts: recent ones."""
    learned: NDArray[np.float32]
    """(page views, size) of `Stories.tastes`, of clicks."""


class LiveCounts:
    """Counts as of a moment, which page views update."""

    def __init__(self, stories: Stories) -> None:
        self.stories = stories
        lives = tuple(HALF_LIVES.values())
        self._all, self._story, self._category = RunningSums(2, lives), RunningSums(2, lives), RunningSums(2)
        self._surface = RunningSums(2, (HALF_LIVES["2 h"], HALF_LIVES["48 h"]))
        self._group = RunningSums(2, (HALF_LIVES["8 h"],))
        self._first_shown = FirstTimes()
        self._user, self._last_view, self._sessions = RunningSums(4), LastTimes(), Sessions(SESSION_GAP)
        self._text = RunningSums(stories.vectors.shape[1], (np.inf, HALF_LIVES["48 h"]), few=True)
        self._skipped_text = RunningSums(stories.vectors.shape[1], (HALF_LIVES["48 h"],), few=True)
        self._learned = RunningSums(stories.tastes.shape[1], (np.inf,), few=True)
        self._text_readers = Audience(stories.vectors.shape[1], AUDIENCE_LIFE)
        self._taste_readers = Audience(stories.tastes.shape[1], AUDIENCE_LIFE)
        self._user_category = KeyedSums(3, (np.inf, HALF_LIVES["2 h"]), few=True)
        self._user_subcategory = KeyedSums(1)
        self._user_story, self._last_shown = KeyedSums(4), LastTimes()
        self._visits = RunningSums(2, (HALF_LIVES["8 h"], HALF_LIVES["48 h"]))
        self._last_told, self._midnight = LastTimes(), 0  # of each story; when stories were last forgotten
        self._last_clicked = LastValues()
        self._from_page, self._page_clicks = KeyedSums(1), RunningSums(1)
        self._after, self._after_clicks = KeyedSums(1), RunningSums(1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state as arrays by name, from which `restore` makes one that gives the same numbers ever after.

        Some share the memory of the state: copy them if page views are to be observed before they are used.
        """
        return {
            f"{name}.{part}": array for name, state in self._states().items() for part, array in state.arrays().items()
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        for name, state in self._states().items():
            prefix = f"{name}."
            state.restore({part.removeprefix(prefix): arrays[part] for part in arrays if part.startswith(prefix)})

    def _forget_stories(self, moment: int) -> None:
        """Forget at midnight which users were shown and clicked stories that are no longer shown (see `KEPT`)."""
        if midnight(moment) <= self._midnight:
            return
        self._midnight = midnight(moment)
        keys = self._user_story.keys
        kept = np.empty(len(keys), np.bool_)
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            part = slice(start, start + _KEYS_AT_ONCE)
            kept[part] = ~self._is_forgotten(_story_of(keys[part]), moment)
        if not kept.all():
            self._user_story.keep(kept)
            self._last_shown.keep(kept)

    def _is_forgotten(self, stories: NDArray[np.int64], moment: int) -> NDArray[np.bool_]:
        """Which stories were last shown, clicked or visited too long before the last midnight."""
        forgotten: NDArray[np.bool_] = self._last_told.at(stories) < midnight(moment) - KEPT
        return forgotten

    def _states(self) -> dict[str, RunningSums | KeyedSums | OneArray | Audience]:
        """Everything that page views change, by name."""
        return {
            name.removeprefix("_"): state
            for name, state in vars(self).items()
            if isinstance(state, RunningSums | KeyedSums | OneArray | Audience)
        }

    def observe(self, views: PageViews, *, record: bool = True) -> Known:
        """Return the counts before each page view of a part; with `record`, add what the page views tell.

        A part is of one day (UTC) and spans at most `LONGEST_PART` seconds, and the page views of one second are in
        one part.
        """
        sizes = np.diff(views.offsets)
        if not len(sizes):
            return Known(np.zeros((0, len(PAIR)), np.float32), np.zeros((0, len(PAGE)), np.float32))
        if record:
            self._forget_stories(int(views.times[0]))
        view = np.repeat(np.arange(len(sizes)), sizes)
        page, clicks, last = self._page(views, view, record=record)
        return Known(self._pairs(views, view, page, clicks, last, record=record), page)

    def _page(
        self, views: PageViews, view: NDArray[np.int64], *, record: bool
    ) -> tuple[NDArray[np.float32], "_Tastes", NDArray[np.int64]]:
        """The columns of PAGE, what each user clicked and skipped, and the story that each clicked last."""
        count, times, is_view = len(views.users), views.times, ~views.past
        clicks = _sum_by_view(views.clicked, views.offsets)
        shows = _sum_by_view(views.clicked | views.skipped, views.offsets)
        events = np.stack([shows * is_view, clicks * is_view], axis=1)
        everything = Order.of(np.zeros(count, np.int64), times)
        totals = self._all.before(everything, times, events, record=record)

        users = Order.of(views.users, times)
        by_user = np.column_stack([is_view, events, clicks])  # views, shows, clicks, clicks before the log too
        user = self._user.before(users, times, by_user, record=record)[:, 0]
        hours = _hours(times, self._last_view.before(users, times, is_view, record=record))
        session = self._sessions.before(users, np.where(is_view, hours, 0), user[:, 0], is_view, record=record)
        clicked, skipped = views.clicked.nonzero()[0], views.skipped.nonzero()[0]
        liked, disliked = (
            sum_of_rows(self.stories.vectors, views.stories[at], view[at], count) for at in (clicked, skipped)
        )
        learned = sum_of_rows(self.stories.tastes, views.stories[clicked], view[clicked], count)
        tastes = _Tastes(
            self._text.before(users, times, liked, record=record),
            self._skipped_text.before(users, times, disliked, record=record),
            self._learned.before(users, times, learned, record=record)[:, 0],
        )

        first_click = np.zeros(count, np.int64)
        first_click[view[clicked[::-1]]] = views.stories[clicked[::-1]]
        last = self._last_clicked.before(users, first_click, first_click > 0, record=record)
        from_page = self._totals_from(self._page_clicks, views.pages, times, clicks * is_view, record=record)
        after = self._totals_from(self._after_clicks, last, times, clicks * is_view, record=record)
        moment = times // HOUR
        columns = [
            *_logs(totals),
            np.log1p(user[:, 3]),
            np.log1p(user[:, 0]),
            np.log1p(user[:, 1]),
            np.log1p(user[:, 2]),
            hours,
            np.log1p(session),
            np.log1p(after),
            views.pages > 0,
            np.log1p(from_page),
            moment % 24,
            (moment // 24 + 3) % 7,  # 1970 began on a Thursday; 0 is Monday
        ]
        return np.stack(columns, axis=1).astype(np.float32), tastes, last

    def _pairs(
        self,
        views: PageViews,
        view: NDArray[np.int64],
        page: NDArray[np.float32],
        tastes: "_Tastes",
        last: NDArray[np.int64],
        *,
        record: bool,
    ) -> NDArray[np.float32]:
        """The columns of PAIR."""
        is_view = ~views.past[view]
        pairs = _Pairs(
            views.stories,
            views.times[view],
            views.users[view],
            views.pages[view],
            ((views.clicked | views.skipped) & is_view).astype(np.float32),
            (views.clicked & is_view).astype(np.float32),
            views.clicked.astype(np.float32),
            self.stories.category[views.stories].astype(np.int64),
            self.stories.subcategory[views.stories].astype(np.int64),
        )
        all_clicks = np.maximum(np.expm1(page[view, PAGE.index("user past clicks")]), 1)
        groups, last = views.groups[view], last[view]
        columns = run_together(
            lambda: self._story_columns(pairs, groups, record=record),
            lambda: self._user_columns(pairs, all_clicks, record=record),
            lambda: self._user_story_columns(pairs, views, view, record=record),
            lambda: self._following_columns(pairs, last, record=record),
            lambda: self._text_columns(views, view, tastes),
            lambda: self._reader_columns(views, view, tastes, all_clicks, record=record),
            threads=len(view) >= _PAIRS_FOR_THREADS,
        )
        by_name = {name: column for several in columns for name, column in several.items()}
        result = np.empty((len(PAIR), len(view)), np.float32)
        for place, name in enumerate(PAIR):
            result[place] = by_name[name]
        return result.T

    def _story_columns(self, pairs: _Pairs, groups: NDArray[np.int64], *, record: bool) -> _Columns:
        """Shows and clicks of the story, on this kind of page and in this group; its category and its age."""
        stories, times, events = pairs.stories, pairs.times, np.stack([pairs.shown, pairs.clicks]).T
        order = Order.of(stories, times)
        story = self._story.before(order, times, events, record=record)
        first = self._first_shown.before(order, times, pairs.shown > 0, record=record)
        surface = Order.of(2 * stories + (pairs.pages > 0), times)
        by_surface = self._surface.before(surface, times, events, record=record)
        group = Order.of(stories * 64 + np.minimum(groups, 63), times)
        by_group = self._group.before(group, times, events, record=record)
        by_category = self._category.before(Order.of(pairs.category, times), times, events, record=record)
        return {
            **dict(zip(STORY, _logs(story), strict=True)),
            **dict(zip(SURFACE, _logs(by_surface), strict=True)),
            **dict(zip(GROUP, _logs(by_group), strict=True)),
            **dict(zip(("category shows", "category clicks"), _logs(by_category), strict=True)),
            "hours since first shown": _hours(times, first),
            "hours since published": _hours(times, self.stories.published[stories]),
        }

    def _user_columns(self, pairs: _Pairs, all_clicks: NDArray[np.float32], *, record: bool) -> _Columns:
        """Shows to the user and clicks by the user in the category and in the subcategory."""
        users, times, category, subcategory = pairs.users * 2**31, pairs.times, pairs.category, pairs.subcategory
        every_click = np.stack([pairs.shown, pairs.clicks, pairs.clicked]).T
        by_category = self._user_category.before(users + category, times, every_click, record=record)
        clicked = self._user_subcategory.before(users + subcategory, times, pairs.clicked[:, None], record=record)
        names = [f"user category {what}{life}" for life in ("", " 2 h") for what in ("shows", "clicks")]
        return {
            **dict(zip(names, _logs(by_category[:, :, :2]), strict=True)),
            "user category share": np.where(category > 0, by_category[:, 0, 2] / all_clicks, 0),
            "user subcategory share": np.where(subcategory > 0, clicked[:, 0, 0] / all_clicks, 0),
        }

    def _user_story_columns(
        self, pairs: _Pairs, views: PageViews, view: NDArray[np.int64], *, record: bool
    ) -> _Columns:
        """How often and when the user was shown the story, clicks on it, and visits of its own page."""
        visits = np.flatnonzero(views.pages)
        count, place = len(view) + len(visits), np.arange(len(view)) + np.searchsorted(visits, view)
        visit = views.offsets[visits + 1] + np.arange(len(visits))  # after the stories of its page view
        stories, times, users = (np.empty(count, np.int64) for _ in range(3))
        for both, of_pairs, of_views in (
            (stories, pairs.stories, views.pages),
            (times, pairs.times, views.times),
            (users, pairs.users, views.users),
        ):
            both[place], both[visit] = of_pairs, of_views[visits]
        keys = users * 2**31 + stories
        if len(keys) and not record:  # who only asks must not make us forget: new keys stand for those forgotten
            keys = np.where(self._is_forgotten(stories, int(times[0])), -1 - keys, keys)
        values = np.zeros((count, 4), np.float32)
        values[place, 0], values[place, 1], values[place, 2] = pairs.shown, pairs.clicks, pairs.clicked - pairs.clicks
        values[visit, 3] = 1
        counts, order = self._user_story.before_with_order(keys, times, values, record=record)
        of_stories = Order.of(stories, times)
        self._last_told.before(of_stories, times, values.max(axis=1) > 0, record=record)
        shown = self._last_shown.before(order, times, values[:, 0] > 0, record=record)[place]
        visited = np.zeros((count, 2), np.float32)
        visited[visit, 0], visited[visit, 1] = 1, ~counts[visit, 0, 1:].any(axis=1)
        by_story = self._visits.before(of_stories, times, visited, record=record)[place]
        counts = counts[place]
        return {
            **dict(zip(VISITS, _logs(by_story), strict=True)),
            "times shown to user": np.log1p(counts[:, 0, 0]),
            "times clicked by user": np.log1p(counts[:, 0, 1]),
            "clicked before the log": np.minimum(counts[:, 0, 2], 1),
            "times visited by user": np.log1p(counts[:, 0, 3]),
            "hours since shown to user": _hours(pairs.times, shown),
        }

    def _following_columns(self, pairs: _Pairs, last: NDArray[np.int64], *, record: bool) -> _Columns:
        """Clicks on the story from the same page, and of users whose last click was the same; the page's category."""
        stories, times, pages, category = pairs.stories, pairs.times, pairs.pages, pairs.category
        on_page, after = (pairs.clicks * (source > 0) for source in (pages, last))
        from_page = self._from_page.before(pages * 2**31 + stories, times, on_page[:, None], record=record)
        after_last = self._after.before(last * 2**31 + stories, times, after[:, None], record=record)
        return {
            "clicks after last click": np.log1p(after_last[:, 0, 0]),
            "clicks from page": np.log1p(from_page[:, 0, 0]),
            "category of page": (category > 0) & (category == self.stories.category[pages]),
        }

    def _reader_columns(
        self,
        views: PageViews,
        view: NDArray[np.int64],
        tastes: "_Tastes",
        all_clicks: NDArray[np.float32],
        *,
        record: bool,
    ) -> _Columns:
        """How similar the user is to the readers that clicked the story, and the story to the user's taste."""
        by_text, by_taste = (
            audience.before(sums, views.times, views.stories, view, views.clicked, ~views.past, record=record)
            for audience, sums in (
                (self._text_readers, tastes.clicked[:, 0]),
                (self._taste_readers, tastes.learned),
            )
        )
        own = similarities_to(self.stories.tastes, views.stories, tastes.learned[:, None], view)[0] / all_clicks
        return {
            "similarity to readers by text": by_text,
            "similarity to readers by taste": by_taste,
            "similarity to taste": own,
        }

    def _text_columns(self, views: PageViews, view: NDArray[np.int64], tastes: "_Tastes") -> _Columns:
        """How similar the story is to what the user clicked and skipped, and to the page."""
        vectors = self.stories.vectors
        read = units(np.concatenate([tastes.clicked, tastes.skipped], axis=1))
        others = np.concatenate([read, vectors[views.pages][:, None]], axis=1)
        names = ("similarity to clicks", "similarity to recent clicks", "similarity to recent skips")
        similarities = similarities_to(vectors, views.stories, others, view)
        has_text = similarities_to(vectors, views.stories, vectors[:, None], views.stories)[0] > 0
        return dict(zip((*names, "similarity to page"), similarities, strict=True)) | {"has text": has_text}

    @staticmethod
    def _totals_from(
        sums: RunningSums,
        rows: NDArray[np.int64],
        times: NDArray[np.int64],
        clicks: NDArray[np.float64],
        *,
        record: bool,
    ) -> NDArray[np.float32]:
        """All clicks so far that came from each story; 0 where there is none to come from."""
        values = (clicks * (rows > 0))[:, None]
        result: NDArray[np.float32] = sums.before(Order.of(rows, times), times, values, record=record)[:, 0, 0]
        return result


def _sum_by_view(flags: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    sums = np.concatenate([[0], np.cumsum(flags)])
    by_view: NDArray[np.float64] = (sums[offsets[1:]] - sums[offsets[:-1]]).astype(np.float64)
    return by_view


def _logs(sums: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """log(1 + x) of each column for each half-life."""
    return [np.log1p(sums[:, life, what]) for life in range(sums.shape[1]) for what in range(sums.shape[2])]


def _story_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The stories of pairs of a user and a story."""
    return keys & (2**31 - 1)


def _hours(now: NDArray[np.int64], then: NDArray[np.int64]) -> NDArray[np.float64]:
    """Hours between, at most `LONG_AGO`; `LONG_AGO` for `NEVER`."""
    seconds = np.where(then == NEVER, np.inf, now - np.maximum(then, now - 10**9))
    return np.clip(seconds / HOUR, 0, LONG_AGO)

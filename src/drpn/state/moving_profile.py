"""Profiles as of each page view, by the rule of `profile`: only strictly earlier seconds count."""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from drpn.state.page_views import PageViews

Profiles = tuple[NDArray[np.int32], NDArray[np.int32]]


def profiles_before(
    views: PageViews,
    *,
    clicked: int,
    skipped: int,
    which: NDArray[np.bool_],
    advance: Callable[[int], object] = lambda _count: None,
) -> Profiles:
    """(page views, kept): the newest clicked and skipped stories before each page view in `which`, oldest first.

    A story has one value: clicked beats skipped, and its time is that of its last such event.
    """
    kept = np.zeros((len(which), clicked), np.int32), np.zeros((len(which), skipped), np.int32)
    by_user = np.argsort(views.users, kind="stable")
    starts = np.flatnonzero(np.diff(views.users[by_user], prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(by_user)], strict=True):
        _follow(views, by_user[start:stop], which, kept)
        advance(stop - start)
    return kept


def _follow(views: PageViews, mine: NDArray[np.int64], which: NDArray[np.bool_], kept: Profiles) -> None:
    """The profiles before the page views of one user."""
    clicked, skipped = dict[int, None](), dict[int, None]()
    times = views.times[mine].tolist()
    told = 0  # page views whose feedback is in the profile
    for place, (view, time) in enumerate(zip(mine.tolist(), times, strict=True)):
        while told < place and times[told] < time:
            _tell(views, int(mine[told]), clicked, skipped)
            told += 1
        if which[view]:
            for side, array in zip((clicked, skipped), kept, strict=True):
                newest = list(islice(reversed(side), array.shape[1]))
                array[view, : len(newest)] = newest[::-1]


def _tell(views: PageViews, view: int, clicked: dict[int, None], skipped: dict[int, None]) -> None:
    """Add the feedback of a page view; dictionaries keep the order in which stories came."""
    for story, click, skip in _feedback(views, view):
        if click:
            clicked.pop(story, None)
            clicked[story] = None
            skipped.pop(story, None)
        elif skip and story not in clicked:
            skipped.pop(story, None)
            skipped[story] = None


def _feedback(views: PageViews, view: int) -> Iterator[tuple[int, bool, bool]]:
    part = slice(views.offsets[view], views.offsets[view + 1])
    columns = (column[part].tolist() for column in (views.stories, views.clicked, views.skipped))
    return zip(*columns, strict=True)

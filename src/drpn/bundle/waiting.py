"""Page views that wait to be counted together."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from drpn.state.page_views import PageViews, parts

_PAIRS = 20_000
"""Stories of page views that are counted at once."""


class WaitingView(NamedTuple):
    """A page view; stories that were not clicked were skipped."""

    user: int
    seconds: int
    page: int
    group: int
    stories: list[int]
    clicked: list[bool]


class WaitingViews:
    """Page views that were recorded and are not yet counted.

    Those of one second have to be counted at once, because they do not know of each other. And to count many at once is
    much faster while a log is followed.
    """

    def __init__(self) -> None:
        self._views: list[WaitingView] = []
        self._pairs = 0

    def accepts(self, seconds: int) -> bool:
        """Whether a page view of this second can wait with the others; if not, these are to be counted first."""
        if not self._views:
            return True
        newest = self._views[-1].seconds
        return newest == seconds or (newest < seconds and self._pairs < _PAIRS)

    def add(self, view: WaitingView) -> None:
        """Add a page view of a second that `accepts` takes."""
        self._views.append(view)
        self._pairs += len(view.stories)

    def take(self) -> Iterator[PageViews]:
        """All of them, in parts that can be counted; none waits any more."""
        views, self._views, self._pairs = self._views, [], 0
        if not views:
            return
        users, times, pages, groups, stories, clicked = zip(*views, strict=True)
        clicks = np.array(list(chain(*clicked)), np.bool_)
        yield from parts(
            PageViews(
                np.array(users, np.int64),
                np.array(times, np.int64),
                np.array(pages, np.int64),
                np.array(groups, np.int64),
                np.zeros(len(views), np.bool_),
                np.cumsum([0, *map(len, stories)]),
                np.array(list(chain(*stories)), np.int64),
                clicks,
                ~clicks,
            ),
            pairs=_PAIRS,
        )

"""Page views in time order, and parts of them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.state.count_columns import DAY, HALF_LIVES
from drpn.state.running import MOST_HALF_LIVES

LONGEST_PART = int(MOST_HALF_LIVES * min(HALF_LIVES.values()))
"""Seconds that one part of a log may span."""


class PageViews(NamedTuple):
    """Page views in time order, with the stories shown on each; and clicks that are known without their page."""

    users: NDArray[np.int64]
    times: NDArray[np.int64]
    """Seconds since 1970."""
    pages: NDArray[np.int64]
    """The story of the page that the list was shown on; 0 for none."""
    groups: NDArray[np.int64]
    """The group of readers that the user is of, such as subscribers; 0 if unknown."""
    past: NDArray[np.bool_]
    """Which are no page views but clicks from before the log: they have one clicked story."""
    offsets: NDArray[np.int64]
    """Where the stories of each begin, and the end of the last."""
    stories: NDArray[np.int64]
    clicked: NDArray[np.bool_]
    skipped: NDArray[np.bool_]
    """Seen and not clicked."""

    def part(self, start: int, stop: int) -> "PageViews":
        """The page views from number `start` to before `stop`."""
        first, end = self.offsets[start], self.offsets[stop]
        return PageViews(
            self.users[start:stop],
            self.times[start:stop],
            self.pages[start:stop],
            self.groups[start:stop],
            self.past[start:stop],
            self.offsets[start : stop + 1] - first,
            self.stories[first:end].astype(np.int64, copy=False),
            self.clicked[first:end],
            self.skipped[first:end],
        )


def midnight(moment: int) -> int:
    """The beginning of the day (UTC) of a moment."""
    return moment - moment % DAY


def parts(views: PageViews, *, pairs: int) -> Iterator[PageViews]:
    """The page views in parts for `LiveCounts.observe`, of about `pairs` stories each."""
    start, count = 0, len(views.users)
    while start < count:
        stop = int(np.searchsorted(views.offsets, views.offsets[start] + pairs, side="right")) - 1
        stop = min(max(stop, start + 1), int(np.searchsorted(views.times, views.times[start] + LONGEST_PART)))
        stop = min(stop, int(np.searchsorted(views.times, midnight(int(views.times[start])) + DAY)))
        # the page views of one second stay together
        stop = int(np.searchsorted(views.times, views.times[stop - 1], side="right"))
        yield views.part(start, stop)
        start = stop

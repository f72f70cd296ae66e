"""When stories were published, for logs that do not say it.

A story is then as old as its first appearance. Ids that are whole numbers rise with time: with such ids, a story is at
least as old as the first appearance of any story with a higher id. No later page view can change that.
`first_appearances` states the rule over a whole log, `Appearances` as an update by one page view.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

UNPUBLISHED = np.iinfo(np.int64).max
"""The time of publication of a story that has none and was never shown: its age is 0 whenever it is asked for."""

_DIGITS = 18
"""Longer numbers do not fit into 64 bits."""


def id_number(news_id: str) -> int | None:
    """The id of a story as a number; None if it is none."""
    return int(news_id) if news_id.isascii() and news_id.isdigit() and len(news_id) <= _DIGITS else None


def id_numbers(news_ids: Iterable[str]) -> NDArray[np.int64] | None:
    """The ids of stories as numbers; None if one of them is none."""
    numbers = [id_number(news_id) for news_id in news_ids]
    return None if None in numbers else np.array(numbers, np.int64)


def first_appearances(
    stories: NDArray[np.int64], times: NDArray[np.int64], numbers: NDArray[np.int64] | None, count: int
) -> NDArray[np.int64]:
    """When each of `count` stories was published, from those that were shown and when; `UNPUBLISHED` if nothing tells.

    Row 0 is padding. `numbers` are the ids of the others; None if they are no numbers.
    """
    first = np.full(count, UNPUBLISHED)
    np.minimum.at(first, stories, times)
    if numbers is not None:
        order = np.argsort(numbers, kind="stable")
        first[1:][order] = np.minimum.accumulate(first[1:][order][::-1])[::-1]
    first[0] = UNPUBLISHED
    return first


class Appearances:
    """Stories with numbers as ids, in the order of these: those published, and those that no page view tells about."""

    def __init__(self, rows: Sequence[int], numbers: Sequence[int], published: NDArray[np.int64]) -> None:
        """Stories by row, with their ids as numbers and their times of publication."""
        self._published = sorted(
            (number, int(time)) for number, time in zip(numbers, published, strict=True) if time != UNPUBLISHED
        )
        self._waiting = sorted(
            (number, row) for number, row, time in zip(numbers, rows, published, strict=True) if time == UNPUBLISHED
        )

    def add(self, row: int, number: int) -> int:
        """Add a story; returns when it was published, `UNPUBLISHED` if nothing tells."""
        place = bisect_right(self._published, (number, UNPUBLISHED))
        if place < len(self._published):
            time = self._published[place][1]
            insort(self._published, (number, time))
            return time
        insort(self._waiting, (number, row))
        return UNPUBLISHED

    def show(self, number: int, time: int) -> list[int]:
        """The rows of the stories that were published when a story of this number is shown at a time."""
        count = bisect_right(self._waiting, (number, UNPUBLISHED))
        if not count:
            return []
        shown, self._waiting = self._waiting[:count], self._waiting[count:]
        self._published += [(other, time) for other, _ in shown]
        return [row for _, row in shown]

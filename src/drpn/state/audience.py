"""Who clicks a story: how similar a user is to the readers that have clicked it.

A user's taste is how the direction of their clicks (the unit vector of the sum of the clicked stories' vectors) differs
from the mean over all page views: a unit vector again. The audience of a story is the sum of the tastes of its readers,
each at the moment of the click, decayed with a half-life. So a story that appeared an hour ago already says which users
it is for, whatever its text.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.state.order import Order
from drpn.state.running import RunningSums
from drpn.state.text_sums import similarities_to, units

_SHORTEST = 0.05
"""Differences from the mean become unit vectors, except shorter ones: they say little, and would turn with rounding."""


class Audience:
    """The readers of each story, as sums of their tastes."""

    def __init__(self, size: int, half_life: float) -> None:
        self._half_life = half_life
        self._readers = RunningSums(size + 1, (half_life,))  # of each story; the last column counts them
        self._everyone = RunningSums(size + 1, (np.inf,))

    def before(
        self,
        sums: NDArray[np.float32],
        times: NDArray[np.int64],
        stories: NDArray[np.int64],
        view: NDArray[np.int64],
        clicked: NDArray[np.bool_],
        is_view: NDArray[np.bool_],
        *,
        record: bool = True,
    ) -> NDArray[np.float32]:
        """The similarity of the user of each page view to the earlier readers of each of its stories.

        sums: (page views, size) what each user has clicked so far; times: of the page views
        stories: shown on all page views; view: the page view of each; clicked: whether it was clicked
        is_view: False for a click from before the log, which adds no reader
        """
        tastes = self._tastes(sums, times, is_view, record=record)
        moments = times[view]
        clicks = np.flatnonzero(clicked & is_view[view])
        earlier = _last_earlier(stories[clicks], moments[clicks], stories, moments)
        # what changes the audience of a story are its clicks: asked for once after each, and once before the first
        asked, place = np.unique(np.where(earlier < 0, -1 - stories, earlier), return_inverse=True)
        after = clicks[asked[asked >= 0]]
        before_any = -1 - asked[asked < 0]
        asked_story = np.concatenate([before_any, stories[after]])
        asked_time = np.concatenate([np.full(len(before_any), times[0]), moments[after] + 1])
        events = np.concatenate([asked_time, moments[clicks]])
        values = np.zeros((len(events), tastes.shape[1] + 1))
        values[len(asked) :, :-1] = tastes[view[clicks]]
        values[len(asked) :, -1] = 1
        by_time = np.argsort(events, kind="stable")
        rows = np.concatenate([asked_story, stories[clicks]])[by_time]
        # double precision until the end: a log is asked at other moments than a site, and must give the same numbers
        known = self._readers.before(
            Order.of(rows, events[by_time]), events[by_time], values[by_time], record=record, dtype=np.float64
        )
        readers = np.empty(known[:, 0].shape)
        readers[by_time] = known[:, 0]
        faded = np.exp2((asked_time[place] - moments) / self._half_life)
        similar = faded * similarities_to(readers[:, :-1], place, tastes[:, None], view)[0]
        result: NDArray[np.float32] = (similar / (faded * readers[place, -1] + 1)).astype(np.float32)
        return result

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state by name."""
        states = {"readers": self._readers, "everyone": self._everyone}
        return {f"{name}.{part}": array for name, state in states.items() for part, array in state.arrays().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the state that `arrays` returned."""
        for name, state in (("readers", self._readers), ("everyone", self._everyone)):
            prefix = f"{name}."
            state.restore({part.removeprefix(prefix): arrays[part] for part in arrays if part.startswith(prefix)})

    def _tastes(
        self, sums: NDArray[np.float32], times: NDArray[np.int64], is_view: NDArray[np.bool_], *, record: bool
    ) -> NDArray[np.float32]:
        """The taste of the user of each page view, compared with those of all earlier ones; 0 without a click."""
        directions = units(sums)
        values = np.column_stack([directions, np.ones(len(directions))]) * is_view[:, None]
        everyone = Order.of(np.zeros(len(times), np.int64), times)
        known = self._everyone.before(everyone, times, values, record=record)[:, 0]
        mean = known[:, :-1] / np.maximum(known[:, -1:], 1)
        difference = np.where(directions.any(1, keepdims=True), directions - mean, 0)
        lengths = np.linalg.norm(difference, axis=1, keepdims=True)
        tastes: NDArray[np.float32] = (difference / np.maximum(lengths, _SHORTEST)).astype(np.float32)
        return tastes


def _last_earlier(
    clicked: NDArray[np.int64], clicked_at: NDArray[np.int64], stories: NDArray[np.int64], moments: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each story and moment, the last click on that story with a strictly smaller time; -1 without one."""
    if not len(clicked):
        return np.full(len(stories), -1)
    start = int(moments[0])
    span = int(moments[-1]) - start + 1
    keys = clicked * span + (clicked_at - start)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    at = np.searchsorted(keys, stories * span + (moments - start)) - 1
    same = (at >= 0) & (keys[at] // span == stories)
    return np.where(same, order[at], -1)

"""Moments of clicks and skips, and profiles from them.

The moment of an event in a profile is the time of its impression, then the impression id, then the position on the
page: the order in which `drpn prepare` reads a log. It is stored as bytes that compare in this order.
"""

import math
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from drpn.state.profile import Entry, Event, Profile, ProfileState
from drpn.store.records import LONGEST_ID, Impression, Skips, as_utc

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_OFFSET = 1 << 63
"""Added to times, so that those before 1970 compare as bytes, too."""


class Feedback(NamedTuple):
    """The moments of a user's last click and last skip of a story, as bytes (None for never), and how often it was
    skipped."""

    news_id: str
    clicked: bytes | None
    skipped: bytes | None
    times_skipped: int = 0


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (as_utc(moment) - _EPOCH) // _MICROSECOND


def from_microseconds(number: int) -> datetime:
    """The inverse of `microseconds`."""
    return _EPOCH + number * _MICROSECOND


def pack(time: int, impression_id: str = "", position: int = 0) -> bytes:
    """A moment as bytes; `time` is in microseconds. A seeded event has no impression id."""
    # ids have no zero byte, so a shorter id comes before a longer one that begins with it
    return (time + _OFFSET).to_bytes(8, "big") + impression_id.encode() + b"\0" + position.to_bytes(4, "big")


def user_profile(feedback: Iterable[Feedback], as_of: datetime | None = None) -> tuple[Profile, frozenset[str]]:
    """The profile of a user and all clicked stories; `as_of` is that of seeds, used if nothing is newer."""
    state, seeded, clicked, newest = ProfileState(), set[int](), set[str](), -1
    for row in feedback:
        for moment, click in ((row.clicked, True), (row.skipped, False)):
            if moment is None:
                continue
            number = _number(moment)
            state.update(Event(row.news_id, click, number))
            newest = max(newest, number)
            if _is_seed(moment):
                seeded.add(number)
            if click:
                clicked.add(row.news_id)
    sides = state.newest()
    clicks, skips = (
        [Entry(story, None if number in seeded else _time(number)) for story, number in side] for side in sides
    )
    return Profile(clicks, skips, as_of if newest < 0 or newest in seeded else _time(newest)), frozenset(clicked)


def seed_feedback(
    clicked: Iterable[str], skipped: Iterable[str], every_click: Iterable[str], as_of: datetime | None
) -> list[Feedback]:
    """The clicks and skips of a seeded profile: as old as the profile, in its order, other clicks before them."""
    time, newest = 0 if as_of is None else microseconds(as_of), list(clicked)
    before = sorted(set(every_click) - set(newest))
    return [
        *(Feedback(story, pack(time, "", place), None) for place, story in enumerate([*before, *newest])),
        *(Feedback(story, None, pack(time, "", place)) for place, story in enumerate(skipped)),
    ]


def page_view_feedback(impression: Impression) -> list[Feedback]:
    """The clicks and skips of a page view that is closed."""
    assert impression.time is not None
    time, positions = microseconds(impression.time), impression.positions()
    feedback = []
    for story in impression.shown:
        moment = pack(time, impression.impression_id, positions[story.news_id])
        if story.clicked:
            feedback.append(Feedback(story.news_id, moment, None))
        elif story.seen is not False:
            feedback.append(Feedback(story.news_id, None, moment, times_skipped=1))
    return feedback


def count_skips(feedback: Iterable[Feedback], clicked: Collection[str]) -> dict[str, Skips]:
    """How often and when each story was skipped, without those that were clicked."""
    skips: dict[str, Skips] = {}
    for row in feedback:
        if row.times_skipped and row.skipped is not None and row.news_id not in clicked:
            times, last = skips.get(row.news_id, (0, -math.inf))
            seconds = (int.from_bytes(row.skipped[:8], "big") - _OFFSET) / 1_000_000
            skips[row.news_id] = Skips(times + row.times_skipped, max(last, seconds))
    return skips


def _number(moment: bytes) -> int:
    """The moment as one number, which `ProfileState` compares."""
    padded = moment[8:-5].ljust(LONGEST_ID, b"\0")
    return int.from_bytes(moment[:8] + padded + moment[-4:], "big")


def _time(number: object) -> datetime:
    assert isinstance(number, int)
    return from_microseconds((number >> (8 * (LONGEST_ID + 4))) - _OFFSET)


def _is_seed(moment: bytes) -> bool:
    return len(moment) == 13

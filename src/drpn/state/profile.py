"""User profiles, updated by one event at a time.

The rule is the paper's feedback matrix Z: a story has one value per user, clicked beats skipped, and the time of a
value is its last event. A profile keeps the newest clicked and the newest skipped stories, oldest first.
`profile_expressions` states the same rule over whole logs. `tests/state/test_profile.py` compares the two.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from typing import Any, Protocol, SupportsIndex

CLICKED_KEPT = 30
"""l_p: clicked stories in a profile."""
SKIPPED_KEPT = 60
"""l_n: skipped stories in a profile."""


class Moment(Protocol):
    """A number or a datetime; all moments of one user must be comparable with each other."""

    def __lt__(self, other: Any, /) -> bool: ...


@dataclass(frozen=True, init=False)
class Event:
    """One user clicked or skipped one story. A story that the user never saw is not an event."""

    news_id: str
    clicked: bool
    moment: Moment

    def __init__(self, news_id: str | SupportsIndex, clicked: bool, moment: Moment) -> None:
        if not isinstance(clicked, bool):
            raise ValueError(f"clicked is {clicked!r}; it takes True or False")
        object.__setattr__(self, "news_id", _story_id(news_id))
        object.__setattr__(self, "clicked", clicked)
        object.__setattr__(self, "moment", _moment(moment, "moment"))


@dataclass(frozen=True, init=False, slots=True)
class Entry:
    """One story of a profile and the moment of its last event; None if the moment is not known."""

    news_id: str
    moment: Moment | None

    def __init__(self, news_id: str | SupportsIndex, moment: Moment | None = None) -> None:
        object.__setattr__(self, "news_id", _story_id(news_id))
        object.__setattr__(self, "moment", None if moment is None else _moment(moment, "moment"))


@dataclass(frozen=True, init=False)
class Profile:
    """The clicked and skipped stories of a user as of a moment, oldest first.

    `Profile(clicked=["storm", "vote"], skipped=["chess"])` takes story ids (strings or integers) or `Entry` objects.
    A story listed twice keeps its last place; a story on both sides counts as clicked.
    """

    clicked: tuple[Entry, ...]
    skipped: tuple[Entry, ...]
    as_of: Moment | None

    def __init__(
        self,
        clicked: Iterable[str | SupportsIndex | Entry] = (),
        skipped: Iterable[str | SupportsIndex | Entry] = (),
        as_of: Moment | None = None,
    ) -> None:
        if as_of is not None:
            _moment(as_of, "as_of")
        clicked_entries = _entries(clicked, "clicked", as_of)
        skipped_entries = _entries(skipped, "skipped", as_of)
        object.__setattr__(self, "clicked", tuple(clicked_entries.values()))
        object.__setattr__(
            self, "skipped", tuple(entry for story, entry in skipped_entries.items() if story not in clicked_entries)
        )
        object.__setattr__(self, "as_of", as_of)


class ProfileState:
    """Everything needed to give the exact profile of one user after each event.

    Events may arrive in any order and more than once. The state keeps the last click and the last skip of every story,
    not only of the stories in the profile: a story clicked long ago and skipped today still counts as clicked.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._last_click: dict[str, Moment] = {}
        self._last_skip: dict[str, Moment] = {}
        self._newest: Moment | None = None
        self._window_start: Moment | None = None
        for event in events:
            self.update(event)

    def update(self, event: Event) -> None:
        """Apply one event; an event from before the window (see `expire_before`) changes nothing."""
        if self._window_start is not None and _before(event.moment, self._window_start):
            return
        if self._newest is None or _before(self._newest, event.moment):
            self._newest = event.moment
        last = self._last_click if event.clicked else self._last_skip
        if event.news_id not in last or _before(last[event.news_id], event.moment):
            last[event.news_id] = event.moment

    def expire_before(self, moment: Moment) -> None:
        """Forget all events before `moment`, also those that arrive later.

        The profile is then exactly the profile of a log that starts at `moment`: a story whose clicks are all forgotten
        counts as skipped if it was skipped since.
        """
        _moment(moment, "moment")
        if self._window_start is not None and not _before(self._window_start, moment):
            return
        self._last_click, self._last_skip = (
            {story: time for story, time in last.items() if not _before(time, moment)}
            for last in (self._last_click, self._last_skip)
        )
        self._window_start = moment

    def profile(self, clicked: int = CLICKED_KEPT, skipped: int = SKIPPED_KEPT, as_of: Moment | None = None) -> Profile:
        """Return the newest `clicked` clicked and `skipped` skipped stories.

        `as_of` is the moment of the newest event unless given. It cannot be earlier than the newest event, because the
        state does not remember earlier profiles.
        """
        for name, limit in (("clicked", clicked), ("skipped", skipped)):
            if limit < 0:
                raise ValueError(f"{name} is {limit}; it takes 0 or more")
        if as_of is None:
            as_of = self._newest
        elif self._newest is not None and _before(_moment(as_of, "as_of"), self._newest):
            raise ValueError(f"as_of is {as_of!r}, but the newest event is of {self._newest!r}; it takes that or later")
        clicks, skips = ([Entry(*pair) for pair in side] for side in self.newest(clicked, skipped))
        return Profile(clicks, skips, as_of)

    def newest(
        self, clicked: int = CLICKED_KEPT, skipped: int = SKIPPED_KEPT
    ) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
        """The stories of `profile` and their moments, for callers that write moments in another way."""
        only_skipped = {story: time for story, time in self._last_skip.items() if story not in self._last_click}
        return _newest(self._last_click, clicked), _newest(only_skipped, skipped)


def _newest(last: dict[str, Moment], limit: int) -> list[tuple[str, Any]]:
    """The newest `limit` stories, oldest first; stories of one moment in the order of their ids."""
    newest_first = heapq.nlargest(limit, last.items(), key=lambda item: (item[1], item[0]))
    return newest_first[::-1]


def _entries(stories: Iterable[str | SupportsIndex | Entry], side: str, as_of: Moment | None) -> dict[str, Entry]:
    """The stories of one side by id, each at its last place."""
    if isinstance(stories, str | bytes | Entry) or not isinstance(stories, Iterable):
        raise ValueError(f"{side} is {stories!r}; it takes a list of story ids, such as ['storm'], or of Entry objects")
    entries: dict[str, Entry] = {}
    previous: Entry | None = None
    for story in stories:
        entry = story if isinstance(story, Entry) else Entry(story)
        entries.pop(entry.news_id, None)
        entries[entry.news_id] = entry
        if entry.moment is None:
            continue
        if previous is not None and previous.moment is not None and _before(entry.moment, previous.moment):
            raise ValueError(
                f"{side} lists {entry.news_id!r} of {entry.moment!r} after {previous.news_id!r} of "
                f"{previous.moment!r}; list the oldest first"
            )
        if as_of is not None and _before(as_of, entry.moment):
            raise ValueError(f"{side} lists {entry.news_id!r} of {entry.moment!r}, which is later than as_of {as_of!r}")
        previous = entry
    return entries


def _story_id(news_id: object) -> str:
    if isinstance(news_id, str) and news_id:
        return news_id
    if isinstance(news_id, SupportsIndex) and not isinstance(news_id, bool):
        return str(news_id.__index__())
    raise ValueError(f"news_id is {news_id!r}; it takes the id of a story: a string that is not empty, or an integer")


def _moment(moment: Moment, name: str) -> Moment:
    if type(moment) in (int, datetime):  # nearly all are, and this is quick
        return moment
    if isinstance(moment, bool) or not isinstance(moment, Real | datetime) or moment != moment:
        raise ValueError(f"{name} is {moment!r}; it takes a number or a datetime")
    return moment


def _before(first: Moment, second: Moment) -> bool:
    try:
        return first < second
    except TypeError:
        raise ValueError(
            f"the moments {first!r} and {second!r} cannot be compared; use only numbers, only datetimes with a time "
            "zone or only datetimes without"
        ) from None

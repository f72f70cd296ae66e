"""The records that go into a store and come out of it.

Times are datetimes; UTC if they have no time zone. A time that is None is the time of the store's clock when the
event is written.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from drpn.errors import RefusedError
from drpn.state.profile import Profile

LONGEST_ID = 256
"""Bytes that the id of a user, story, impression or session may have."""
MOST_SHOWN = 1_000
"""Stories that one impression may show."""
_CANNOT_BE_STORED = re.compile("[\0\ud800-\udfff]")
"""A zero byte, or half of a pair of letters."""


@dataclass(frozen=True)
class Shown:
    """One story of a page view."""

    news_id: str
    clicked: bool = False
    """Whether it was clicked before the page view was reported."""
    position: int | None = None
    """Place on the page, from 0; by default its place in `Impression.shown`."""
    seen: bool | None = None
    """Whether it came into view; a story that did not is not skipped. None, for unknown, counts as seen."""
    score: float | None = None
    propensity: float | None = None
    """Probability that the ranking put it at this position."""

    def __post_init__(self) -> None:
        check_id("news_id", self.news_id)
        if self.position is not None and not 0 <= self.position < 2**31:
            raise RefusedError(f"position is {self.position}; it takes a whole number from 0 to {2**31 - 1}")
        check_number("score", self.score)
        check_number("propensity", self.propensity)


@dataclass(frozen=True)
class Impression:
    """A page view: what a user was shown, and what is known about the page and the user."""

    impression_id: str
    user_id: str
    shown: tuple[Shown, ...]
    time: datetime | None = None
    page: str | None = None
    """The story on whose page the list was shown."""
    surface: str | None = None
    session: str | None = None
    device: str | None = None
    age: float | None = None
    gender: str | None = None
    subscriber: str | None = None
    bundle: str | None = None
    """The bundle that ranked the page."""
    variant: str | None = None
    complete: bool = False
    """Whether all clicks are known: what was not clicked then counts as skipped at once."""

    def __post_init__(self) -> None:
        check_id("impression_id", self.impression_id)
        check_id("user_id", self.user_id)
        for name in ("page", "surface", "session", "device", "gender", "subscriber", "bundle", "variant"):
            if getattr(self, name) is not None:
                check_id(name, getattr(self, name))
        check_number("age", self.age)
        if not 0 < len(self.shown) <= MOST_SHOWN:
            raise RefusedError(f"an impression shows {len(self.shown)} stories; it takes 1 to {MOST_SHOWN:,}")
        if len({story.news_id for story in self.shown}) < len(self.shown):
            raise RefusedError(f"impression '{self.impression_id}' shows a story twice; list each story once")

    def positions(self) -> dict[str, int]:
        """The position of each shown story."""
        return {
            story.news_id: place if story.position is None else story.position for place, story in enumerate(self.shown)
        }


@dataclass(frozen=True)
class Click:
    """A click on a story of an earlier impression."""

    impression_id: str
    user_id: str
    news_id: str
    time: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("impression_id", "user_id", "news_id"):
            check_id(name, getattr(self, name))


@dataclass(frozen=True)
class Story:
    """A story as the newsroom delivers it; one with a known id replaces the older one."""

    news_id: str
    title: str
    category: str | None = None
    subcategory: str | None = None
    abstract: str | None = None
    published: datetime | None = None
    expires: datetime | None = None
    """From this moment on the story is not live."""
    vector: tuple[float, ...] | None = None
    entities: str | None = None
    """Entities of the title, as MIND's JSON."""

    def __post_init__(self) -> None:
        check_id("news_id", self.news_id)
        for name in ("title", "category", "subcategory", "abstract", "entities"):
            check_text(name, getattr(self, name))
        for number in self.vector or ():
            check_number("vector", number)


@dataclass(frozen=True)
class StoredStory:
    """A story with what happened to it since."""

    story: Story
    put_at: datetime
    taken_down: bool

    def live(self, moment: datetime) -> bool:
        """Whether the story may be recommended at a moment."""
        expires = self.story.expires
        return not self.taken_down and (expires is None or moment < expires)


@dataclass(frozen=True)
class Receipt:
    """Says that a change is durable."""

    sequence: int
    """Sequence number of its first event; 0 if there was nothing to change."""
    repeated: bool = False
    """Whether it was stored before, by an earlier request with the same content."""


@dataclass(frozen=True)
class Closed:
    """An impression was closed: what was shown, seen and not clicked counts as skipped."""

    impression_id: str
    user_id: str
    shown_at: datetime
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class ClickCounted:
    """The first click on a story of an impression."""

    click: Click
    shown_at: datetime
    """The time of the impression, which is the moment of the click in profiles."""
    position: int
    was_skipped: bool
    """Whether the impression was closed before, so that the skip turned into a click."""


@dataclass(frozen=True)
class NewsPut:
    """A story was put or replaced."""

    story: Story


@dataclass(frozen=True)
class TakenDown:
    """A story was taken down; putting it again makes it live again."""

    news_id: str


@dataclass(frozen=True)
class Erased:
    """A user was erased; all earlier events of the user are gone. `Store.mark` gives the mark of a user id."""

    mark: str


@dataclass(frozen=True)
class Seeded:
    """Profiles of some users were seeded."""

    users: int


Happening = Impression | ClickCounted | Closed | NewsPut | TakenDown | Erased | Seeded


@dataclass(frozen=True)
class LoggedEvent:
    """One entry of the log."""

    sequence: int
    time: datetime
    """When it happened, by its own time; entries are in the order in which they were written."""
    what: Happening


class Skips(NamedTuple):
    """How often a user was shown and skipped a story."""

    times: int
    last: float
    """The time of the last page view of these, in seconds since 1970."""


@dataclass(frozen=True)
class UserState:
    """Profile, version and clicks of a user."""

    version: int
    """Rises with every event that changes the state; 0 for a user that the store does not know. An erased user who
    comes back has a higher version than ever before."""
    profile: Profile
    """Newest clicked and skipped stories; the moment of an entry is the time of its impression, None if seeded."""
    clicked: frozenset[str]
    """All stories that the user clicked, within the retention."""
    erased: bool
    """Whether the user was erased at some time: nothing that a bundle knows of the user may be used."""
    skips: Mapping[str, Skips] = field(default_factory=dict)
    """The stories that were skipped and never clicked, within the retention, also beyond those of the profile; seeded
    ones are not counted."""


@dataclass(frozen=True)
class StoredImpression:
    """An impression with its time and what became of it."""

    sequence: int
    impression: Impression
    """As reported, with its time."""
    clicks: tuple[Click, ...]
    """All clicks, those reported with the impression included, in the order of the page."""
    closed: bool


@dataclass(frozen=True)
class Seed:
    """The profile and clicks of a user in a bundle."""

    user_id: str
    profile: Profile
    clicked: tuple[str, ...] = ()
    """All stories that the user clicked, those of the profile included or not."""

    def __post_init__(self) -> None:
        check_id("user_id", self.user_id)


@dataclass(frozen=True)
class LoggedRanking:
    """A ranking that the service gave, for audits and later evaluation."""

    impression_id: str
    user_id: str | None
    """None if the ranking did not use a profile."""
    time: datetime
    bundle: str
    variant: str
    news_ids: tuple[str, ...]
    """The stories in the order of the page."""
    scores: tuple[float, ...] | None = None
    propensities: tuple[float, ...] | None = None
    fallback: bool = False
    """Whether the model did not answer in time and something simpler ranked."""

    def __post_init__(self) -> None:
        check_id("impression_id", self.impression_id)
        if self.user_id is not None:
            check_id("user_id", self.user_id)
        for name in ("scores", "propensities"):
            numbers = getattr(self, name)
            if numbers is not None and len(numbers) != len(self.news_ids):
                raise RefusedError(f"{name} has {len(numbers)} numbers for {len(self.news_ids)} stories; give one each")
            for number in numbers or ():
                check_number(name, number)
        for text in (self.bundle, self.variant, *self.news_ids):
            check_text("ranking", text)


@dataclass(frozen=True)
class VariantCounts:
    """Feedback on the pages of one variant of one bundle since the store was made; erasure does not change it."""

    bundle: str
    variant: str
    impressions: int
    shown: int
    clicked: int


@dataclass(frozen=True)
class StoreFigures:
    """Figures of a store for monitoring."""

    last_sequence: int
    users: int
    """Users with a profile."""
    open_impressions: int
    news: int
    waiting: int
    """Changes that wait to be written by this process."""
    dropped_rankings: int
    """Rankings that this process could not log because too many were waiting."""
    bytes: int


@dataclass(frozen=True)
class QueueFigures:
    """What waits to be written by this process, and what it could not write."""

    waiting: int
    dropped_rankings: int


@dataclass(frozen=True)
class KeyRecord:
    """An API key as it is stored: without the key."""

    key_id: str
    name: str
    scopes: frozenset[str]
    digest: bytes
    created: datetime
    revoked: datetime | None = None


def as_utc(moment: datetime) -> datetime:
    """The moment in UTC, which it is in if it has no time zone."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def check_id(name: str, value: str) -> None:
    """Refuse an id that a log could not hold."""
    check_text(name, value)
    if not value.strip():
        raise RefusedError(f"{name} is empty; it takes a text")
    if len(value.encode()) > LONGEST_ID:
        raise RefusedError(f"{name} has {len(value.encode()):,} bytes; it takes at most {LONGEST_ID}")


def check_text(name: str, value: str | None) -> None:
    """Refuse a text that UTF-8 cannot hold, or with a zero byte, which some databases cannot hold."""
    if value is None:
        return
    if not isinstance(value, str):
        raise RefusedError(f"{name} is {value!r}; it takes a text")
    if _CANNOT_BE_STORED.search(value):
        raise RefusedError(f"{name} has a character that cannot be stored; remove it")


def check_number(name: str, value: float | None) -> None:
    """Refuse numbers that are not finite."""
    if value is not None and not math.isfinite(value):
        raise RefusedError(f"{name} is {value}; it takes a finite number")


def shown_stories(news_ids: Sequence[str], clicked: Iterable[str] = ()) -> tuple[Shown, ...]:
    """Stories in the order of a page; those in `clicked` were clicked."""
    clicks = set(clicked)
    others = clicks - set(news_ids)
    if others:
        raise RefusedError(f"story '{min(others)}' was clicked but not shown; list all stories that were shown")
    return tuple(Shown(news_id, news_id in clicks) for news_id in news_ids)

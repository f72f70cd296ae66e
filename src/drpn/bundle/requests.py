"""Requests to a recommender, and its rankings."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drpn.bundle.context import About
from drpn.bundle.mixing import Reason
from drpn.bundle.stories import as_utc
from drpn.errors import SettingsError
from drpn.state.profile import Profile

UserId = str | int


@dataclass(frozen=True)
class RankedStory:
    """One story of a ranking."""

    rank: int
    news_id: str
    title: str
    score: float
    reason: Reason = "ranked"
    """`diverse`: placed above a story of a higher score, because it differs more from the stories above (or fits the
    user's categories better). `fresh` and `popular`: mixed in, whatever its score."""
    plain_rank: int = 0
    """The rank by score alone."""


@dataclass(frozen=True)
class Ranking:
    """Stories for a user, best first."""

    user_id: str
    """Empty if only a history was given."""
    known: bool
    """Whether the profile holds any story that the model knows."""
    rows: tuple[RankedStory, ...]
    notes: tuple[str, ...] = ()
    """One line for each ignored input: unknown labels of new stories, unknown stories of a history."""


@dataclass(frozen=True)
class Request:
    """One user to rank for."""

    user_id: str
    row: int
    clicked: list[str]
    skipped: list[str]
    hidden: frozenset[str]
    """Stories that are not ranked unless they are given as candidates."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Moment:
    """When and where the stories are shown."""

    time: datetime | None
    page: str | None
    about: About

    @property
    def seconds(self) -> int:
        """Seconds since 1970; 0 if the time is unknown."""
        return 0 if self.time is None else int(as_utc(self.time).timestamp())


def as_list(values: Iterable[Any], name: str) -> list[Any]:
    """The values as a list; a single text, which is a sequence of letters, is refused."""
    if isinstance(values, str | bytes | Profile) or not isinstance(values, Iterable):
        raise SettingsError(f"{name} is {values!r}; it takes a list, such as [{values!r}]")
    return list(values)


def as_ids(values: Iterable[str | int], name: str) -> list[str]:
    return [str(value) for value in as_list(values, name)]

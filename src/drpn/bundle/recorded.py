"""Profiles of users with feedback that came after the log."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from drpn.bundle.stories import as_utc
from drpn.state.profile import Event, Profile, ProfileState

_VIEWS, _PLACES = 1 << 40, 1 << 20
"""More page views than are recorded, and more stories than a page has: moments are numbered by time, then by page view
in the order of recording, then by place on the page."""


class RecordedProfiles:
    """Profiles that start from those of the bundle and follow the rule of `state.profile`.

    The bundle keeps the newest skipped stories of a user; when one of them is clicked, no older one takes its place.
    """

    def __init__(self, *, clicked: int, skipped: int) -> None:
        self._limits = clicked, skipped
        self._states: dict[str, ProfileState] = {}
        self._as_of: dict[str, datetime] = {}
        self._clicks: dict[str, set[str]] = {}
        self._views = 0

    def __contains__(self, user: str) -> bool:
        return user in self._states

    def start(self, user: str, profile: Profile, every_click: Iterable[str]) -> None:
        """Start from the profile of a user at the end of the log and all stories that the user clicked in it."""
        older = [story for story in every_click if story not in {entry.news_id for entry in profile.clicked}]
        clicked = [*older, *(entry.news_id for entry in profile.clicked)]
        skipped = [entry.news_id for entry in profile.skipped]
        # the log is older than all that is recorded: its events get the moments ..., -2, -1
        self._states[user] = ProfileState(
            Event(story, side is clicked, place - len(side))
            for side in (clicked, skipped)
            for place, story in enumerate(side)
        )
        self._clicks[user] = set()

    def record(self, user: str, shown: Sequence[str], clicked: Iterable[str], moment: datetime) -> None:
        """Add the feedback of a page view."""
        moment, clicks = as_utc(moment), set(clicked)
        first = (int(moment.timestamp() * 1_000_000) * _VIEWS + self._views) * _PLACES
        self._views += 1
        for place, story in enumerate(shown):
            self._states[user].update(Event(story, story in clicks, first + place))
        self._clicks[user] |= clicks
        self._as_of[user] = max(moment, self._as_of.get(user, moment))

    def profile(self, user: str) -> Profile:
        """The profile of a user who was recorded."""
        profile = self._states[user].profile(*self._limits)
        clicked, skipped = ([entry.news_id for entry in side] for side in (profile.clicked, profile.skipped))
        return Profile(clicked, skipped, self._as_of[user])

    def clicks(self, user: str) -> set[str]:
        """The stories that a user clicked after the log."""
        return self._clicks.get(user, set())

"""The users of a bundle: their profiles as of the log, and what was recorded since."""

from collections.abc import Sequence
from datetime import datetime

from drpn.bundle.catalogue import StoryCatalogue
from drpn.bundle.files import Bundle
from drpn.bundle.recorded import RecordedProfiles
from drpn.bundle.requests import Request, UserId
from drpn.dataset.arrays import Array
from drpn.errors import SettingsError
from drpn.state.profile import Profile


class BundleUsers:
    """Turns user ids and histories into requests."""

    def __init__(self, bundle: Bundle, stories: StoryCatalogue, *, clicked: int, skipped: int) -> None:
        """`clicked` and `skipped` are the numbers of stories that the model reads of a profile."""
        self._bundle, self._stories, self._limits = bundle, stories, (clicked, skipped)
        self.rows = {name: row for row, name in enumerate(bundle.data.user_ids) if row}
        """The rows of the users of the log."""
        self._recorded = RecordedProfiles(clicked=bundle.data.clicked.shape[1], skipped=bundle.data.skipped.shape[1])

    def profile(self, user: str) -> Profile:
        """The profile of a user, with what was recorded; empty for a user that nobody knows."""
        if user in self._recorded:
            return self._recorded.profile(user)
        row, data = self.rows.get(user, 0), self._bundle.data
        clicked, skipped = (self._news_ids(side[row]) for side in (data.clicked, data.skipped))
        return Profile(clicked, skipped, self._bundle.profiles_as_of) if row else Profile()

    def record(self, user: str, shown: Sequence[str], clicked: Sequence[str], moment: datetime) -> None:
        """Add the feedback of a page view to the profile of a user."""
        if user not in self._recorded:
            every_click = self._bundle.all_clicked(self.rows.get(user, 0)) or ()
            self._recorded.start(user, self.profile(user), every_click)
        self._recorded.record(user, shown, clicked, moment)

    def request(self, user: UserId | Profile, history: Profile | None) -> Request:
        """A request for a user id, a history, or an id with a history that replaces its profile."""
        if isinstance(user, Profile) and history is not None:
            raise SettingsError("users holds a Profile; with histories, it takes user ids alone")
        user, history = ("", user) if isinstance(user, Profile) else (str(user), history)
        if history is not None and not isinstance(history, Profile):
            raise SettingsError(f"history is {history!r}; it takes a Profile, such as Profile(clicked=['storm'])")
        profile = self.profile(user) if history is None else history
        sides, unknown = [], []
        for side in (profile.clicked, profile.skipped):
            unknown += [entry.news_id for entry in side if entry.news_id not in self._stories]
            sides.append([entry.news_id for entry in side if entry.news_id in self._stories])
        notes: tuple[str, ...] = ()
        if unknown and history is not None:
            names = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
            notes = (f"stories of the history that are not in the catalogue are left out: {names}",)
        clicked, skipped = sides
        row = self.rows.get(user, 0)
        every_click = self._bundle.all_clicked(row) if history is None else None
        recorded = self._recorded.clicks(user) if history is None else set()
        return Request(
            user_id=user,
            row=row,
            clicked=_newest(clicked, self._limits[0]),
            skipped=_newest(skipped, self._limits[1]),
            # a given history is hidden as a whole; readers of the log may have been shown nearly all live stories
            hidden=frozenset(clicked + skipped if every_click is None else every_click) | recorded,
            notes=notes,
        )

    def _news_ids(self, rows: Array) -> list[str]:
        return [self._bundle.news_ids[row] for row in rows.tolist() if row]


def _newest(news_ids: list[str], limit: int) -> list[str]:
    return news_ids[max(0, len(news_ids) - limit) :]

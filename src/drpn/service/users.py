"""The users that requests came from, as the store knows them; kept while no event changes them."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from drpn.state.profile import Profile
from drpn.store.base import Store
from drpn.store.records import ClickCounted, Closed, Erased, Happening, Impression, Seeded, Skips, UserState


class KnownUser(NamedTuple):
    """A user as of the last event that was followed, or later."""

    version: int
    profile: Profile
    clicked: frozenset[str]
    """All stories that the user clicked."""
    erased: bool
    open: set[str]
    """Open impressions; events add to it."""
    skips: Mapping[str, Skips] = MappingProxyType({})
    """How often and when the user skipped stories, also those beyond the profile."""


class Users:
    """A bounded cache of users, which follows the log."""

    def __init__(self, store: Store, size: int) -> None:
        self._store, self._size = store, size
        self._known: OrderedDict[str, KnownUser] = OrderedDict()

    def get(self, user_id: str) -> KnownUser:
        """A user, known or not."""
        known = self._known.get(user_id)
        if known is None:
            state = self._store.user(user_id)
            waiting = self._store.open_impressions(user_id) if state.version else []
            open_now = {stored.impression.impression_id for stored in waiting}
            known = _known(state, open_now)
            self._known[user_id] = known
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(user_id)
        return known

    def as_if_closed(self, user_id: str, views: Sequence[Impression]) -> KnownUser:
        """A user as if some page views were stored and closed."""
        if not views:
            return self.get(user_id)
        return _known(self._store.user(user_id, also=views), set())

    def peek(self, user_id: str) -> KnownUser | None:
        """A user if cached; may be called from any thread."""
        return self._known.get(user_id)

    def apply(self, what: Happening) -> None:
        """Forget what an event changes."""
        if isinstance(what, Impression):
            if any(story.clicked for story in what.shown):
                self._known.pop(what.user_id, None)
            elif (known := self._known.get(what.user_id)) is not None:
                known.open.add(what.impression_id)  # nothing else changes: profiles know clicks and skips
        elif isinstance(what, Closed):
            self._known.pop(what.user_id, None)
        elif isinstance(what, ClickCounted):
            self._known.pop(what.click.user_id, None)
        elif isinstance(what, Erased | Seeded):
            self._known.clear()  # the log does not say who it was


def _known(state: UserState, open_now: set[str]) -> KnownUser:
    return KnownUser(state.version, state.profile, state.clicked, state.erased, open_now, state.skips)

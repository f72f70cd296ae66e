"""Page views as the counts of a bundle learn them from the log of a store.

A page view is counted once, when it is closed: then its clicks and skips are known. A click after that is counted as a
page view of one story. The moment of both is that of the impression, as in a log that a bundle is trained on.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from drpn.store.base import Store
from drpn.store.records import ClickCounted, Closed, Happening, Impression, as_utc


class PageView(NamedTuple):
    """A page view, complete with its clicks."""

    user_id: str
    time: datetime
    shown: list[str]
    """The stories that were seen, in the order of the page."""
    clicked: set[str]
    page: str | None
    about: dict[str, str | float]
    unseen: list[str]
    """The stories of the page that did not come into view."""


class PageViews:
    """Puts page views together from events."""

    def __init__(self, store: Store, since: datetime | None) -> None:
        """Page views up to `since` are left out: the bundle knows them."""
        self._store, self._since = store, since
        self._open: dict[str, tuple[Impression, set[str]]] = {}

    def apply(self, what: Happening) -> Iterator[PageView]:
        """The page view that an event completes, if any."""
        if isinstance(what, Impression):
            self._open[what.impression_id] = what, {story.news_id for story in what.shown if story.clicked}
        elif isinstance(what, ClickCounted):
            if what.click.impression_id in self._open:
                self._open[what.click.impression_id][1].add(what.click.news_id)
            elif self._counts(what.shown_at):
                yield PageView(
                    what.click.user_id, what.shown_at, [what.click.news_id], {what.click.news_id}, None, {}, []
                )
        elif isinstance(what, Closed):
            followed = self._open.pop(what.impression_id, None)
            impression, clicked = self._stored(what.impression_id) if followed is None else followed
            if impression is not None and self._counts(what.shown_at):
                yield _page_view(impression, what.shown_at, clicked)

    def erase(self, mark: str) -> None:
        """Forget the open impressions of an erased user, whom the log names by a mark alone."""
        users = {impression.user_id for impression, _ in self._open.values()}
        erased = {user_id for user_id in users if self._store.mark(user_id) == mark}
        if erased:
            self._open = {
                impression_id: waiting
                for impression_id, waiting in self._open.items()
                if waiting[0].user_id not in erased
            }

    def _stored(self, impression_id: str) -> tuple[Impression | None, set[str]]:
        """An impression whose report is older than the events that were followed."""
        stored = self._store.impression(impression_id)
        return (None, set()) if stored is None else (stored.impression, {click.news_id for click in stored.clicks})

    def _counts(self, shown_at: datetime) -> bool:
        return self._since is None or as_utc(shown_at) > self._since


def closed_view(impression: Impression) -> PageView:
    """An impression with its time and all its clicks, as if it were closed."""
    assert impression.time is not None
    return _page_view(impression, impression.time, {story.news_id for story in impression.shown if story.clicked})


def _page_view(impression: Impression, shown_at: datetime, clicked: set[str]) -> PageView:
    positions = impression.positions()
    seen = [story.news_id for story in impression.shown if story.news_id in clicked or story.seen is not False]
    unseen = [story.news_id for story in impression.shown if story.news_id not in clicked and story.seen is False]
    about = {name: getattr(impression, name) for name in ("device", "gender", "age", "subscriber")}
    return PageView(
        impression.user_id,
        shown_at,
        sorted(seen, key=lambda news_id: positions[news_id]),
        clicked,
        impression.page,
        {name: value for name, value in about.items() if value is not None},
        unseen,
    )

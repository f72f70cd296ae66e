"""Feedback that is tried: page views that count as if they were stored and closed. Nothing of it is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from drpn.errors import SettingsError
from drpn.service.desk import Desk
from drpn.service.ranking import Prepared
from drpn.service.requests import ListedStory, Moved, RankRequest
from drpn.service.skips import Skipped
from drpn.service.views import closed_view
from drpn.store.base import Store
from drpn.store.records import Impression, Shown, StoredImpression

_BEFORE = timedelta(seconds=1)
"""How long before the request the feedback comes: counts know strictly earlier seconds."""


def open_views(store: Store, user_id: str, moment: datetime) -> tuple[Impression, ...]:
    """The open page views of a user with their clicks, oldest first: the next request at `moment` closes them."""
    waiting = store.open_impressions(user_id)
    return tuple(_with_clicks(stored) for stored in waiting if (stored.impression.time or moment) <= moment)


def tried_view(
    desk: Desk, request: RankRequest, clicked: Sequence[str], skipped: Sequence[str], moment: datetime
) -> tuple[Impression, ...]:
    """A page view just before `moment` that shows these stories, on the page of the request; none without stories."""
    assert request.user_id is not None
    for news_id in (*clicked, *skipped):
        if not desk.stories.known(news_id):
            raise SettingsError(f"story '{news_id}' is not in the catalogue; put it first")
    shown = tuple(Shown(news_id, news_id in clicked) for news_id in dict.fromkeys((*clicked, *skipped)))
    if not shown:
        return ()
    return (Impression("tried", request.user_id, shown, moment - _BEFORE, page=request.page),)


def as_if_closed(prepared: Prepared, views: Sequence[Impression]) -> Prepared:
    """A request whose counts know some page views; the profile comes from `Users.as_if_closed`."""
    return replace(prepared, asked=prepared.asked._replace(also=tuple(closed_view(view) for view in views)))


def moved(
    before: Sequence[ListedStory], after: Sequence[ListedStory], skipped: Mapping[str, Skipped]
) -> tuple[Moved, ...]:
    """The stories of a list, compared with an earlier list that has them all; those in `skipped` were lowered."""
    earlier = {story.news_id: story for story in before}
    return tuple(
        Moved(
            story.news_id,
            story.title,
            earlier[story.news_id].score,
            story.score,
            earlier[story.news_id].position + 1,
            story.position + 1,
            (skipped[story.news_id].text,) if story.news_id in skipped else (),
        )
        for story in after
    )


def _with_clicks(stored: StoredImpression) -> Impression:
    clicked = {click.news_id for click in stored.clicks}
    shown = tuple(replace(story, clicked=story.news_id in clicked) for story in stored.impression.shown)
    return replace(stored.impression, shown=shown)

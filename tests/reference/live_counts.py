"""The counts of the live protocol, one page view at a time, from lists of all that happened before."""

import math
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LIVES = {"10 min": 600, "30 min": 1_800, "2 h": 7_200, "8 h": 28_800, "48 h": 172_800}
NEVER_HOURS = 240.0


class Story(NamedTuple):
    """One story; 0 stands for no category."""

    category: int
    subcategory: int
    published: int | None
    vector: tuple[float, ...]
    taste: tuple[float, ...]


class View(NamedTuple):
    """One page view, or with `past` one click that is known without its page."""

    user: int
    time: int
    page: int
    group: int
    past: bool
    stories: tuple[int, ...]
    clicked: tuple[bool, ...]
    skipped: tuple[bool, ...]


class Event(NamedTuple):
    """One story of a page view."""

    view: View
    story: int
    clicked: bool
    skipped: bool
    after: int
    """The story that the user had clicked last before the page view; 0 for none."""

    @property
    def shown(self) -> bool:
        """Whether the reader saw it on a page of the log."""
        return (self.clicked or self.skipped) and not self.view.past

    @property
    def log_click(self) -> bool:
        """Whether it was clicked on a page of the log."""
        return self.clicked and not self.view.past


def known_before(views: list[View], stories: list[Story]) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """For each candidate of all page views the columns of PAIR, for each page view those of PAGE, as dictionaries."""
    pairs, pages = [], []
    for number, view in enumerate(views):
        earlier = [other for other in views[:number] if other.time < view.time]
        events = [event for other in earlier for event in _events(other, views)]
        pages.append(_page(view, earlier, events, _last_click(view, views)))
        pairs += [
            _pair(view, story, events, stories, _last_click(view, views), _remembered_since(story, earlier, view.time))
            | _visits(view, story, earlier)
            | {
                f"similarity to readers by {name}": _similarity_to_readers(view, story, views, vectors)
                for name, vectors in (("text", [s.vector for s in stories]), ("taste", [s.taste for s in stories]))
            }
            for story in view.stories
        ]
    return pairs, pages


def _events(view: View, views: list[View]) -> list[Event]:
    rows = zip(view.stories, view.clicked, view.skipped, strict=True)
    return [Event(view, story, clicked, skipped, _last_click(view, views)) for story, clicked, skipped in rows]


def _last_click(view: View, views: list[View]) -> int:
    """The story that the user clicked last in an earlier second: of one page view, the first clicked one."""
    last = 0
    for other in views:
        if other.user == view.user and other.time < view.time and any(other.clicked):
            last = other.stories[other.clicked.index(True)]
    return last


def _log(count: float) -> float:
    return math.log(1 + count)


def _decayed(events: list[Event], now: int, life: int) -> float:
    return sum(0.5 ** ((now - event.view.time) / life) for event in events)


def _hours(now: int, then: int | None) -> float:
    return NEVER_HOURS if then is None else min(max((now - then) / 3_600, 0), NEVER_HOURS)


def _shows_and_clicks(events: list[Event], now: int, lives: tuple[str, ...], name: str) -> dict[str, float]:
    columns = {}
    for life in lives:
        shows = [event for event in events if event.shown]
        clicks = [event for event in events if event.log_click]
        columns[f"{name}shows {life}"] = _log(_decayed(shows, now, LIVES[life]))
        columns[f"{name}clicks {life}"] = _log(_decayed(clicks, now, LIVES[life]))
    return columns


def _page(view: View, earlier: list[View], events: list[Event], last: int) -> dict[str, float]:
    mine = [event for event in events if event.view.user == view.user]
    my_views = [other for other in earlier if other.user == view.user and not other.past]
    session, previous = 0, None
    for other in [*my_views, *([] if view.past else [view])]:
        if previous is not None and other.time - previous >= 1_800:
            session = 0
        if other is not view:
            session, previous = session + 1, other.time
    moment = datetime.fromtimestamp(view.time, UTC)
    return {
        **_shows_and_clicks(events, view.time, tuple(LIVES), "all "),
        "user past clicks": _log(sum(event.clicked for event in mine)),
        "user page views": _log(len(my_views)),
        "user shows": _log(sum(event.shown for event in mine)),
        "user clicks": _log(sum(event.log_click for event in mine)),
        "hours since last page view": _hours(view.time, my_views[-1].time if my_views else None),
        "page views in session": _log(session),
        "page has story": float(view.page > 0),
        "all clicks from page": _log(sum(e.log_click and e.view.page == view.page > 0 for e in events)),
        "all clicks after last click": _log(sum(e.log_click and e.after == last > 0 for e in events)),
        "hour": moment.hour,
        "weekday": moment.weekday(),
    }


def _pair(view: View, story: int, events: list[Event], stories: list[Story], last: int, since: int) -> dict[str, float]:
    about, now = stories[story], view.time
    same = [event for event in events if event.story == story]
    surface = [event for event in same if (event.view.page > 0) == (view.page > 0)]
    group = [event for event in same if event.view.group == view.group]
    category = [event for event in events if stories[event.story].category == about.category]
    mine = [event for event in events if event.view.user == view.user]
    my_category = [event for event in category if event.view.user == view.user]
    my_subcategory = [event for event in mine if stories[event.story].subcategory == about.subcategory]
    my_story = [event for event in same if event.view.user == view.user and event.view.time >= since]
    my_clicks = max(sum(event.clicked for event in mine), 1)
    shown_before = [event.view.time for event in my_story if event.shown]
    first_shown = [event.view.time for event in same if event.shown]
    clicks, skips = ([e for e in mine if e.clicked], [e for e in mine if e.skipped])
    recent = LIVES["48 h"]
    return {
        **_shows_and_clicks(same, now, tuple(LIVES), ""),
        **_shows_and_clicks(surface, now, ("2 h", "48 h"), "surface "),
        **_shows_and_clicks(group, now, ("8 h",), "group "),
        "hours since first shown": _hours(now, min(first_shown, default=None)),
        "hours since published": _hours(now, about.published),
        "category shows": _log(sum(event.shown for event in category)),
        "category clicks": _log(sum(event.log_click for event in category)),
        "user category shows": _log(sum(event.shown for event in my_category)),
        "user category clicks": _log(sum(event.log_click for event in my_category)),
        **{f"user category {name}": value for name, value in _shows_and_clicks(my_category, now, ("2 h",), "").items()},
        "user category share": sum(e.clicked for e in my_category) / my_clicks if about.category else 0,
        "user subcategory share": sum(e.clicked for e in my_subcategory) / my_clicks if about.subcategory else 0,
        "times shown to user": _log(sum(event.shown for event in my_story)),
        "times clicked by user": _log(sum(event.log_click for event in my_story)),
        "clicked before the log": float(any(event.clicked and event.view.past for event in my_story)),
        "hours since shown to user": _hours(now, max(shown_before, default=None)),
        "similarity to clicks": _similarity(about, clicks, now, math.inf, stories),
        "similarity to recent clicks": _similarity(about, clicks, now, recent, stories),
        "similarity to recent skips": _similarity(about, skips, now, recent, stories),
        "similarity to page": float(np.dot(about.vector, stories[view.page].vector)),
        "category of page": float(0 < about.category == stories[view.page].category),
        "clicks from page": _log(sum(e.log_click and e.view.page == view.page > 0 for e in same)),
        "clicks after last click": _log(sum(e.log_click and e.after == last > 0 for e in same)),
        "has text": float(any(about.vector)),
        "similarity to taste": sum(float(np.dot(about.taste, stories[e.story].taste)) for e in clicks) / my_clicks,
    }


def _visits(view: View, story: int, earlier: list[View]) -> dict[str, float]:
    """Page views of the story's own page, and those of users who had neither visited nor clicked it before."""
    visits = [other for other in earlier if other.page == story and not other.past]
    firsts = [one for one in visits if not _known_to(one, story, earlier)]
    columns = {
        f"{name} {life}": _log(sum(0.5 ** ((view.time - one.time) / LIVES[life]) for one in some))
        for life in ("8 h", "48 h")
        for name, some in (("visits", visits), ("first visits", firsts))
    }
    since = _remembered_since(story, earlier, view.time)
    mine = [one for one in visits if one.user == view.user and one.time >= since]
    return columns | {"times visited by user": _log(len(mine))}


def _known_to(visit: View, story: int, earlier: list[View]) -> bool:
    """Whether the user of a visit had visited or clicked the story in an earlier second that is not forgotten."""
    before = [one for one in earlier if one.time < visit.time]
    since = _remembered_since(story, before, visit.time)
    mine = [one for one in before if one.user == visit.user and one.time >= since]
    return any((one.page == story and not one.past) or story in _clicked(one) for one in mine)


def _clicked(view: View) -> list[int]:
    return [story for story, clicked in zip(view.stories, view.clicked, strict=True) if clicked]


def _remembered_since(story: int, earlier: list[View], now: int) -> int:
    """The first second after the last midnight at which nobody had seen, clicked or visited it for three days."""
    following = now
    for view in reversed(earlier):
        rows = zip(view.stories, view.clicked, view.skipped, strict=True)
        told = any(one == story and (clicked or skipped) for one, clicked, skipped in rows)
        if told or (view.page == story and not view.past):
            if view.time < following // 86_400 * 86_400 - 3 * 86_400:
                break
            following = view.time
    return following


def _similarity(about: Story, events: list[Event], now: int, life: float, stories: list[Story]) -> float:
    """The cosine of the story's vector with the decayed sum of those of the events."""
    total = np.zeros(len(about.vector))
    for event in events:
        total += 0.5 ** ((now - event.view.time) / life) * np.array(stories[event.story].vector)
    length = float(np.linalg.norm(total))
    return float(np.dot(about.vector, total)) / length if length else 0.0


def _similarity_to_readers(view: View, story: int, views: list[View], vectors: list[tuple[float, ...]]) -> float:
    """The product of the user's taste with the decayed sum of those of the earlier readers of the story."""
    taste, total, count = _taste(view, views, vectors), 0.0, 0.0
    for other in views:
        if other.time < view.time and not other.past:
            clicked = [one for one, is_clicked in zip(other.stories, other.clicked, strict=True) if is_clicked]
            weight = clicked.count(story) * 0.5 ** ((view.time - other.time) / 86_400)
            if weight:
                total += weight * float(np.dot(taste, _taste(other, views, vectors)))
                count += weight
    return total / (count + 1)


def _taste(view: View, views: list[View], vectors: list[tuple[float, ...]]) -> NDArray[np.float64]:
    """The direction of the user's clicks so far, minus the mean over all earlier page views, as a unit vector."""
    own = _direction(view, views, vectors)
    earlier = [_direction(other, views, vectors) for other in views if other.time < view.time and not other.past]
    difference = own - np.mean(earlier, axis=0) if own.any() and earlier else own
    return difference / max(float(np.linalg.norm(difference)), 0.05)


def _direction(view: View, views: list[View], vectors: list[tuple[float, ...]]) -> NDArray[np.float64]:
    total = np.zeros(len(vectors[0]))
    for other in views:
        if other.user == view.user and other.time < view.time:
            for one, is_clicked in zip(other.stories, other.clicked, strict=True):
                total += np.multiply(vectors[one], is_clicked)
    length = float(np.linalg.norm(total))
    return total / length if length else total

"""The day after the log of a live site: its stories, and readers who react to whatever they are shown.

The stories and readers of the log are made again from its settings; the log tells what each reader has clicked and
skipped so far. Somebody else ranks.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from drpn.errors import LogError
from drpn.logs.simulate.live import DEVICES, LiveSite, Sessions, make_sessions
from drpn.logs.simulate.readers import VISIT_HOURS, Readers, make_readers, visit_times
from drpn.logs.simulate.settings import SimulationSettings
from drpn.logs.simulate.stories import LIFE_IN_FADES, Stories, make_stories, with_next_day
from drpn.logs.simulate.write import FIRST_DAY

_DAY = 86_400
_CHOICE = 60
"""Stories to choose from: enough for pages of every length."""


@dataclass(frozen=True)
class NextStory:
    """A story of the next day."""

    news_id: str
    title: str
    category: str
    subcategory: str
    abstract: str
    published: datetime
    expires: datetime
    """When it leaves the front page."""


class Visit(NamedTuple):
    """A reader who wants to see a page."""

    moment: datetime
    user_id: str
    device: str
    session: str
    started: datetime
    """Start of the session."""
    page: str | None
    """The story whose page it is; None for the front page."""
    length: int
    """How many stories the page lists."""


class NextDay:
    """The stories and visits of the day after a log."""

    def __init__(self, logs: Path) -> None:
        """Read a folder that `simulate` wrote with a live preset."""
        settings = _read_settings(logs)
        rng = np.random.default_rng(settings.seed)
        logged = make_stories(rng, settings.stories, settings.days, None, settings.newsroom)
        readers = make_readers(rng, logged.topics, settings.users, settings.days, settings.newsroom)
        make_sessions(rng, readers, *visit_times(rng, readers, settings.days))
        half_life = LiveSite(rng, logged, readers, settings).half_life
        self._rng = rng = np.random.default_rng([settings.seed, settings.days])
        self._stories = stories = with_next_day(rng, logged, settings.days, settings.newsroom)
        self._site = LiveSite(rng, stories, readers, replace(settings, days=settings.days + 1))
        self._site.half_life[: len(logged)] = half_life
        user, story, clicked, device = _read_log(logs / "impressions.parquet", len(readers), len(logged))
        self._site.remember(user, story, clicked)
        usual = np.zeros(len(readers), np.int64)
        usual[user] = device  # rows are in time order: the last one stays
        self.start = FIRST_DAY.replace(tzinfo=UTC) + timedelta(days=settings.days)
        self.end = self.start + timedelta(days=1)
        self.stories = self._describe(range(len(logged), len(stories)), stories)
        """The stories of the day, in the order of publication."""
        sessions = _day_sessions(rng, readers, settings.days)
        self.visits = self._first_visits(replace(sessions, device=usual[sessions.user]))
        """The first page view of each session, in time order."""

    def react(self, visit: Visit, listed: Sequence[str]) -> tuple[list[str], Visit | None]:
        """The stories of a list that the reader clicks, and the reader's next page view, if any."""
        story = np.array([_number(news_id) for news_id in listed], np.int64)
        user, second = np.array([_number(visit.user_id)]), np.array([self._second(visit.moment)])
        article = np.array([-1 if visit.page is None else _number(visit.page)])
        seen = self._site.look(self._rng, user, second, article, np.zeros(len(story), np.int64), story)
        clicked = story[seen.clicked]
        last = np.array([clicked[-1] if len(clicked) else -1])
        started = np.array([self._second(visit.started)])
        goes_on, later, page = self._site.next_views(self._rng, started, second, last)
        following = None
        if goes_on[0]:
            following = visit._replace(
                moment=self._moment(int(later[0])),
                page=None if page[0] < 0 else _news_id(int(page[0])),
                length=self._length(),
            )
        return [_news_id(row) for row in clicked.tolist()], following

    def _first_visits(self, sessions: Sessions) -> list[Visit]:
        visits = []
        columns = (sessions.user.tolist(), sessions.second.tolist(), sessions.device.tolist())
        for number, (user, second, device) in enumerate(zip(*columns, strict=True), 1):
            moment = self._moment(second)
            visits.append(Visit(moment, f"U{user + 1}", DEVICES[device], f"T{number}", moment, None, self._length()))
        return visits

    def _describe(self, rows: range, stories: Stories) -> list[NextStory]:
        topics = stories.topics
        return [
            NextStory(
                _news_id(row),
                stories.titles[row],
                topics.topics[topics.topic_of[stories.subtopic[row]]],
                topics.subtopics[stories.subtopic[row]],
                stories.abstracts[row],
                published := self._moment(round(3600 * stories.born[row])),
                published + timedelta(hours=LIFE_IN_FADES * float(stories.fade[row])),
            )
            for row in rows
        ]

    def _length(self) -> int:
        return int(self._site.length(self._rng, 1, _CHOICE)[0])

    def _moment(self, second: int) -> datetime:
        """Seconds from the start of the log as a time."""
        return FIRST_DAY.replace(tzinfo=UTC) + timedelta(seconds=second)

    def _second(self, moment: datetime) -> int:
        return int((moment - FIRST_DAY.replace(tzinfo=UTC)).total_seconds())


def _day_sessions(rng: np.random.Generator, readers: Readers, days: int) -> Sessions:
    """The sessions of the day after a log of some days; each reader comes as often as on a day of the log."""
    user = np.repeat(np.arange(len(readers)), rng.binomial(readers.visits, 1 / days))
    hour = rng.choice(24, size=len(user), p=VISIT_HOURS / VISIT_HOURS.sum())
    second = days * _DAY + hour * 3600 + rng.integers(3600, size=len(user))
    order = np.argsort(second, kind="stable")
    return make_sessions(rng, readers, user[order], second[order])


def _read_settings(logs: Path) -> SimulationSettings:
    file = logs / "simulation.json"
    try:
        summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        settings = SimulationSettings(**summary["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LogError(
            f"{file} cannot be read; readers who react are there for simulated logs alone",
            hint="simulate some: drpn simulate LOGS --preset live",
        ) from error
    if settings.newsroom.live is None or summary.get("titles") != "invented":
        raise LogError(
            f"{logs} is no simulated live site with invented titles; readers can only react on such a site",
            hint="simulate one: drpn simulate LOGS --preset live",
        )
    return settings


def _read_log(
    file: Path, users: int, stories: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """User, story, whether it was clicked, and device of every row of a log."""
    try:
        table = pq.read_table(file, columns=["user_id", "news_id", "clicked", "device"])
    except (OSError, pa.ArrowInvalid) as error:
        raise LogError(f"{file} cannot be read: {error}; simulate the log again") from error
    numbers = [
        pc.cast(pc.utf8_slice_codeunits(table[name], 1), pa.int64()).to_numpy() - 1 for name in ("user_id", "news_id")
    ]
    if any(len(some) and some.max() >= most for some, most in zip(numbers, (users, stories), strict=True)):
        raise LogError(f"{file} does not fit simulation.json next to it; simulate the log again")
    device = pc.index_in(table["device"], value_set=pa.array(DEVICES)).to_numpy().astype(np.int64)
    return numbers[0], numbers[1], table["clicked"].to_numpy(), device


def _news_id(row: int) -> str:
    return f"N{row + 1}"


def _number(text: str) -> int:
    """The row of a user or story."""
    return int(text[1:]) - 1

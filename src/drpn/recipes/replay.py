"""Let the readers of a simulated site's next day visit a running service, as a client over HTTP.

Stories are put when they are published. A reader asks for a ranking, sees the list that the service returns, and
clicks by the rules of the simulator; the page view and the clicks are reported. The day runs fast.
"""

import heapq
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from drpn.logs.simulate.next_day import NextDay, NextStory, Visit
from drpn.progress import Progress

_SURFACES = {True: "front page", False: "article page"}
_TIMEOUT, _PAUSE = 30, 0.5
"""Seconds to wait for an answer, and before a request is sent once more."""


class FastClock:
    """A clock that stands at a start, runs fast to an end once it has begun, and then goes on as time does."""

    def __init__(self, start: datetime, end: datetime, seconds: float) -> None:
        """It takes `seconds` of real time from `start` to `end`."""
        self._start, self._end, self._seconds = start, end, seconds
        self._speed = (end - start).total_seconds() / seconds
        self._began: float | None = None

    def begin(self) -> None:
        """Start to run."""
        self._began = time.monotonic()

    def __call__(self) -> datetime:
        passed = 0.0 if self._began is None else time.monotonic() - self._began
        if passed < self._seconds:
            return self._start + timedelta(seconds=self._speed * passed)
        return self._end + timedelta(seconds=passed - self._seconds)

    def seconds_until(self, moment: datetime) -> float:
        """Real seconds until a moment of the day; 0 or less if it has passed."""
        return (moment - self()).total_seconds() / self._speed


@dataclass
class Replayed:
    """Counts of the readers' visits so far."""

    views: int = 0
    shown: int = 0
    clicks: int = 0
    stories: int = 0
    failed: int = 0
    """Requests that the service refused or did not answer."""
    over: bool = False
    """Whether the whole day has passed."""


class Replay:
    """The readers of one day, who visit a service from a thread of their own."""

    def __init__(self, day: NextDay, seconds: float, progress: Progress) -> None:
        """The day takes `seconds`; its `clock` is for the service."""
        self._day, self._progress = day, progress
        self.clock = FastClock(day.start, day.end, seconds)
        self.done = Replayed()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def frequent_reader(self) -> str:
        """The reader who comes most often on this day."""
        return Counter(visit.user_id for visit in self._day.visits).most_common(1)[0][0]

    def begin(self, url: str) -> None:
        """Start the clock and the readers, who visit the service at `url`."""
        self.clock.begin()
        self._thread = threading.Thread(target=self._run, args=(url,), daemon=True)
        self._thread.start()

    def end(self) -> Replayed:
        """Stop the readers, if they still come, and return what they did."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        return self.done

    def _run(self, url: str) -> None:
        service = _Service(url, self._stop)
        visits = len(self._day.visits)
        with self._progress.stage("visits of the next day", visits) as advance:
            try:
                for happening in self._happenings():
                    if isinstance(happening, Visit):
                        self._visit(service, happening)
                        advance(int(happening.moment == happening.started))
                    else:
                        self._publish(service, happening)
            except ConnectionError:
                return  # the service has stopped
            finally:
                service.close()
        self.done.over = not self._stop.is_set()
        if self.done.over:
            rate = self.done.clicks / max(1, self.done.shown)
            self._progress.note(
                f"the day is over: {self.done.views:,} page views, {self.done.clicks:,} clicks, "
                f"{100 * rate:.1f} % of the stories shown; the service goes on, Ctrl-C stops"
            )

    def _happenings(self) -> Iterator[NextStory | Visit]:
        """Publications and visits in the order of time, each when its moment has come."""
        numbers = count()
        self._queue: list[tuple[datetime, int, NextStory | Visit]] = [
            *((story.published, next(numbers), story) for story in self._day.stories),
            *((visit.moment, next(numbers), visit) for visit in self._day.visits),
        ]
        heapq.heapify(self._queue)
        while self._queue:
            moment, _, happening = self._queue[0]
            if self._stop.wait(max(0.0, self.clock.seconds_until(moment))):
                return
            heapq.heappop(self._queue)
            yield happening

    def _publish(self, service: "_Service", story: NextStory) -> None:
        body = {
            "news_id": story.news_id,
            "title": story.title,
            "category": story.category,
            "subcategory": story.subcategory,
            "abstract": story.abstract,
            "published": story.published.isoformat(),
            "expires": story.expires.isoformat(),
        }
        if self._count(service.call("PUT", "/v1/news", {"stories": [body]})):
            self.done.stories += 1

    def _visit(self, service: "_Service", visit: Visit) -> None:
        """Show a reader the list of the service, and report what happens."""
        about: dict[str, Any] = {"surface": _SURFACES[visit.page is None], "session": visit.session}
        if visit.page is not None:
            about["page"] = visit.page
        reader = {"user_id": visit.user_id}
        asked = {**reader, **about, "count": visit.length, "about": {"device": visit.device}}
        answer = self._count(service.call("POST", "/v1/rank", asked))
        listed = [story["news_id"] for story in answer["stories"]] if answer else []
        if not listed:
            return
        clicked, following = self._day.react(visit, listed)
        page = {**reader, "impression_id": answer["impression_id"]}
        shown = [{"news_id": news_id} for news_id in listed]
        self._count(service.call("POST", "/v1/impressions", {**page, **about, "device": visit.device, "shown": shown}))
        for news_id in clicked:
            self._count(service.call("POST", "/v1/clicks", {**page, "news_id": news_id}))
        self.done.views += 1
        self.done.shown += len(listed)
        self.done.clicks += len(clicked)
        if following is not None:
            heapq.heappush(self._queue, (following.moment, self.done.views + 10**9, following))

    def _count(self, answer: dict[str, Any] | None) -> dict[str, Any]:
        """The answer, or an empty one if the request failed."""
        self.done.failed += answer is None
        return answer or {}


class _Service:
    """A connection to the service, made again when it breaks."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT)
        self._stop = stop

    def call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The JSON answer; None if the service refused. Raises `ConnectionError` if it cannot be reached."""
        for last in (False, True):
            try:
                self._connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
                answer = self._connection.getresponse()
                content = answer.read()
                return dict(json.loads(content)) if answer.status < 300 else None
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if last or self._stop.wait(_PAUSE):
                    raise ConnectionError(f"the service does not answer at {path}") from error
        return None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

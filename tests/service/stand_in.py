"""A newsroom without a model: a real store, and rankings by the number of clicks. Tests of the HTTP edge use it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from drpn.errors import DrpnError, RunError, SettingsError
from drpn.service.requests import (
    Answer,
    ExplainedCandidate,
    ExplainedStory,
    Explanation,
    Influence,
    ListedStory,
    NewsroomFigures,
    RankRequest,
    UserView,
    VariantRate,
)
from drpn.store.base import Store
from drpn.store.records import Click, Impression, LoggedEvent, Receipt, Story


class StandIn:
    """Answers like a `Newsroom`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number = 0
        self.bundles = {"A": Path("first")}
        self.fails: DrpnError | Exception | None = None
        """Raised by the next calls."""
        self.never = False
        """Whether rankings never answer."""

    def submit(self, request: RankRequest) -> Future[Answer]:
        """Rank all live stories that the user did not click, in the order of their ids."""
        if self.fails is not None:
            raise self.fails
        future: Future[Answer] = Future()
        if self.never:
            return future
        user = None if request.reader is None else self._store.user(request.reader)
        if request.reader is not None:
            self._store.close_for(request.reader).result()
        live = {stored.story.news_id: stored.story for stored in self._store.stories() if stored.live(_now())}
        pool = live if request.candidates is None else dict.fromkeys(request.candidates)
        unknown = [name for name in pool if name not in live]
        hidden = {*request.exclude, *unknown, *(user.clicked if user else ())}
        chosen = sorted(name for name in pool if name not in hidden)[: request.count]
        self._number += 1
        stories = tuple(
            ListedStory(place, name, live[name].title, live[name].category or "", 1.0 / (1 + place), 1, "ranked", None)
            for place, name in enumerate(chosen)
        )
        notes = tuple(f"story '{name}' is not known" for name in unknown)
        impression = f"ranking-{self._number}" if request.reader else None
        known = bool(user and user.version)
        future.set_result(Answer(impression, request.user_id, known, "first", "A", _now(), stories, notes=notes))
        return future

    def explain(self, user_id: str, candidates: Sequence[str] | None = None, *, count: int = 10) -> Explanation:
        """Equal weights."""
        profile = self._store.user(user_id).profile
        clicked, skipped = (
            tuple(ExplainedStory(entry.news_id, "", "", None, {"semantic": 1 / len(side)}) for entry in reversed(side))
            for side in (profile.clicked, profile.skipped)
        )
        listed = self.submit(RankRequest(user_id, candidates and tuple(candidates), count=count)).result().stories
        influences = tuple(Influence(story.news_id, "clicked", 0.1) for story in clicked)
        ranked = tuple(
            ExplainedCandidate(row.news_id, row.title, row.category, row.score, influences) for row in listed
        )
        return Explanation(user_id, "first", "A", clicked, skipped, "semantic", ranked)

    def record(self, impression: Impression, *, key: str | None = None) -> Future[Receipt]:
        if self.fails is not None:
            raise self.fails
        return self._store.add_impression(impression, key=key)

    def click(self, click: Click, *, key: str | None = None) -> Future[Receipt]:
        return self._store.add_click(click, key=key)

    def put_news(self, stories: Sequence[Story], *, key: str | None = None) -> Future[Receipt]:
        return self._store.put_news(stories, key=key)

    def take_down(self, news_ids: Sequence[str], *, key: str | None = None) -> Future[Receipt]:
        return self._store.take_down(news_ids, key=key)

    def erase(self, user_id: str) -> Future[Receipt]:
        return self._store.erase(user_id)

    def user(self, user_id: str) -> UserView:
        state = self._store.user(user_id)
        return UserView(user_id, "A", state.version, state.profile, state.clicked, state.erased)

    def export_user(self, user_id: str) -> Iterator[LoggedEvent]:
        return self._store.user_events(user_id)

    def rates(self) -> list[VariantRate]:
        return [VariantRate('fi"rst\n', "A", 2, 10, 1, 0.1, 0.02, 0.4)]

    def figures(self) -> NewsroomFigures:
        return NewsroomFigures(self._number, *[0] * 8, self._store.last_sequence(), 0)

    def reload(self, path: Path, variant: str | None = None) -> None:
        if not (path / "manifest.json").is_file():
            raise RunError(f"{path} is not a bundle; train again")
        if variant is not None and variant not in self.bundles:
            raise SettingsError(f"there is no variant '{variant}'; choose another")
        self.bundles[variant or "A"] = path

    def close_stale(self, older_than_hours: float = 1.0) -> int:
        return self._store.close_before(_now() - timedelta(hours=older_than_hours)).result()

    def close(self) -> None:
        """Nothing waits."""


def _now() -> datetime:
    return datetime.now(UTC)


def as_newsroom(stand_in: StandIn) -> Any:
    """The stand-in, for signatures that take a `Newsroom`."""
    return stand_in

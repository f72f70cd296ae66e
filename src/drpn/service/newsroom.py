"""A running newsroom: bundles that rank, and a store that remembers.

Everything that rankings know comes from the bundles and from the log of the store, never from who handled a request:
several processes may share a store. A newsroom follows the log before each ranking.
"""

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

from drpn.bundle.card import card, trained
from drpn.bundle.files import CARD
from drpn.errors import RunError, SettingsError
from drpn.service.desk import Desk, ScoreRequest
from drpn.service.explaining import explain
from drpn.service.ranker import Ranker
from drpn.service.ranking import listed
from drpn.service.rates import click_rates
from drpn.service.requests import (
    Answer,
    Explanation,
    Moved,
    NewsroomFigures,
    RankRequest,
    UserView,
    VariantRate,
)
from drpn.service.settings import NewsroomSettings
from drpn.service.signing import KEY_BYTES, is_signed
from drpn.service.trying import moved, open_views, tried_view
from drpn.service.variants import Shares, Variant
from drpn.store.base import Store
from drpn.store.opening import server_time
from drpn.store.records import Click, Impression, LoggedEvent, Receipt, Story, as_utc, check_id

_EVENTS_AT_ONCE = 1000


class OpenedBundle(NamedTuple):
    """A bundle that is up to date, and the variant that it is for."""

    variant: str
    desk: Desk


class Newsroom:
    """Ranks with one or two bundles, and stores feedback, which the next ranking knows.

    All methods may be called from any thread. Those that return a future do not block: `asyncio.wrap_future` awaits it.
    """

    def __init__(
        self,
        variants: Sequence[Variant],
        store: Store,
        settings: NewsroomSettings | None = None,
        *,
        key: bytes | None = None,
        clock: Callable[[], datetime] = server_time,
        shared: Path | None = None,
    ) -> None:
        """Open the bundles, seed an empty store with the profiles of the first, and follow the log to its end.

        Users are split among the variants by a hash of their id; the shares sum to 1. `key` signs impression ids; all
        processes that share a store need the same one (`signing.load_key`). Without it, ids are valid until this
        process ends. Processes that share a folder `shared` keep one copy of the encoded stories. The store stays open
        when the newsroom is closed.
        """
        self._shares, self.settings = Shares(variants), settings or NewsroomSettings()
        self._store, self._clock, self._shared = store, clock, shared
        self._lock, self._reloading = threading.RLock(), threading.Lock()
        self._sequence = store.last_sequence()
        self._desks = {variant.name: self._open(variant.bundle) for variant in variants}
        store.seed(self._desks[self._shares.first].seeds())
        self._ranker = Ranker(
            self._desks,
            self._shares,
            store,
            self.settings,
            key=key or secrets.token_bytes(KEY_BYTES),
            clock=clock,
            lock=self._lock,
            follow=self._follow,
        )
        self.catch_up()
        for name, desk in self._desks.items():
            self._ranker.fallback.refresh(name, desk, as_utc(clock()))

    # rankings

    def rank(self, request: RankRequest) -> Answer:
        """Rank now; raises `OverloadError` if too many requests wait, and `SettingsError` if it cannot be answered."""
        return self.submit(request).result()

    def submit(self, request: RankRequest) -> Future[Answer]:
        """`rank` without waiting. The future always resolves within about `settings.seconds`, if need be with a
        fallback. Raises `OverloadError`, which carries `retry_after` in seconds, at once."""
        if request.count > self.settings.most_stories:
            raise SettingsError(f"count is {request.count:,}; it takes at most {self.settings.most_stories:,}")
        if request.candidates is not None and len(request.candidates) > self.settings.most_candidates:
            raise SettingsError(
                f"there are {len(request.candidates):,} candidates; it takes at most {self.settings.most_candidates:,}"
            )
        if request.reader is not None:
            check_id("user_id", request.reader)
        return self._ranker.submit(request)

    def explain(self, user_id: str, candidates: Sequence[str] | None = None, *, count: int = 10) -> Explanation:
        """The weights of the user's stories, and for each candidate those that move its score most.

        Without candidates, those that rank first. Nothing is stored.
        """
        check_id("user_id", user_id)
        with self._lock:
            self._follow()
            chosen = None if candidates is None else tuple(candidates)
            prepared = self._ranker.prepare(RankRequest(user_id, chosen, count=count), self._clock())
            if chosen is None:
                stories, _ = listed(prepared, prepared.desk.scores([prepared.asked])[0])
                first = prepared.desk.stories.pool([story.news_id for story in stories])
                prepared = replace(prepared, asked=prepared.asked._replace(pool=first))
            assert prepared.known is not None
            known, asked = prepared.known, prepared.asked
            return explain(prepared.desk, prepared.variant, user_id, known, asked, prepared.skipped)

    def try_out(
        self,
        user_id: str,
        *,
        clicked: Sequence[str] = (),
        skipped: Sequence[str] = (),
        request: RankRequest | None = None,
    ) -> tuple[Moved, ...]:
        """The first stories of the next ranking, before and after a page view with these clicks and skips; nothing is
        stored. Stories are in their order after.

        As the next request of the user does, it takes open page views as closed.
        """
        check_id("user_id", user_id)
        request = replace(request or RankRequest(), user_id=user_id, personalize=True)
        with self._lock:
            self._follow()
            now = as_utc(self._clock())
            moment = as_utc(request.moment or now)
            desk = self._desks[self.variant_of(user_id)]
            waiting = open_views(self._store, user_id, moment)
            tried = tried_view(desk, request, clicked, skipped, moment)
            both = [self._ranker.prepare(request, now, views) for views in (waiting, (*waiting, *tried))]
            scores = desk.scores([one.asked for one in both], keep=False)
            everything = replace(request, count=len(both[0].asked.pool))
            before, after = (
                listed(replace(one, request=everything), some)[0] for one, some in zip(both, scores, strict=True)
            )
        return moved(before, after[: request.count], both[1].skipped)

    # changes; all are durable when the future resolves, and known to the next ranking

    def record(self, impression: Impression, *, key: str | None = None) -> Future[Receipt]:
        """Store a page view. An impression id that a ranking returned is checked (`ImpressionIdError` if it is forged,
        expired or of another user) and fills in bundle and variant; other ids are the site's own."""
        if is_signed(impression.impression_id):
            issued = self._ranker.signer.check(impression.impression_id, impression.user_id, as_utc(self._clock()))
            impression = replace(impression, bundle=issued.bundle, variant=issued.variant)
        else:
            impression = replace(impression, bundle=None, variant=None)
        return self._store.add_impression(impression, key=key)

    def click(self, click: Click, *, key: str | None = None) -> Future[Receipt]:
        """Store a click on an earlier impression; ids are checked as in `record`, without the expiry."""
        if is_signed(click.impression_id):
            self._ranker.signer.check(click.impression_id, click.user_id, None)
        return self._store.add_click(click, key=key)

    def put_news(self, stories: Sequence[Story], *, key: str | None = None) -> Future[Receipt]:
        """Add or replace stories; the next ranking has them."""
        return self._store.put_news(stories, key=key)

    def take_down(self, news_ids: Sequence[str], *, key: str | None = None) -> Future[Receipt]:
        """Take stories down; no ranking has them until they are put again."""
        return self._store.take_down(news_ids, key=key)

    def erase(self, user_id: str) -> Future[Receipt]:
        """Erase a user from the store, from memory, and from what rankings use of the bundle."""
        return self._store.erase(user_id)

    # questions

    def user(self, user_id: str) -> UserView:
        """Profile and clicks of a user."""
        state = self._store.user(user_id)
        return UserView(user_id, self.variant_of(user_id), state.version, state.profile, state.clicked, state.erased)

    def export_user(self, user_id: str) -> Iterator[LoggedEvent]:
        """All events of a user, to hand to the user."""
        return self._store.user_events(user_id)

    def variant_of(self, user_id: str | None) -> str:
        """The variant that ranks for a user; the first one without a user."""
        return self._shares.variant_of(user_id)

    def rates(self) -> list[VariantRate]:
        """Click rates by bundle and variant."""
        return click_rates(self._store.variant_counts())

    def figures(self) -> NewsroomFigures:
        """Counts of this process since it started, for `/metrics`."""
        desks = list(self._desks.values())
        return NewsroomFigures(
            rankings=self._ranker.rankings,
            fallbacks=self._ranker.fallbacks,
            refused=self._ranker.batcher.refused,
            waiting=self._ranker.batcher.waiting,
            batches=self._ranker.batcher.batches,
            live_stories=len(desks[0].stories),
            cached_readers=sum(desk.cached for desk in desks),
            reader_hits=sum(desk.hits for desk in desks),
            reader_misses=sum(desk.misses for desk in desks),
            last_sequence=self._sequence,
            dropped_rankings=self._ranker.dropped,
        )

    def watch(self, counted: Callable[[], None]) -> None:
        """Call a function, from any thread, soon after rankings changed the figures; it must be quick."""
        self._ranker.counted = counted

    @property
    def bundles(self) -> dict[str, Path]:
        """The bundle of each variant."""
        return {name: desk.path for name, desk in self._desks.items()}

    def card(self, variant: str | None = None) -> str:
        """The model card of a variant's bundle, as Markdown; of the first variant by default."""
        desk = self._desk(variant)
        file = desk.path / CARD
        return file.read_text(encoding="utf-8") if file.exists() else card(desk.bundle.manifest)

    def trained(self, variant: str) -> datetime | None:
        """When the training of a variant's bundle ended, UTC; None if the bundle does not say."""
        return trained(self._desk(variant).bundle.manifest)

    # running

    def reload(self, path: Path, variant: str | None = None) -> None:
        """Replace the bundle of a variant, the first by default, without losing a request. Blocks until it serves.

        The new bundle is opened, checked and brought up to date first. If that fails (`RunError`), the old one stays.
        """
        with self._reloading:
            self.swap(self.open_bundle(path, variant))

    def open_bundle(self, path: Path, variant: str | None = None) -> OpenedBundle:
        """The first half of `reload`: open and check a bundle, which does not rank yet."""
        name = self._shares.first if variant is None else variant
        self._desk(name)
        return OpenedBundle(name, self._open(path))

    def swap(self, opened: OpenedBundle) -> None:
        """The second half of `reload`: rank with a bundle that was opened."""
        with self._lock:
            opened.desk.follow()
            self._desks[opened.variant] = opened.desk
            self._ranker.fallback.refresh(opened.variant, opened.desk, as_utc(self._clock()), force=True)

    def catch_up(self) -> int:
        """Follow the log of the store to its end; returns the number of the newest event. Rankings do this first."""
        with self._lock:
            self._follow()
            return self._sequence

    def close_stale(self, older_than_hours: float = 1.0) -> int:
        """Close open impressions of users who did not come back; returns how many. Call it from time to time."""
        moment, closed = as_utc(self._clock()) - timedelta(hours=older_than_hours), 0
        while some := self._store.close_before(moment).result():
            closed += some
        return closed

    def close(self) -> None:
        """Answer what waits, then stop; the store stays open."""
        self._ranker.batcher.close()

    def _open(self, path: Path) -> Desk:
        """A bundle that is up to date with the store and gives finite scores."""
        desk = Desk(path, self._store, cached_readers=self.settings.cached_readers, shared=self._shared)
        live = desk.stories.live()
        first = desk.stories.pool(live.news_ids[:100])
        asked = ScoreRequest(None, desk.profile(None, None), first, int(self._clock().timestamp()), None, {})
        if not np.isfinite(desk.scores([asked], keep=False)[0]).all():
            raise RunError(f"the model of {path} gives scores that are not finite; train again")
        return desk

    def _desk(self, variant: str | None) -> Desk:
        name = self._shares.first if variant is None else variant
        if name not in self._desks:
            raise SettingsError(f"there is no variant '{name}'; choose from {', '.join(self._desks)}")
        return self._desks[name]

    def _follow(self) -> None:
        """Apply what is new in the log."""
        while events := self._store.events_after(self._sequence, limit=_EVENTS_AT_ONCE):
            for desk in self._desks.values():
                desk.apply(events)
            for event in events:
                self._ranker.users.apply(event.what)
            self._sequence = events[-1].sequence

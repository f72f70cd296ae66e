"""Answers the ranking requests of a newsroom, in batches."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta

from drpn.errors import DrpnError, OverloadError, StoreError
from drpn.service.batching import Batcher, Waiting
from drpn.service.desk import Desk
from drpn.service.fallback import Fallback
from drpn.service.faults import place_of
from drpn.service.ranking import Prepared, answer, prepare
from drpn.service.requests import Answer, RankRequest
from drpn.service.settings import NewsroomSettings
from drpn.service.signing import Signer
from drpn.service.skips import SkipRule
from drpn.service.trying import as_if_closed
from drpn.service.users import Users
from drpn.service.variants import Shares
from drpn.store.base import Store
from drpn.store.records import Impression, LoggedRanking, as_utc

_LOG = logging.getLogger("drpn.service.ranker")

Job = Waiting[RankRequest, Answer]
Answered = tuple[Job, Answer, LoggedRanking]


class Ranker:
    """Scores requests together, and answers those that take too long with popular stories."""

    def __init__(
        self,
        desks: Mapping[str, Desk],
        shares: Shares,
        store: Store,
        settings: NewsroomSettings,
        *,
        key: bytes,
        clock: Callable[[], datetime],
        lock: threading.RLock,
        follow: Callable[[], None],
    ) -> None:
        """`desks` has the current bundle of each variant; reloads replace entries. A batch holds `lock`, and calls
        `follow` to know what was stored before it."""
        self._desks, self._shares, self._store, self._settings = desks, shares, store, settings
        self._clock, self._lock, self._follow = clock, lock, follow
        self.signer = Signer(key, timedelta(hours=settings.impression_hours))
        self._skip_rule = SkipRule(settings.skip_discount, settings.skip_half_life_hours)
        self.users = Users(store, settings.cached_users)
        self.fallback = Fallback()
        self.rankings = self.fallbacks = self.dropped = 0
        """Answers by the model, answers by popularity, and rankings that were not logged because the store was too
        busy."""
        self._counting = threading.Lock()
        self.counted: Callable[[], None] = lambda: None
        """Called soon after these figures changed."""
        self.batcher: Batcher[RankRequest, Answer] = Batcher(
            self._run,
            self._answer_overdue,
            seconds=settings.seconds,
            waiting=settings.waiting,
            batch=settings.batch,
            batch_seconds=settings.batch_seconds,
        )

    def submit(self, request: RankRequest) -> Future[Answer]:
        """Queue a request; return the future of its answer. Raises `OverloadError` if too many wait."""
        try:
            return self.batcher.submit(request)
        except OverloadError:
            self.counted()
            raise

    def prepare(self, request: RankRequest, now: datetime, views: Sequence[Impression] = ()) -> Prepared:
        """Prepare a request, as if the user had some other page views, too."""
        variant = self._shares.variant_of(request.reader)
        known = None if request.reader is None else self.users.as_if_closed(request.reader, views)
        prepared = prepare(request, variant, self._desks[variant], known, now, self._skip_rule)
        return as_if_closed(prepared, views) if views else prepared

    def _run(self, jobs: list[Job]) -> None:
        """Answer a batch of requests; those whose user has open impressions wait until these are closed."""
        with self._lock:
            self._follow()
            now = as_utc(self._clock())
            groups = self._groups(jobs, now)
            answers = [answered for group in groups.values() for answered in self._rank(group, now)]
            for name in groups:
                self.fallback.refresh(name, self._desks[name], now)
        # together: each answer wakes the thread of the callers, which then waits for this one
        logged = [ranking for job, given, ranking in answers if job.answer(given)]
        with self._counting:
            self.rankings += len(logged)
        self._log(logged)
        self.counted()

    def _groups(self, jobs: list[Job], now: datetime) -> dict[str, list[tuple[Job, Prepared]]]:
        """The requests that can be ranked now, by variant."""
        groups: dict[str, list[tuple[Job, Prepared]]] = {}
        for job in jobs:
            try:
                if job.put_back or not self._close_first(job, now):
                    prepared = self.prepare(job.job, now)
                    groups.setdefault(prepared.variant, []).append((job, prepared))
            except Exception as error:  # the fault of one request is its own answer
                job.fail(error)
        return groups

    def _rank(self, group: list[tuple[Job, Prepared]], now: datetime) -> list[Answered]:
        """Rank for the requests of one variant; those that fail get their errors, the others are returned."""
        desk = group[0][1].desk
        try:
            scores = desk.scores([prepared.asked for _, prepared in group])
        except DrpnError as error:
            for job, _ in group:
                job.fail(error)
            return []
        except Exception as error:  # a model that fails must not take the page with it
            _LOG.error("the model of %s failed: %s; popular stories are shown", desk.name, place_of(error))
            for job, _ in group:
                self.batcher.answer_overdue(job)
            return []
        answers = []
        for (job, prepared), some in zip(group, scores, strict=True):
            try:
                given, ranking = answer(prepared, some, self.signer, now)
            except Exception as error:  # the fault of one request is its own answer
                job.fail(error)
            else:
                answers.append((job, given, ranking))
        return answers

    def _close_first(self, job: Job, now: datetime) -> bool:
        """Close the open impressions of the user of a request, which is then put back; False if there are none."""
        user = job.job.reader
        if user is None or not self.users.get(user).open:
            return False
        try:
            closing = self._store.close_for(user, job.job.moment or now)
        except StoreError:  # too busy to write: a ranking that does not know the last skips is better than none
            return False
        closing.add_done_callback(lambda _done: self.batcher.put_back(job))
        return True

    def _log(self, rankings: Sequence[LoggedRanking]) -> None:
        if not rankings:
            return
        try:
            dropped = self._store.append_rankings(rankings)
        except StoreError:
            dropped = len(rankings)
        with self._counting:
            self.dropped += dropped

    def _answer_overdue(self, job: Job) -> None:
        """Answer with the stories that are clicked most."""
        request, now = job.job, as_utc(self._clock())
        variant = self._shares.variant_of(request.reader)
        hidden, known = frozenset[str](), None
        if request.reader is not None:
            known = self.users.peek(request.reader)
            hidden = self._store.user(request.reader).clicked if known is None else known.clicked
        prepared, clicks = self.fallback.prepare(request, variant, self._desks[variant], known, hidden, now)
        given, ranking = answer(prepared, clicks, self.signer, now, fallback=True)
        if job.answer(given):
            with self._counting:
                self.fallbacks += 1
            self._log([ranking])
            self.counted()

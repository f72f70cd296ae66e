"""A store in a database: the methods of `Store` as changes for the writer and questions to readers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Protocol

from drpn.store.encoding import encode, encode_story
from drpn.store.moments import microseconds
from drpn.store.records import (
    Click,
    Closed,
    Impression,
    KeyRecord,
    LoggedEvent,
    LoggedRanking,
    QueueFigures,
    Receipt,
    Seed,
    StoredImpression,
    StoredStory,
    StoreFigures,
    Story,
    UserState,
    VariantCounts,
    as_utc,
    check_id,
    check_text,
)
from drpn.store.settings import StoreSettings
from drpn.store.sql import queries
from drpn.store.sql.changes import Changes
from drpn.store.sql.dialect import Connection
from drpn.store.sql.retention import delete_expired
from drpn.store.sql.writer import GroupWriter, Session


class Readers(Protocol):
    """Connections that read."""

    def connection(self) -> AbstractContextManager[Connection]:
        """A connection that sees the store as of one moment."""

    def statement(self) -> AbstractContextManager[Connection]:
        """A connection for one statement, which is quicker."""

    def close(self) -> None:
        """Close all connections."""


class SqlStore(ABC):
    """A `Store` in a database; see there for what its methods do."""

    def __init__(
        self,
        settings: StoreSettings,
        clock: Callable[[], datetime],
        *,
        changes: Changes,
        readers: Readers,
        session: Session,
    ) -> None:
        self.settings, self._clock = settings, clock
        self._changes, self._readers, self._dialect = changes, readers, changes.dialect
        self._writer = GroupWriter(
            session,
            waiting=settings.waiting,
            group=settings.group,
            later=changes.log_rankings,
            later_waiting=settings.rankings_waiting,
            later_seconds=settings.ranking_seconds,
        )

    # changes

    def add_impression(self, impression: Impression, *, key: str | None = None) -> Future[Receipt]:
        check_text("key", key)

        def change(connection: Connection) -> Receipt:
            return self._changes.once(
                connection,
                key,
                lambda: f"impression\0{impression.user_id}\0{encode(impression)}",
                lambda: self._changes.add_impression(connection, impression),
            )

        return self._writer.submit(change)

    def add_click(self, click: Click, *, key: str | None = None) -> Future[Receipt]:
        check_text("key", key)

        def change(connection: Connection) -> Receipt:
            time = "" if click.time is None else microseconds(click.time)
            content = f"click\0{click.user_id}\0{click.impression_id}\0{click.news_id}\0{time}"
            return self._changes.once(
                connection, key, lambda: content, lambda: self._changes.add_click(connection, click)
            )

        return self._writer.submit(change)

    def close_for(self, user_id: str, now: datetime | None = None) -> Future[tuple[Closed, ...]]:
        check_id("user_id", user_id)
        return self._writer.submit(lambda connection: self._changes.close_for(connection, user_id, now))

    def close_before(self, moment: datetime, *, limit: int = 500) -> Future[int]:
        return self._writer.submit(lambda connection: self._changes.close_before(connection, moment, limit))

    def put_news(self, stories: Sequence[Story], *, key: str | None = None) -> Future[Receipt]:
        stories = tuple(stories)
        check_text("key", key)

        def change(connection: Connection) -> Receipt:
            return self._changes.once(
                connection,
                key,
                lambda: "\0".join(["news", *map(encode_story, stories)]),
                lambda: self._changes.put_news(connection, stories),
            )

        return self._writer.submit(change)

    def take_down(self, news_ids: Sequence[str], *, key: str | None = None) -> Future[Receipt]:
        news_ids = tuple(news_ids)
        for news_id in news_ids:
            check_id("news_id", news_id)
        check_text("key", key)

        def change(connection: Connection) -> Receipt:
            return self._changes.once(
                connection,
                key,
                lambda: "\0".join(["takedown", *news_ids]),
                lambda: self._changes.take_down(connection, news_ids),
            )

        return self._writer.submit(change)

    def erase(self, user_id: str) -> Future[Receipt]:
        check_id("user_id", user_id)
        return self._writer.submit(lambda connection: self._changes.erase(connection, user_id), wipe=True)

    def seed(self, users: Iterable[Seed], *, batch: int = 1000) -> bool:
        if self._writer.submit(self._changes.seed_state).result() == "done":
            return False
        remaining = iter(users)
        while seeds := list(islice(remaining, batch)):
            self._writer.submit(partial(self._changes.seed, seeds=seeds)).result()
        self._writer.submit(self._changes.finish_seed).result()
        return True

    def append_rankings(self, rankings: Sequence[LoggedRanking]) -> int:
        return self._writer.append(rankings)

    def delete_expired(self, now: datetime | None = None, *, limit: int = 500) -> Future[int]:
        moment = as_utc(now or self._clock())
        return self._writer.submit(
            lambda connection: delete_expired(connection, self._changes, self.settings, moment, limit)
        )

    # the log

    def last_sequence(self) -> int:
        with self._readers.statement() as connection:
            return queries.last_sequence(connection, self._dialect)

    def events_after(self, sequence: int, *, limit: int = 1000) -> list[LoggedEvent]:
        with self._readers.statement() as connection:
            return queries.events_after(connection, self._dialect, sequence, limit)

    def sequence_at(self, moment: datetime) -> int:
        with self._readers.connection() as connection:
            return queries.sequence_at(connection, self._dialect, moment)

    # questions

    def user(self, user_id: str, *, also: Sequence[Impression] = ()) -> UserState:
        check_id("user_id", user_id)
        with self._readers.connection() as connection:
            return queries.user_state(connection, user_id, self._changes.keyed_hash("user", user_id), also)

    def version(self, user_id: str) -> int:
        check_id("user_id", user_id)
        with self._readers.statement() as connection:
            return queries.version(connection, user_id)

    def is_erased(self, user_id: str) -> bool:
        check_id("user_id", user_id)
        with self._readers.statement() as connection:
            return queries.is_erased(connection, self._changes.keyed_hash("user", user_id))

    def mark(self, user_id: str) -> str:
        check_id("user_id", user_id)
        return self._changes.keyed_hash("user", user_id).hex()

    def user_events(self, user_id: str) -> Iterator[LoggedEvent]:
        check_id("user_id", user_id)
        last = 0
        while True:
            with self._readers.connection() as connection:
                events = queries.user_events_after(connection, user_id, last)
            if not events:
                return
            yield from events
            last = events[-1].sequence

    def impression(self, impression_id: str) -> StoredImpression | None:
        check_id("impression_id", impression_id)
        with self._readers.connection() as connection:
            return queries.impression(connection, self._dialect, impression_id)

    def open_impressions(self, user_id: str) -> list[StoredImpression]:
        check_id("user_id", user_id)
        with self._readers.connection() as connection:
            return queries.open_impressions(connection, self._dialect, user_id)

    def closed_impressions(self, start: datetime, stop: datetime) -> Iterator[StoredImpression]:
        last = microseconds(start), ""
        while True:
            with self._readers.connection() as connection:
                impressions = queries.closed_impressions(connection, self._dialect, last, microseconds(stop))
            if not impressions:
                return
            yield from impressions
            newest = impressions[-1].impression
            last = microseconds(newest.time or start), newest.impression_id

    def stories(self, news_ids: Sequence[str] | None = None) -> Iterator[StoredStory]:
        if news_ids is not None:
            with self._readers.connection() as connection:
                known = queries.stories(connection, self._dialect, news_ids)
            yield from known
            return
        last = 0
        while True:
            with self._readers.connection() as connection:
                numbered = queries.stories_after(connection, last)
            if not numbered:
                return
            yield from (story for _, story in numbered)
            last = numbered[-1][0]

    def rankings(self, impression_ids: Sequence[str]) -> dict[str, LoggedRanking]:
        with self._readers.connection() as connection:
            return queries.rankings(connection, self._dialect, impression_ids)

    def variant_counts(self) -> list[VariantCounts]:
        with self._readers.statement() as connection:
            return queries.variant_counts(connection)

    def figures(self) -> StoreFigures:
        with self._readers.connection() as connection:
            users, still_open, news = (
                queries.count(connection, rows)
                for rows in ("users WHERE version > 0", "impressions WHERE open", "news WHERE body IS NOT NULL")
            )
            last, size = queries.last_sequence(connection, self._dialect), self._bytes(connection)
        return StoreFigures(last, users, still_open, news, self._writer.waiting, self._writer.dropped, size)

    def queue(self) -> QueueFigures:
        return QueueFigures(self._writer.waiting, self._writer.dropped)

    @abstractmethod
    def _bytes(self, connection: Connection) -> int:
        """The size of the store."""

    # API keys

    def add_api_key(self, record: KeyRecord) -> None:
        row = (
            record.key_id,
            record.name,
            " ".join(sorted(record.scopes)),
            record.digest,
            microseconds(record.created),
            None if record.revoked is None else microseconds(record.revoked),
        )
        self._writer.submit(
            lambda connection: connection.execute("INSERT INTO api_keys VALUES (?, ?, ?, ?, ?, ?)", row).rowcount
        ).result()

    def api_keys(self) -> list[KeyRecord]:
        with self._readers.statement() as connection:
            return queries.keys(connection)

    def revoke_api_key(self, key_id: str, now: datetime) -> bool:
        values = (microseconds(now), key_id)
        sql = "UPDATE api_keys SET revoked = ? WHERE key_id = ? AND revoked IS NULL"
        return bool(self._writer.submit(lambda connection: connection.execute(sql, values).rowcount).result())

    def derived_key(self, purpose: str) -> bytes:
        return self._changes.derived_key(purpose)

    def close(self) -> None:
        self._readers.close()
        self._writer.close()

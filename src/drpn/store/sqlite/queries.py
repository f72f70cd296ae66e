"""Questions to a SQLite store, answered from connections that only read."""

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from drpn.errors import StoreError
from drpn.state.profile import Profile
from drpn.store.encoding import decode, decode_impression, decode_ranking, decode_story
from drpn.store.moments import (
    Feedback,
    count_skips,
    from_microseconds,
    microseconds,
    page_view_feedback,
    seed_feedback,
    user_profile,
)
from drpn.store.records import (
    Click,
    Impression,
    KeyRecord,
    LoggedEvent,
    LoggedRanking,
    StoredImpression,
    StoredStory,
    Story,
    UserState,
    VariantCounts,
)

_EVENTS = "SELECT sequence, kind, time, user_id, body FROM events LEFT JOIN users USING (user)"
_IMPRESSIONS = (
    "SELECT sequence, user_id, open, body, (SELECT json_group_array(json_array(news_id, clicks.time)) FROM clicks "
    "WHERE impression = impressions.sequence) FROM impressions JOIN users USING (user) JOIN events USING (sequence)"
)
_NOBODY = -1
"""Stands for a user who has no row."""
_PART = 500
_IDLE = 8
"""Connections that are kept open while nobody reads."""


class Readers:
    """Connections that read; each is used by one thread at a time."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock, self._closed = file, threading.Lock(), False
        self._idle: list[sqlite3.Connection] = []

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees the store as of one moment."""
        with self._lock:
            if self._closed:
                raise StoreError("the store is closed; open it again")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = sqlite3.connect(
                f"{self._file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA busy_timeout = 10000")
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise StoreError(f"the store {self._file} cannot be read: {error}; restore it from a copy") from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            with self._lock:
                keep = not self._closed and len(self._idle) < _IDLE
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def close(self) -> None:
        """Close all connections; those in use close when their readers are done."""
        with self._lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle = []


def read_user(connection: sqlite3.Connection, user: int, also: Iterable[Feedback] = ()) -> UserState:
    """The state of a user, as if there were other feedback, too; without version and erasure."""
    stored = connection.execute(
        "SELECT news_id, clicked, skipped, times_skipped FROM feedback WHERE user = ?", (user,)
    ).fetchall()
    rows = [*(Feedback(*row) for row in stored), *also]
    seed = connection.execute("SELECT as_of, body FROM seeds WHERE user = ?", (user,)).fetchone()
    as_of = None
    if seed is not None:
        as_of = None if seed[0] is None else from_microseconds(seed[0])
        body = json.loads(seed[1])
        rows += seed_feedback(body["clicked"], body["skipped"], body["all"], as_of)
    profile, clicked = user_profile(rows, as_of)
    return UserState(0, profile, clicked, erased=False, skips=count_skips(rows, clicked))


def user_state(connection: sqlite3.Connection, user_id: str, mark: bytes, also: Iterable[Impression] = ()) -> UserState:
    """Everything that is known of a user, as if some page views were stored, too, and closed."""
    erased = is_erased(connection, mark)
    row = connection.execute("SELECT user, version FROM users WHERE user_id = ?", (user_id,)).fetchone()
    feedback = [one for impression in also for one in page_view_feedback(impression)]
    if row is None and not feedback:
        return UserState(0, Profile(), frozenset(), erased)
    user, newest = (_NOBODY, 0) if row is None else row
    return replace(read_user(connection, user, feedback), version=newest, erased=erased)


def version(connection: sqlite3.Connection, user_id: str) -> int:
    """The version of a user; 0 for an unknown one."""
    row = connection.execute("SELECT version FROM users WHERE user_id = ?", (user_id,)).fetchone()
    return 0 if row is None else int(row[0])


def is_erased(connection: sqlite3.Connection, mark: bytes) -> bool:
    """Whether a user with this mark was erased."""
    return connection.execute("SELECT 1 FROM erased WHERE mark = ?", (mark,)).fetchone() is not None


def last_sequence(connection: sqlite3.Connection) -> int:
    """The number of the newest event, even if it was deleted since."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    return 0 if row is None else int(row[0])


def events_after(connection: sqlite3.Connection, sequence: int, limit: int) -> list[LoggedEvent]:
    """Events in the order of their numbers."""
    return _logged(connection.execute(f"{_EVENTS} WHERE sequence > ? ORDER BY sequence LIMIT ?", (sequence, limit)))


def user_events_after(connection: sqlite3.Connection, user_id: str, sequence: int) -> list[LoggedEvent]:
    """Some events of a user in the order of their numbers."""
    user = connection.execute("SELECT user FROM users WHERE user_id = ?", (user_id,)).fetchone() or (None,)
    return _logged(
        connection.execute(
            f"{_EVENTS} WHERE events.user = ? AND sequence > ? ORDER BY sequence LIMIT {_PART}", (*user, sequence)
        )
    )


def sequence_at(connection: sqlite3.Connection, moment: datetime) -> int:
    """The number before that of the first event that is later than a moment."""
    (first,) = connection.execute("SELECT min(sequence) FROM events WHERE time > ?", (microseconds(moment),)).fetchone()
    return last_sequence(connection) if first is None else int(first) - 1


def impression(connection: sqlite3.Connection, impression_id: str) -> StoredImpression | None:
    """One impression."""
    row = connection.execute(f"{_IMPRESSIONS} WHERE impression_id = ?", (impression_id,)).fetchone()
    return None if row is None else _stored_impression(row)


def open_impressions(connection: sqlite3.Connection, user_id: str) -> list[StoredImpression]:
    """The open impressions of a user, oldest first."""
    rows = connection.execute(
        f"{_IMPRESSIONS} WHERE impressions.user = (SELECT user FROM users WHERE user_id = ?) AND open "
        "ORDER BY impressions.time, impression_id",
        (user_id,),
    )
    return [_stored_impression(row) for row in rows]


def closed_impressions(connection: sqlite3.Connection, after: tuple[int, str], stop: int) -> list[StoredImpression]:
    """Some closed impressions after a time and id and before `stop`, in the order of time and id."""
    rows = connection.execute(
        f"{_IMPRESSIONS} WHERE (impressions.time, impression_id) > (?, ?) AND impressions.time < ? AND NOT open "
        f"ORDER BY impressions.time, impression_id LIMIT {_PART}",
        (*after, stop),
    )
    return [_stored_impression(row) for row in rows]


def stories_after(connection: sqlite3.Connection, sequence: int) -> list[tuple[int, StoredStory]]:
    """Some stories in the order in which they were last put."""
    rows = connection.execute(
        "SELECT sequence, news_id, time, taken_down, body FROM news WHERE sequence > ? ORDER BY sequence LIMIT ?",
        (sequence, _PART),
    )
    return [(number, _stored_story(*row)) for number, *row in rows]


def stories(connection: sqlite3.Connection, news_ids: Sequence[str]) -> list[StoredStory]:
    """The stories of these ids that are known, in the order in which they were last put."""
    rows = connection.execute(
        "SELECT news_id, time, taken_down, body FROM news WHERE news_id IN (SELECT value FROM json_each(?)) "
        "ORDER BY sequence",
        (json.dumps(list(news_ids)),),
    )
    return [_stored_story(*row) for row in rows]


def rankings(connection: sqlite3.Connection, impression_ids: Sequence[str]) -> dict[str, LoggedRanking]:
    """Rankings by impression id."""
    rows = connection.execute(
        "SELECT body, impression_id, user_id, time, bundle, variant FROM rankings LEFT JOIN users USING (user) "
        "WHERE impression_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(impression_ids)),),
    )
    return {
        name: decode_ranking(body, impression_id=name, user_id=user, time=time, bundle=bundle, variant=variant)
        for body, name, user, time, bundle, variant in rows
    }


def variant_counts(connection: sqlite3.Connection) -> list[VariantCounts]:
    """Feedback for each bundle and variant."""
    return [VariantCounts(*row) for row in connection.execute("SELECT * FROM variants ORDER BY bundle, variant")]


def keys(connection: sqlite3.Connection) -> list[KeyRecord]:
    """All API keys, oldest first."""
    rows = connection.execute("SELECT * FROM api_keys ORDER BY created, key_id")
    return [
        KeyRecord(
            key_id,
            name,
            frozenset(scopes.split()),
            digest,
            from_microseconds(created),
            None if revoked is None else from_microseconds(revoked),
        )
        for key_id, name, scopes, digest, created, revoked in rows
    ]


def _logged(rows: sqlite3.Cursor) -> list[LoggedEvent]:
    return [
        LoggedEvent(sequence, from_microseconds(time), decode(kind, body, user_id))
        for sequence, kind, time, user_id, body in rows
    ]


def _stored_impression(row: tuple[int, str, int, str, str]) -> StoredImpression:
    sequence, user_id, is_open, body, clicks = row
    stored = decode_impression(json.loads(body), user_id)
    positions = stored.positions()
    in_order = sorted(json.loads(clicks), key=lambda click: (positions[click[0]], click[0]))
    return StoredImpression(
        sequence,
        stored,
        tuple(Click(stored.impression_id, user_id, story, from_microseconds(time)) for story, time in in_order),
        closed=not is_open,
    )


def _stored_story(news_id: str, time: int, taken_down: int | None, body: str | None) -> StoredStory:
    story = Story(news_id, "") if body is None else decode_story(json.loads(body))
    return StoredStory(story, from_microseconds(time), taken_down is not None)

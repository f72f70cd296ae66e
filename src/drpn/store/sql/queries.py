"""Questions to a store in a database, answered from connections that only read."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

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
from drpn.store.sql.dialect import Connection, Cursor, Dialect

_EVENTS = 'SELECT sequence, kind, time, user_id, body FROM events LEFT JOIN users USING ("user")'
_NOBODY = -1
"""Stands for a user who has no row."""
_PART = 500


def read_user(connection: Connection, user: int, also: Iterable[Feedback] = ()) -> UserState:
    """The state of a user, as if there were other feedback, too; without version and erasure."""
    stored = connection.execute(
        'SELECT news_id, clicked, skipped, times_skipped FROM feedback WHERE "user" = ?', (user,)
    ).fetchall()
    rows = [*(Feedback(*row) for row in stored), *also]
    seed = connection.execute('SELECT as_of, body FROM seeds WHERE "user" = ?', (user,)).fetchone()
    as_of = None
    if seed is not None:
        as_of = None if seed[0] is None else from_microseconds(seed[0])
        body = json.loads(seed[1])
        rows += seed_feedback(body["clicked"], body["skipped"], body["all"], as_of)
    profile, clicked = user_profile(rows, as_of)
    return UserState(0, profile, clicked, erased=False, skips=count_skips(rows, clicked))


def user_state(connection: Connection, user_id: str, mark: bytes, also: Iterable[Impression] = ()) -> UserState:
    """Everything that is known of a user, as if some page views were stored, too, and closed."""
    erased = is_erased(connection, mark)
    row = connection.execute('SELECT "user", version FROM users WHERE user_id = ?', (user_id,)).fetchone()
    feedback = [one for impression in also for one in page_view_feedback(impression)]
    if row is None and not feedback:
        return UserState(0, Profile(), frozenset(), erased)
    user, newest = (_NOBODY, 0) if row is None else row
    return replace(read_user(connection, user, feedback), version=newest, erased=erased)


def version(connection: Connection, user_id: str) -> int:
    """The version of a user; 0 for an unknown one."""
    row = connection.execute("SELECT version FROM users WHERE user_id = ?", (user_id,)).fetchone()
    return 0 if row is None else int(row[0])


def is_erased(connection: Connection, mark: bytes) -> bool:
    """Whether a user with this mark was erased."""
    return connection.execute("SELECT 1 FROM erased WHERE mark = ?", (mark,)).fetchone() is not None


def last_sequence(connection: Connection, dialect: Dialect) -> int:
    """The number of the newest event, even if it was deleted since."""
    row = connection.execute(dialect.last_sequence).fetchone()
    return 0 if row is None else int(row[0])


def events_after(connection: Connection, dialect: Dialect, sequence: int, limit: int) -> list[LoggedEvent]:
    """Events in the order of their numbers."""
    values = (sequence,) * dialect.after.count("?")
    return _logged(connection.execute(f"{_EVENTS} WHERE {dialect.after} ORDER BY sequence LIMIT ?", (*values, limit)))


def user_events_after(connection: Connection, user_id: str, sequence: int) -> list[LoggedEvent]:
    """Some events of a user in the order of their numbers."""
    user = connection.execute('SELECT "user" FROM users WHERE user_id = ?', (user_id,)).fetchone()
    if user is None:
        return []
    return _logged(
        connection.execute(
            f'{_EVENTS} WHERE events."user" = ? AND sequence > ? ORDER BY sequence LIMIT {_PART}', (*user, sequence)
        )
    )


def sequence_at(connection: Connection, dialect: Dialect, moment: datetime) -> int:
    """The number before that of the first event that is later than a moment."""
    (first,) = connection.execute("SELECT min(sequence) FROM events WHERE time > ?", (microseconds(moment),)).fetchone()
    return last_sequence(connection, dialect) if first is None else int(first) - 1


def impression(connection: Connection, dialect: Dialect, impression_id: str) -> StoredImpression | None:
    """One impression."""
    row = connection.execute(f"{_impressions(dialect)} WHERE impression_id = ?", (impression_id,)).fetchone()
    return None if row is None else _stored_impression(row)


def open_impressions(connection: Connection, dialect: Dialect, user_id: str) -> list[StoredImpression]:
    """The open impressions of a user, oldest first."""
    rows = connection.execute(
        f'{_impressions(dialect)} WHERE impressions."user" = (SELECT "user" FROM users WHERE user_id = ?) AND open '
        "ORDER BY impressions.time, impression_id",
        (user_id,),
    )
    return [_stored_impression(row) for row in rows]


def closed_impressions(
    connection: Connection, dialect: Dialect, after: tuple[int, str], stop: int
) -> list[StoredImpression]:
    """Some closed impressions after a time and id and before `stop`, in the order of time and id."""
    rows = connection.execute(
        f"{_impressions(dialect)} WHERE (impressions.time, impression_id) > (?, ?) AND impressions.time < ? "
        f"AND NOT open ORDER BY impressions.time, impression_id LIMIT {_PART}",
        (*after, stop),
    )
    return [_stored_impression(row) for row in rows]


def stories_after(connection: Connection, sequence: int) -> list[tuple[int, StoredStory]]:
    """Some stories in the order in which they were last put."""
    rows = connection.execute(
        "SELECT sequence, news_id, time, taken_down, body FROM news WHERE sequence > ? ORDER BY sequence LIMIT ?",
        (sequence, _PART),
    )
    return [(number, _stored_story(*row)) for number, *row in rows]


def stories(connection: Connection, dialect: Dialect, news_ids: Sequence[str]) -> list[StoredStory]:
    """The stories of these ids that are known, in the order in which they were last put."""
    rows = connection.execute(
        f"SELECT news_id, time, taken_down, body FROM news WHERE news_id {dialect.listed} ORDER BY sequence",
        (json.dumps(list(news_ids)),),
    )
    return [_stored_story(*row) for row in rows]


def rankings(connection: Connection, dialect: Dialect, impression_ids: Sequence[str]) -> dict[str, LoggedRanking]:
    """Rankings by impression id."""
    rows = connection.execute(
        'SELECT body, impression_id, user_id, time, bundle, variant FROM rankings LEFT JOIN users USING ("user") '
        f"WHERE impression_id {dialect.listed}",
        (json.dumps(list(impression_ids)),),
    )
    return {
        name: decode_ranking(body, impression_id=name, user_id=user, time=time, bundle=bundle, variant=variant)
        for body, name, user, time, bundle, variant in rows
    }


def count(connection: Connection, rows: str) -> int:
    """The number of rows of a table, such as "users" or "users WHERE version > 0"."""
    return int(connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0])


def variant_counts(connection: Connection) -> list[VariantCounts]:
    """Feedback for each bundle and variant."""
    return [VariantCounts(*row) for row in connection.execute("SELECT * FROM variants ORDER BY bundle, variant")]


def keys(connection: Connection) -> list[KeyRecord]:
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


def _impressions(dialect: Dialect) -> str:
    """Statement for `_stored_impression`, to which a condition is added."""
    return (
        f"SELECT sequence, user_id, open, body, ({dialect.clicks}) FROM impressions "
        f'JOIN users USING ("user") JOIN events USING ({", ".join(dialect.event_key)})'
    )


def _logged(rows: Cursor) -> list[LoggedEvent]:
    return [
        LoggedEvent(sequence, from_microseconds(time), decode(kind, body, user_id))
        for sequence, kind, time, user_id, body in rows
    ]


def _stored_impression(row: tuple[int, str, bool, str, str]) -> StoredImpression:
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

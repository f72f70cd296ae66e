"""Statements and changes that SQLite needs in its own way."""

import sqlite3
from datetime import datetime

from drpn.store.sql.changes import Changes
from drpn.store.sql.dialect import Connection, Dialect
from drpn.store.sqlite.wiping import TO_WIPE

_PAGES_AT_ONCE = 256

SQLITE = Dialect(
    last_sequence="SELECT seq FROM sqlite_sequence WHERE name = 'events'",
    event_key=("sequence",),
    after="sequence > ?",
    clicks=(
        "SELECT json_group_array(json_array(news_id, clicks.time)) FROM clicks WHERE impression = impressions.sequence"
    ),
    listed="IN (SELECT value FROM json_each(?))",
    expires="json_extract(body, '$.expires')",
)


class SqliteChanges(Changes):
    """Changes of a SQLite store."""

    def append_event(self, connection: Connection, kind: str, time: int, user: int | None, body: str) -> int:
        assert isinstance(connection, sqlite3.Connection)
        cursor = connection.execute(
            'INSERT INTO events (kind, time, "user", body) VALUES (?, ?, ?, ?)', (kind, time, user, body)
        )
        return int(cursor.lastrowid or 0)

    def ask_to_wipe(self, connection: Connection, sequence: int) -> None:
        connection.execute(TO_WIPE, (sequence,))

    def free_space(self, connection: Connection, cutoff: datetime) -> None:  # noqa: ARG002 (free pages have no date)
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        for _ in range(min(free, _PAGES_AT_ONCE)):
            connection.execute("PRAGMA incremental_vacuum(1)")  # Python's sqlite3 stops after one page of many

"""Statements and changes that PostgreSQL needs in its own way."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from drpn.store.postgres.schema import SCHEMA, day_of, partition
from drpn.store.settings import StoreSettings
from drpn.store.sql.changes import Changes
from drpn.store.sql.dialect import Connection, Dialect

_DAYS_AT_ONCE = 10

POSTGRES = Dialect(
    last_sequence="SELECT last FROM counter",
    event_key=("sequence", "day"),
    after="sequence > ? AND day >= (SELECT coalesce(max(day), 0) FROM days WHERE first <= ?)",
    clicks=(
        "SELECT coalesce(json_agg(json_build_array(news_id, clicks.time)), '[]')::text FROM clicks "
        "WHERE impression = impressions.sequence"
    ),
    listed="IN (SELECT json_array_elements_text(?::json))",
    expires="(body::json ->> 'expires')::bigint",
)


@dataclass
class Numbers:
    """The sequence number and the day of the newest event, while this process has the right to write."""

    last: int = 0
    day: int = -1


class PostgresChanges(Changes):
    """Changes of a PostgreSQL store."""

    def __init__(self, numbers: Numbers, settings: StoreSettings, clock: Callable[[], datetime], secret: bytes) -> None:
        super().__init__(POSTGRES, settings, clock, secret)
        self._numbers = numbers

    def append_event(self, connection: Connection, kind: str, time: int, user: int | None, body: str) -> int:
        self._numbers.last += 1
        connection.execute(
            'INSERT INTO events (sequence, kind, time, "user", body) VALUES (?, ?, ?, ?, ?)',
            (self._numbers.last, kind, time, user, body),
        )
        return self._numbers.last

    def ask_to_wipe(self, connection: Connection, sequence: int) -> None:
        """Nothing: PostgreSQL overwrites deleted rows when it needs the space."""

    def free_space(self, connection: Connection, cutoff: datetime) -> None:
        """Drop partitions without events, unless somebody reads the log for long."""
        before = min(day_of(cutoff), self._numbers.day)
        days = connection.execute(
            "SELECT day FROM days WHERE day < ? ORDER BY day LIMIT ?", (before, _DAYS_AT_ONCE)
        ).fetchall()
        for (day,) in days:
            name = f"{SCHEMA}.{partition(day)}"
            if connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone() is None:
                connection.execute(
                    f"DO $$ BEGIN SET LOCAL lock_timeout = '200ms'; DROP TABLE {name}; "
                    f"DELETE FROM days WHERE day = {int(day)}; EXCEPTION WHEN lock_not_available THEN NULL; END $$"
                )

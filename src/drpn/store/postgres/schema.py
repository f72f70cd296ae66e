"""The tables of a PostgreSQL store, and how a database gets them.

They are in a schema of their own, `drpn`. The table `migrations` has a row for each migration that was applied. A
database of a newer version is refused.

Events are partitioned by the day on which they were written, so that a day can be dropped as a whole and whoever
follows the log reads the newest partitions only. The day never goes back, even if clocks do: it rises with the
sequence number. The writer says which day it is (`drpn.day`) for each transaction.
"""

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from drpn.errors import StoreError

SCHEMA = "drpn"
LOCK = 0x6472706E
"""Number of the lock that a process holds while it writes or migrates: the letters drpn."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TABLES = """
CREATE TABLE facts (name text PRIMARY KEY, value text NOT NULL);

CREATE TABLE counter (
    one boolean PRIMARY KEY DEFAULT TRUE CHECK (one), last bigint NOT NULL, day integer NOT NULL
) WITH (fillfactor = 50);
INSERT INTO counter (last, day) VALUES (0, -1);

CREATE TABLE days (day integer PRIMARY KEY, first bigint NOT NULL);

CREATE TABLE users (
    "user" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text COLLATE "C" NOT NULL UNIQUE,
    version bigint NOT NULL DEFAULT 0
);

CREATE TABLE events (
    sequence bigint NOT NULL, day integer NOT NULL DEFAULT current_setting('drpn.day')::integer, kind text NOT NULL,
    time bigint NOT NULL, "user" bigint, body text NOT NULL, PRIMARY KEY (sequence, day)
) PARTITION BY RANGE (day);
CREATE INDEX events_time ON events (time);
CREATE INDEX events_user ON events ("user") WHERE "user" IS NOT NULL;

CREATE TABLE impressions (
    sequence bigint PRIMARY KEY, day integer NOT NULL DEFAULT current_setting('drpn.day')::integer,
    impression_id text COLLATE "C" NOT NULL UNIQUE, "user" bigint NOT NULL, time bigint NOT NULL,
    open boolean NOT NULL, content bytea NOT NULL
);
CREATE INDEX impressions_user ON impressions ("user");
CREATE INDEX impressions_open ON impressions (time) WHERE open;
CREATE INDEX impressions_open_user ON impressions ("user") WHERE open;
CREATE INDEX impressions_time ON impressions (time, impression_id);

CREATE TABLE clicks (
    impression bigint NOT NULL, news_id text COLLATE "C" NOT NULL, time bigint NOT NULL,
    PRIMARY KEY (impression, news_id)
);

CREATE TABLE feedback (
    "user" bigint NOT NULL, news_id text COLLATE "C" NOT NULL, clicked bytea, skipped bytea,
    times_skipped bigint NOT NULL DEFAULT 0, PRIMARY KEY ("user", news_id)
);

CREATE TABLE seeds ("user" bigint PRIMARY KEY, as_of bigint, body text NOT NULL);

CREATE TABLE news (
    news_id text COLLATE "C" PRIMARY KEY, sequence bigint NOT NULL, time bigint NOT NULL, taken_down bigint, body text
);
CREATE INDEX news_sequence ON news (sequence);

CREATE TABLE requests (key bytea PRIMARY KEY, content bytea NOT NULL, sequence bigint NOT NULL, time bigint NOT NULL);
CREATE INDEX requests_time ON requests (time);

CREATE TABLE erased (mark bytea PRIMARY KEY);
CREATE TABLE expiring ("user" bigint PRIMARY KEY);

CREATE TABLE rankings (
    ranking bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, impression_id text COLLATE "C" NOT NULL UNIQUE,
    "user" bigint, time bigint NOT NULL, bundle text NOT NULL, variant text NOT NULL, body text NOT NULL
);
CREATE INDEX rankings_time ON rankings (time);
CREATE INDEX rankings_user ON rankings ("user") WHERE "user" IS NOT NULL;

CREATE TABLE variants (
    bundle text COLLATE "C" NOT NULL, variant text COLLATE "C" NOT NULL, impressions bigint NOT NULL,
    shown bigint NOT NULL, clicked bigint NOT NULL, PRIMARY KEY (bundle, variant)
);

CREATE TABLE api_keys (
    key_id text COLLATE "C" PRIMARY KEY, name text NOT NULL, scopes text NOT NULL, digest bytea NOT NULL,
    created bigint NOT NULL, revoked bigint
)
"""
# counter: the number of the newest event and the day on which it was written
# days: the number of the first event that may be in the partition of each day
# the other tables are like those of `sqlite.schema`; the collation "C" compares bytes, as SQLite does

MIGRATIONS: tuple[str, ...] = (_TABLES,)
"""Statements that bring a database from each version to the next; the first makes an empty one a store."""


def prepare(connection: psycopg.Connection[Any], name: str) -> None:
    """Make an empty database a store, bring an older store up to date, refuse what cannot be used."""
    for setting, wrong, remedy in (
        ("fsync", "off", "what it acknowledges can be lost; set fsync = on"),
        ("server_encoding", "SQL_ASCII", "texts cannot be stored; use a database with the encoding UTF8"),
    ):
        if _value(connection, "SELECT current_setting(%s)", setting) == wrong:
            raise StoreError(f"the server of the store {name} has {setting} = {wrong}, so {remedy}")
    if _version(connection, name) == len(MIGRATIONS):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        if _value(connection, "SELECT to_regnamespace(%s)", SCHEMA) is None:
            connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations "
            "(version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
        )
        # another process may have been quicker
        version = _version(connection, name)
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements.split(";"):
                connection.execute(statement.encode())
            connection.execute("INSERT INTO migrations VALUES (%s)", (number,))
        connection.execute(
            "INSERT INTO facts VALUES ('secret', %s) ON CONFLICT DO NOTHING", (secrets.token_bytes(32).hex(),)
        )


def read_secret(connection: psycopg.Connection[Any]) -> bytes:
    """The secret of the store, with which texts are hashed."""
    return bytes.fromhex(_value(connection, "SELECT value FROM facts WHERE name = %s", "secret"))


def day_of(moment: datetime) -> int:
    """The day of a moment in UTC, counted from 1970."""
    return (moment - _EPOCH).days


def partition(day: int) -> str:
    """The name of the partition with the events of a day, such as events_20260301."""
    return f"events_{_EPOCH + timedelta(days=day):%Y%m%d}"


def _version(connection: psycopg.Connection[Any], name: str) -> int:
    """The number of migrations that were applied; 0 for a database without a store."""
    if _value(connection, "SELECT to_regclass(%s)", f"{SCHEMA}.migrations") is None:
        return 0
    version = int(_value(connection, "SELECT coalesce(max(version), %s) FROM migrations", 0))
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store {name} has format {version}, this version of drpn reads up to {len(MIGRATIONS)}; update drpn"
        )
    return version


def _value(connection: psycopg.Connection[Any], sql: str, parameter: str | int) -> Any:
    row = connection.execute(sql.encode(), (parameter,)).fetchone()
    return None if row is None else row[0]

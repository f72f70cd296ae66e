"""The tables of a SQLite store, and how a file gets them.

`user_version` of the file is the number of migrations that it went through. A file of a newer version is refused.
"""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from drpn.errors import StoreError

APPLICATION = 0x6472706E
"""`application_id` of the file: the letters drpn."""

_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;

CREATE TABLE users (user INTEGER PRIMARY KEY, user_id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL DEFAULT 0);

CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, time INTEGER NOT NULL, user INTEGER,
    body TEXT NOT NULL
);
CREATE INDEX events_time ON events (time);
CREATE INDEX events_user ON events (user) WHERE user IS NOT NULL;

CREATE TABLE impressions (
    sequence INTEGER PRIMARY KEY, impression_id TEXT NOT NULL UNIQUE, user INTEGER NOT NULL, time INTEGER NOT NULL,
    open INTEGER NOT NULL, content BLOB NOT NULL
);
CREATE INDEX impressions_user ON impressions (user);
CREATE INDEX impressions_open ON impressions (time) WHERE open;
CREATE INDEX impressions_open_user ON impressions (user) WHERE open;
CREATE INDEX impressions_time ON impressions (time, impression_id);

CREATE TABLE clicks (
    impression INTEGER NOT NULL, news_id TEXT NOT NULL, time INTEGER NOT NULL, PRIMARY KEY (impression, news_id)
) WITHOUT ROWID;

CREATE TABLE feedback (
    user INTEGER NOT NULL, news_id TEXT NOT NULL, clicked BLOB, skipped BLOB, PRIMARY KEY (user, news_id)
) WITHOUT ROWID;

CREATE TABLE seeds (user INTEGER PRIMARY KEY, as_of INTEGER, body TEXT NOT NULL);

CREATE TABLE news (
    news_id TEXT PRIMARY KEY, sequence INTEGER NOT NULL, time INTEGER NOT NULL, taken_down INTEGER, body TEXT
) WITHOUT ROWID;
CREATE INDEX news_sequence ON news (sequence);

CREATE TABLE requests (
    key BLOB PRIMARY KEY, content BLOB NOT NULL, sequence INTEGER NOT NULL, time INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX requests_time ON requests (time);

CREATE TABLE erased (mark BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE expiring (user INTEGER PRIMARY KEY);

CREATE TABLE rankings (
    ranking INTEGER PRIMARY KEY, impression_id TEXT NOT NULL UNIQUE, user INTEGER, time INTEGER NOT NULL,
    bundle TEXT NOT NULL, variant TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX rankings_time ON rankings (time);
CREATE INDEX rankings_user ON rankings (user) WHERE user IS NOT NULL;

CREATE TABLE variants (
    bundle TEXT NOT NULL, variant TEXT NOT NULL, impressions INTEGER NOT NULL, shown INTEGER NOT NULL,
    clicked INTEGER NOT NULL, PRIMARY KEY (bundle, variant)
) WITHOUT ROWID;

CREATE TABLE api_keys (
    key_id TEXT PRIMARY KEY, name TEXT NOT NULL, scopes TEXT NOT NULL, digest BLOB NOT NULL, created INTEGER NOT NULL,
    revoked INTEGER
)
"""
# events: bodies are the JSON of `encoding`, without the user id
# impressions: sequence is that of the event with the body; content is a keyed hash, which repeated reports must have
# feedback: moments as `moments.pack` writes them
# news: body is empty for a story that was taken down and never put
# requests: idempotency keys and their content, both as keyed hashes
# expiring: users with deleted events, whose old feedback is to be deleted

_TIMES_SKIPPED = """
ALTER TABLE feedback ADD COLUMN times_skipped INTEGER NOT NULL DEFAULT 0;
UPDATE feedback SET times_skipped = 1 WHERE skipped IS NOT NULL
"""

MIGRATIONS: tuple[str, ...] = (_TABLES, _TIMES_SKIPPED)
"""Statements that bring a file from each version to the next; the first makes an empty file a store."""


def prepare(connection: sqlite3.Connection, name: str) -> None:
    """Make an empty file a store, bring an older store up to date, refuse other files."""
    version, application = (
        connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in ("user_version", "application_id")
    )
    if application != APPLICATION and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise StoreError(f"{name} is a database of another program; choose another file")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store {name} has format {version}, this version of drpn reads up to {len(MIGRATIONS)}; update drpn"
        )
    if version == len(MIGRATIONS):
        return
    if version == 0:
        # takes effect only before the first table; gives space back in small steps
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
    with transaction(connection):
        # another process may have been quicker
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            for statement in statements.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("INSERT OR IGNORE INTO facts VALUES ('secret', ?)", (secrets.token_bytes(32),))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A write transaction, which is committed if the block succeeds."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

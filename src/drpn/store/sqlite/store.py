"""The store in a SQLite file.

One thread writes, with a full sync for each group of changes; readers have connections of their own and never wait for
it. Several processes may open one file: SQLite lets one write at a time, and every decision is made within a write
transaction from what is stored, so a second writer is not refused. The file must be on a local disk: the write-ahead
log does not work over a network.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from drpn.errors import StoreError
from drpn.store.settings import StoreSettings
from drpn.store.sql.dialect import Connection
from drpn.store.sql.store import SqlStore
from drpn.store.sqlite.connections import Readers, SqliteSession
from drpn.store.sqlite.dialect import SQLITE, SqliteChanges
from drpn.store.sqlite.schema import prepare
from drpn.store.sqlite.wiping import Wiper


class SqliteStore(SqlStore):
    """A `Store` in one file."""

    def __init__(self, file: Path, settings: StoreSettings, clock: Callable[[], datetime]) -> None:
        self.file = file
        self._connection = _open(file)
        try:
            (secret,) = self._connection.execute("SELECT value FROM facts WHERE name = 'secret'").fetchone()
        except sqlite3.Error as error:
            self._connection.close()
            raise StoreError(f"the store {file} is damaged: {error}; restore it from a copy") from error
        super().__init__(
            settings,
            clock,
            changes=SqliteChanges(SQLITE, settings, clock, secret),
            readers=Readers(file),
            session=SqliteSession(self._connection),
        )

    def close(self) -> None:
        super().close()
        self._connection.close()

    def _bytes(self, connection: Connection) -> int:  # noqa: ARG002 (files have a size)
        files = (Path(f"{self.file}{suffix}") for suffix in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


def _open(file: Path) -> sqlite3.Connection:
    """The connection that writes: every commit is synced, and deleted data are overwritten."""
    try:
        # only the owner may read what users did
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=30)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the store {file} cannot be opened: {error}; choose another file") from error
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA synchronous = FULL")
        prepare(connection, str(file))
        connection.execute("PRAGMA journal_mode = WAL")
        with suppress(sqlite3.OperationalError):  # without space for it, the store can be used all the same
            Wiper().wipe(connection)  # completes an erasure that was interrupted
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"the store {file} is damaged or no store: {error}; restore it from a copy") from error
    except StoreError:
        connection.close()
        raise
    return connection

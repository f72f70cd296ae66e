"""The connections of a SQLite store: one that writes, and several that read."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from drpn.errors import StoreError
from drpn.store.sqlite.schema import transaction
from drpn.store.sqlite.wiping import Wiper

_IDLE = 8
"""Connections that are kept open while nobody reads."""


class SqliteSession:
    """Writes groups of changes; see `writer.Session`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._wiper = connection, Wiper()

    @contextmanager
    def group(self) -> Iterator[sqlite3.Connection]:
        with transaction(self._connection):
            yield self._connection

    @contextmanager
    def change(self) -> Iterator[None]:
        self._connection.execute("SAVEPOINT change")
        try:
            yield
        except Exception as error:  # whatever it is, it is raised again
            if not self.ends_group(error):
                self._connection.execute("ROLLBACK TO change")
                self._connection.execute("RELEASE change")
            raise
        self._connection.execute("RELEASE change")

    def ends_group(self, error: Exception) -> bool:
        # on a full disk, SQLite has rolled everything back
        return not self._connection.in_transaction or isinstance(error, sqlite3.OperationalError)

    def can_split(self, error: Exception) -> bool:  # noqa: ARG002 (the same for all errors)
        # a change that fails is undone by its savepoint; what ends a whole group, such as a full disk, ends each change
        return False

    def explain(self, error: Exception) -> StoreError:
        return StoreError(f"the store cannot be written: {error}; free space or repair the disk")

    def wipe(self) -> bool:
        try:
            return self._wiper.wipe(self._connection)
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error


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

    def statement(self) -> AbstractContextManager[sqlite3.Connection]:
        """A connection for one statement."""
        return self.connection()

    def close(self) -> None:
        """Close all connections; those in use close when their readers are done."""
        with self._lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle = []

"""Removes the bytes of deleted rows from the files of a SQLite store.

`secure_delete` overwrites rows that are deleted and pages that are freed. But copies of rows remain in pages between
which SQLite moved them earlier, and in the write-ahead log. `VACUUM` writes every page again from the rows that exist;
then the log is moved to the main file and cut to zero bytes. That takes time in proportion to the size of the store, so
all erasures that wait share it. A fact in the store says that it is to be done, in case the process is killed before.
"""

import sqlite3

TO_WIPE = "INSERT OR REPLACE INTO facts VALUES ('to wipe', ?)"
"""Statement that asks for wiping; its parameter is the number of an event, so that later requests differ."""
_BUSY_MILLISECONDS = 20
"""How long to wait for readers; other changes wait meanwhile, so it is tried again later instead."""


class Wiper:
    """Wipes in two steps, since readers of older data can delay the second."""

    def __init__(self) -> None:
        self._vacuumed: int | None = None  # the request that VACUUM fulfilled

    def wipe(self, connection: sqlite3.Connection) -> bool:
        """Wipe if there is something to wipe; returns False if others use the store, so that it is not done."""
        row = connection.execute("SELECT value FROM facts WHERE name = 'to wipe'").fetchone()
        if row is None:
            return True
        if self._vacuumed != row[0]:
            try:
                connection.execute("VACUUM")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    return False  # another process writes
                raise
            self._vacuumed = row[0]
        if not empty_log(connection):
            return False
        # another process may have asked again meanwhile
        return connection.execute("DELETE FROM facts WHERE name = 'to wipe' AND value = ?", row).rowcount == 1


def empty_log(connection: sqlite3.Connection) -> bool:
    """Move everything to the main file and cut the write-ahead log to zero bytes; returns whether that worked."""
    timeout = connection.execute("PRAGMA busy_timeout").fetchone()[0]
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:
        return False
    finally:
        connection.execute(f"PRAGMA busy_timeout = {timeout}")
    return not busy

"""The connections of a PostgreSQL store: one that writes, and a pool of those that read.

One process writes at a time: it holds a lock until its transaction is committed, as SQLite locks its file. So sequence
numbers become visible in their order, without gaps, whichever process writes. Statements of a group are sent without
waiting for the answers of those before them (pipeline mode), as far as no answer is needed to decide.
"""

import re
import selectors
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from itertools import chain, islice
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import ConnectionPool, PoolClosed

from drpn.errors import DrpnError, SettingsError, StoreError
from drpn.store.postgres.dialect import Numbers
from drpn.store.postgres.schema import LOCK, SCHEMA, day_of, partition
from drpn.store.records import as_utc
from drpn.store.sql.dialect import Connection, Cursor

_DEFAULTS: dict[str, Any] = {
    "application_name": "drpn",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""Parameters that the URL may set otherwise."""
_READERS = 8
"""Connections that read at once at most."""
_ROWS = 500
"""Rows that one statement inserts at most."""
_ROW = re.compile(r"(?<=VALUES )\(\?(, \?)*\)")
_WAIT_SECONDS = 10.0
"""How long a reader waits for a connection."""
_OF_ONE_CHANGE = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError)
"""Errors because of what a change writes; others in its group can be written without it."""
_Selector: Any = getattr(selectors, "PollSelector", selectors.DefaultSelector)
"""Needs no file of its own, where the system has it."""
_SETTINGS = f"""
SET search_path TO {SCHEMA};
SET lock_timeout = '60s';
SET idle_in_transaction_session_timeout = '30s';
SELECT set_config('synchronous_commit', 'on', FALSE) WHERE current_setting('synchronous_commit') = 'off'
"""
# a machine that vanishes while it writes must not keep the others from writing for long


def parameters(url: str, name: str) -> dict[str, Any]:
    """The parameters of a connection; `name` is the URL without the password."""
    try:
        return {**_DEFAULTS, **conninfo_to_dict(url), "client_encoding": "UTF8"}
    except psycopg.Error as error:
        raise SettingsError(
            f"the store '{name}' is no address of a database: {reason(error)}; write "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from error


def connect(values: dict[str, Any]) -> psycopg.Connection[Any]:
    """A connection without a transaction."""
    connection = psycopg.connect(**values, autocommit=True)
    _set_up(connection)
    return connection


def reason(error: Exception) -> str:
    """The first line of an error; later lines may quote what was to be stored."""
    lines = [line for line in str(error).splitlines() if not line.startswith("Multiple connection attempts")]
    return lines[0].strip(" -") if lines else type(error).__name__


class _Result:
    """The result of a statement whose answer may not have come yet."""

    def __init__(self, cursor: psycopg.Cursor[Any], pipeline: psycopg.Pipeline) -> None:
        self._cursor, self._pipeline = cursor, pipeline
        self.fetchone, self.fetchall = cursor.fetchone, cursor.fetchall

    @property
    def rowcount(self) -> int:
        self._pipeline.sync()
        return self._cursor.rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)


class PostgresConnection:
    """A connection that takes statements with `?`."""

    def __init__(self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline | None = None) -> None:
        self._connection, self._pipeline = connection, pipeline
        self.writes = 0
        """How many statements were executed that may have changed something."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        self.writes += not sql.startswith("SELECT")
        cursor = self._connection.execute(_translated(sql), parameters or None)
        return cursor if self._pipeline is None else _Result(cursor, self._pipeline)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> None:
        self.writes += 1
        rows = iter(parameters)
        while some := list(islice(rows, _ROWS)):
            if _ROW.search(sql):  # one statement for all rows
                self._connection.execute(_translated(_for_rows(sql, len(some))), [*chain.from_iterable(some)])
            else:
                self._connection.cursor().executemany(_translated(sql), some)


class PostgresSession:
    """Writes groups of changes; see `writer.Session`. A connection that was lost is made again for the next group."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        again: Callable[[], psycopg.Connection[Any]],
        clock: Callable[[], datetime],
    ) -> None:
        self._connection, self._again, self._clock = connection, again, clock
        self._current, self._halfway = PostgresConnection(connection), False
        self.numbers, self._begun = Numbers(), Numbers()

    @contextmanager
    def group(self) -> Iterator[Connection]:
        if not is_alive(self._connection):
            self._connection.close()
            self._connection = self._again()
        try:
            with self._connection.pipeline() as pipeline:
                self._current = PostgresConnection(self._connection, pipeline)
                self._begin()
                self._halfway = False
                yield self._current
                self._end()
                end = self._connection.execute("COMMIT")
                pipeline.sync()
            if end.statusmessage != "COMMIT":  # the server answers ROLLBACK to it after an error
                raise psycopg.OperationalError("the server did not commit")
        except BaseException:
            self._roll_back()
            raise

    @contextmanager
    def change(self) -> Iterator[None]:
        # a savepoint for each change would make a transaction of hundreds of others, which readers are slow to judge;
        # nearly all changes that fail are refused before they write
        writes = self._current.writes
        self._halfway = False
        try:
            yield
        except Exception as error:  # whatever it is, it is raised again
            self._halfway = self._current.writes > writes and not isinstance(error, psycopg.Error)
            raise

    def ends_group(self, error: Exception) -> bool:
        return self._halfway or isinstance(error, psycopg.Error)

    def can_split(self, error: Exception) -> bool:
        return self._halfway or isinstance(error, _OF_ONE_CHANGE)

    def explain(self, error: Exception) -> DrpnError:
        if isinstance(error, DrpnError):
            return error
        if not isinstance(error, psycopg.Error) or isinstance(error, _OF_ONE_CHANGE):
            return StoreError(f"the change failed: {reason(error)}")
        return StoreError(
            f"the store cannot be written: {reason(error)}; it is unknown whether the change is stored: send it again "
            "with the same key"
        )

    def wipe(self) -> bool:
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _begin(self) -> None:
        """Begin a transaction, wait for the right to write, and make the partition of a new day."""
        self._current.execute("BEGIN")
        self._current.execute("SELECT pg_advisory_xact_lock(?)", (LOCK,))
        last, day = self._current.execute("SELECT last, day FROM counter").fetchone()
        today = max(day, day_of(as_utc(self._clock())))
        self._begun = Numbers(last, day)
        self.numbers.last, self.numbers.day = last, today
        if today > day:
            # attaching does not wait for readers, as creating a table that is a partition from the start does
            name = partition(today)
            self._current.execute(f"CREATE TABLE {name} (LIKE events INCLUDING DEFAULTS)")
            self._current.execute(
                f"ALTER TABLE events ATTACH PARTITION {name} FOR VALUES FROM ({today}) TO ({today + 1})"
            )
            self._current.execute("INSERT INTO days VALUES (?, ?)", (today, last + 1))
        self._current.execute("SELECT set_config('drpn.day', ?, TRUE)", (str(today),))

    def _end(self) -> None:
        """Store the new numbers; a transaction that changes nothing needs no sync."""
        if self.numbers != self._begun:
            self._current.execute("UPDATE counter SET last = ?, day = ?", (self.numbers.last, self.numbers.day))

    def _roll_back(self) -> None:
        try:
            if self._connection.info.transaction_status != TransactionStatus.IDLE:
                self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()


class Readers:
    """A pool of connections that read."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._name = name
        self._pool = ConnectionPool(
            kwargs=values,
            min_size=1,
            max_size=_READERS,
            open=True,
            configure=_configure_reader,
            check=_check,
            timeout=_WAIT_SECONDS,
            reconnect_timeout=2.0,  # then the next reader tries again
            num_workers=1,
        )

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        with self._checked_out() as connection, connection.transaction():
            yield PostgresConnection(connection)

    @contextmanager
    def statement(self) -> Iterator[Connection]:
        with self._checked_out() as connection:  # without a transaction the server answers once, not three times
            yield PostgresConnection(connection)

    @contextmanager
    def _checked_out(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with self._pool.connection() as connection:
                yield connection
        except PoolClosed as error:
            raise StoreError("the store is closed; open it again") from error
        except psycopg.Error as error:
            raise StoreError(
                f"the store {self._name} cannot be read: {reason(error)}; check that its server runs"
            ) from error

    def close(self) -> None:
        """Close all connections; those in use close when their readers are done."""
        self._pool.close()


def is_alive(connection: psycopg.Connection[Any]) -> bool:
    """Whether a connection that is not in use can be used; asks the server only if there is reason to doubt."""
    if connection.closed or connection.broken:
        return False
    with _Selector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        if not selector.select(0):  # a server that ended would have sent something
            return True
    with suppress(psycopg.Error):
        ConnectionPool.check_connection(connection)
        return True
    return False


def _check(connection: psycopg.Connection[Any]) -> None:
    if not is_alive(connection):
        raise psycopg.OperationalError("the connection was lost")


def _configure_reader(connection: psycopg.Connection[Any]) -> None:
    connection.autocommit = True
    _set_up(connection)
    connection.execute("SET default_transaction_read_only = on")
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ


def _set_up(connection: psycopg.Connection[Any]) -> None:
    # numbers of one type make one prepared statement, whatever their size
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.execute(_SETTINGS)


@lru_cache(maxsize=512)
def _for_rows(sql: str, count: int) -> str:
    """A statement that inserts one row, for several rows."""
    return _ROW.sub(lambda row: ", ".join([row[0]] * count), sql, count=1)


@lru_cache(maxsize=512)
def _translated(sql: str) -> bytes:
    """A statement with the place holders of psycopg."""
    assert "%" not in sql
    return sql.replace("?", "%s").encode()

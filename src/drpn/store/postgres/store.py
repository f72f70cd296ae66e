"""The store in a PostgreSQL database, for services on several machines.

Every process has one thread that writes, with one commit for each group of changes. The server syncs each commit to its
disk, and lets one process write at a time. Readers never wait for writers.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

import psycopg

from drpn.errors import StoreError
from drpn.store.postgres.connections import PostgresSession, Readers, connect, parameters, reason
from drpn.store.postgres.dialect import PostgresChanges
from drpn.store.postgres.schema import prepare, read_secret
from drpn.store.settings import StoreSettings
from drpn.store.sql.dialect import Connection
from drpn.store.sql.store import SqlStore


class PostgresStore(SqlStore):
    """A `Store` in the schema `drpn` of a database."""

    def __init__(self, url: str, name: str, settings: StoreSettings, clock: Callable[[], datetime]) -> None:
        """`name` is the URL without the password, for messages."""
        values = parameters(url, name)
        try:
            connection = connect(values)
        except psycopg.Error as error:
            raise StoreError(
                f"the store {name} cannot be opened: {reason(error)}; start its server, or correct the address, the "
                "database, the user and the password"
            ) from error
        try:
            prepare(connection, name)
            secret = read_secret(connection)
        except psycopg.Error as error:
            connection.close()
            raise StoreError(
                f"the store {name} cannot be used: {reason(error)}; use a database in which the user may make tables"
            ) from error
        except StoreError:
            connection.close()
            raise
        self._session = PostgresSession(connection, partial(connect, values), clock)
        super().__init__(
            settings,
            clock,
            changes=PostgresChanges(self._session.numbers, settings, clock, secret),
            readers=Readers(values, name),
            session=self._session,
        )

    def close(self) -> None:
        super().close()
        self._session.close()

    def _bytes(self, connection: Connection) -> int:
        return int(connection.execute("SELECT pg_database_size(current_database())").fetchone()[0])

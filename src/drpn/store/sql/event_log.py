"""The log of a store in a database: events are appended, requests with a key counted once, users given a row."""

import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from drpn.errors import EventTimeError, RepeatedKeyError
from drpn.store.encoding import KINDS, encode
from drpn.store.moments import microseconds
from drpn.store.records import Happening, Receipt, as_utc
from drpn.store.settings import StoreSettings
from drpn.store.sql.dialect import Connection, Cursor, Dialect

_SECONDS = 1_000_000


class EventLog(ABC):
    """The log, idempotency keys, event times and users, which changes of a store need."""

    def __init__(self, dialect: Dialect, settings: StoreSettings, clock: Callable[[], datetime], secret: bytes) -> None:
        self.dialect, self._settings, self._clock, self._secret = dialect, settings, clock, secret

    @abstractmethod
    def append_event(self, connection: Connection, kind: str, time: int, user: int | None, body: str) -> int:
        """Append a row to the log; returns its sequence number."""

    def keyed_hash(self, kind: str, text: str) -> bytes:
        """A hash that only this store can compute, so that nobody can find the text by trying."""
        return hmac.digest(self._secret, f"{kind}\0{text}".encode(), "sha256")[:16]

    def derived_key(self, purpose: str) -> bytes:
        """A key that only this store can compute."""
        return hmac.digest(self._secret, f"derived key\0{purpose}".encode(), "sha256")

    def once(
        self, connection: Connection, key: str | None, content: Callable[[], str], change: Callable[[], Receipt]
    ) -> Receipt:
        """Apply a change unless its idempotency key was used; then acknowledge it again, or refuse other content."""
        if key is None:
            return change()
        hashed, fingerprint = self.keyed_hash("key", key), self.keyed_hash("content", content())
        now = microseconds(self._clock())
        row = connection.execute("SELECT content, sequence, time FROM requests WHERE key = ?", (hashed,)).fetchone()
        if row is not None and row[2] >= now - self._key_time:
            if not hmac.compare_digest(row[0], fingerprint):
                raise RepeatedKeyError("the idempotency key was used for other content; use a new key")
            return Receipt(row[1], repeated=True)
        receipt = change()
        connection.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET content = excluded.content, "
            "sequence = excluded.sequence, time = excluded.time",
            (hashed, fingerprint, receipt.sequence, now),
        )
        return receipt

    @property
    def _key_time(self) -> int:
        return int(self._settings.key_hours * 3600 * _SECONDS)

    def _event_time(self, time: datetime | None) -> int:
        """The time of an event in microseconds; refuse those in the future and those from before the retention."""
        now = as_utc(self._clock())
        if time is None:
            return microseconds(now)
        time = as_utc(time)
        if time > now + timedelta(seconds=self._settings.future_seconds):
            raise EventTimeError(f"the event of {time.isoformat()} is in the future; now is {now.isoformat()}")
        if time < now - self._settings.retention:
            raise EventTimeError(
                f"the event of {time.isoformat()} is older than {self._settings.retention_days} days, for which events "
                "are kept"
            )
        return microseconds(time)

    def _find_user(self, connection: Connection, user_id: str) -> Cursor:
        return connection.execute('SELECT "user" FROM users WHERE user_id = ?', (user_id,))

    def _user(self, connection: Connection, user_id: str) -> int:
        """The row of a user, who is added if unknown."""
        row = self._find_user(connection, user_id).fetchone()
        return self._add_user(connection, user_id) if row is None else int(row[0])

    def _add_user(self, connection: Connection, user_id: str) -> int:
        row = connection.execute('INSERT INTO users (user_id) VALUES (?) RETURNING "user"', (user_id,)).fetchone()
        return int(row[0])

    def _users(self, connection: Connection, user_ids: Collection[str]) -> dict[str, int]:
        """The rows of some users, who are added if unknown."""
        known = connection.execute(
            f'SELECT user_id, "user" FROM users WHERE user_id {self.dialect.listed}', (json.dumps(list(user_ids)),)
        )
        users: dict[str, int] = dict(known.fetchall())
        return users | {user_id: self._add_user(connection, user_id) for user_id in user_ids if user_id not in users}

    def _log(self, connection: Connection, what: Happening, time: int, user: int | None = None) -> int:
        """Append an event; returns its sequence number."""
        return self.append_event(connection, KINDS[type(what)], time, user, encode(what))

    def _changed(self, connection: Connection, user: int, sequence: int) -> None:
        connection.execute('UPDATE users SET version = ? WHERE "user" = ?', (sequence, user))

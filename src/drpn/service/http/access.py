"""Who may call the service: keys, scopes and names of hosts."""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from http import HTTPStatus

from fastapi import Request

from drpn.service.http.errors import HttpError
from drpn.service.http.settings import HttpSettings
from drpn.store.base import Store
from drpn.store.keys import SCOPES, digest_of, find_key
from drpn.store.records import KeyRecord

ANY = "any"
"""Stands for any scope: every key will do."""


class Access:
    """Checks keys against those of the store, which are read again every few seconds, and those of the settings."""

    def __init__(self, store: Store, settings: HttpSettings) -> None:
        self._store, self._settings = store, settings
        self._own = [_record(key, number) for number, key in enumerate(settings.keys)]
        self._stored: list[KeyRecord] = store.api_keys()
        self._read_at = time.monotonic()

    async def check(self, request: Request, scope: str) -> None:
        """Refuse a request that has no key, or one without the scope."""
        if time.monotonic() - self._read_at > self._settings.keys_seconds:
            self._read_at = time.monotonic()  # other requests use the old keys meanwhile
            self._stored = await asyncio.to_thread(self._store.api_keys)
        records = [*self._own, *self._stored]
        if not (self._settings.keys_required or any(record.revoked is None for record in records)):
            return
        key = _bearer(request.headers.getlist("authorization"))
        record = None if key is None else find_key(records, key)
        if record is None:
            message = "the request has no key" if key is None else "the key is not known or was revoked"
            raise HttpError(
                HTTPStatus.UNAUTHORIZED,
                "no_key",
                message,
                remedy="send Authorization: Bearer KEY",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if scope != ANY and scope not in record.scopes:
            raise HttpError(
                HTTPStatus.FORBIDDEN, "no_scope", f"the key does not have the scope '{scope}'", remedy="use another key"
            )


def _bearer(headers: list[str]) -> str | None:
    """The key of the Authorization header, if it has one."""
    if len(headers) != 1:
        return None
    kind, _, key = headers[0].partition(" ")
    return key.strip() if kind.lower() == "bearer" and key.strip() else None


def _record(key: str, number: int) -> KeyRecord:
    return KeyRecord(f"settings-{number}", "settings", frozenset(SCOPES), digest_of(key), datetime.now(UTC))


def host_allowed(host: str, allowed: Iterable[str]) -> bool:
    """Whether a Host header names this service, whatever its port."""
    name, bracket, _ = host.partition("]")
    name = name.removeprefix("[") if bracket else host.rsplit(":", 1)[0] if host.count(":") == 1 else host
    return any(choice in ("*", name.lower()) for choice in allowed)

"""Who may see the page: everybody if the service has no key, otherwise those with a key that reads profiles."""

from datetime import UTC, datetime

from drpn.service.http.settings import HttpSettings
from drpn.store.base import Store
from drpn.store.keys import SCOPES, digest_of, find_key
from drpn.store.records import KeyRecord

SCOPE = "profiles"
"""The scope that the page needs."""


class Keys:
    """The keys of the store and of the settings."""

    def __init__(self, store: Store, settings: HttpSettings) -> None:
        self._store, self._required = store, settings.keys_required
        self._own = [
            KeyRecord(f"settings-{number}", "settings", frozenset(SCOPES), digest_of(key), datetime.now(UTC))
            for number, key in enumerate(settings.keys)
        ]

    def records(self) -> list[KeyRecord]:
        """All keys that are in use, read from the store."""
        return [record for record in (*self._own, *self._store.api_keys()) if record.revoked is None]

    def needed(self, records: list[KeyRecord]) -> bool:
        """Whether visitors must log in."""
        return self._required or bool(records)


def digest(records: list[KeyRecord], key_id: str) -> bytes | None:
    """The digest of a key that may see the page; None for all others."""
    return next((record.digest for record in records if record.key_id == key_id and SCOPE in record.scopes), None)


def check_key(records: list[KeyRecord], key: str) -> KeyRecord | str:
    """The record of a key that may see the page, or why it may not."""
    record = find_key(records, key)
    if record is None:
        return "This key is not known or was revoked."
    if SCOPE not in record.scopes:
        return f"This key may not read profiles. Use one with the scope “{SCOPE}”."
    return record

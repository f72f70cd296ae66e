"""API keys: who may call the service, and for what.

A key is 32 random bytes, so nobody can find it by trying, however fast the hash: a plain SHA-256 of it is stored, no
slow hash such as scrypt, which is for passwords and would cost every request milliseconds. The key itself is shown
once, when it is made. Digests are compared in constant time.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime

from drpn.errors import SettingsError
from drpn.store.base import Store
from drpn.store.records import KeyRecord, check_text

SCOPES = ("events", "rank", "profiles", "admin")
"""Write events and news; rank; read profiles and explanations; everything else, such as erasing and reloading."""
_PREFIX = "drpn"
_NAME_LENGTH = 100


def create_key(store: Store, name: str, scopes: Iterable[str], now: datetime) -> tuple[str, KeyRecord]:
    """Make a key; returns the key, which is not stored, and its record."""
    chosen = frozenset(scopes)
    unknown = chosen - set(SCOPES)
    if unknown or not chosen:
        wrong = f"'{min(unknown)}' is no scope" if unknown else "a key needs a scope"
        raise SettingsError(f"{wrong}; choose from {', '.join(SCOPES)}")
    check_text("name", name)
    if not name.strip() or len(name) > _NAME_LENGTH:
        raise SettingsError(f"the name of a key has {len(name)} letters; it takes 1 to {_NAME_LENGTH}")
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    key = f"{_PREFIX}_{key_id}_{secret}"
    record = KeyRecord(key_id, name, chosen, digest_of(key), now)
    store.add_api_key(record)
    return key, record


def find_key(records: Iterable[KeyRecord], key: str) -> KeyRecord | None:
    """The record of a key that is in use; None for all others.

    `records` are those of `Store.api_keys`, which a service may keep for some seconds.
    """
    digest = digest_of(key)
    match = None
    for record in records:  # all are compared, so that the time says nothing about which one fits
        if hmac.compare_digest(record.digest, digest) and record.revoked is None:
            match = record
    return match


def revoke_key(store: Store, key_id: str, now: datetime) -> None:
    """Revoke a key; it does not work any more."""
    if not store.revoke_api_key(key_id, now):
        raise SettingsError(f"there is no key '{key_id}' in use; list the keys to see their ids")


def digest_of(key: str) -> bytes:
    """The hash of a key, which is all that is stored of it."""
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()

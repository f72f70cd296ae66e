"""Impression ids that only this service can have made.

An id holds a random number, the time at which it expires, the variant and the bundle, and a keyed hash (HMAC-SHA256,
128 bits of it) of all that and of the user id. Nobody without the key can make one, or use one for another user.
"""

import base64
import binascii
import hmac
import os
import random
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from drpn.errors import ImpressionIdError, StoreError

PREFIX = "r1."
"""How signed ids begin; a site's own ids must begin differently."""
KEY_BYTES = 32
_HASH_BYTES, _NUMBER_BYTES = 16, 12
_NAME_LENGTH = 60


@dataclass(frozen=True)
class Issued:
    """The content of a signed id."""

    expires: datetime
    bundle: str
    variant: str


class Signer:
    """Makes and checks impression ids."""

    def __init__(self, key: bytes, valid: timedelta) -> None:
        if len(key) < KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes; it takes {KEY_BYTES} or more")
        self._key, self._valid = key, valid
        self._random = random.Random(secrets.randbits(256))  # ids must differ; the hash is what nobody can guess

    def issue(self, user_id: str, bundle: str, variant: str, now: datetime) -> str:
        """A new id for a page of a user."""
        expires = int((now + self._valid).timestamp())
        body = ".".join([self.number(), f"{expires:x}", _text(variant), _text(bundle)])
        return f"{PREFIX}{body}.{self._hash(body, user_id)}"

    def number(self) -> str:
        """A random number that no other page view has."""
        return base64.urlsafe_b64encode(self._random.randbytes(_NUMBER_BYTES)).decode()

    def check(self, impression_id: str, user_id: str, now: datetime | None) -> Issued:
        """The content of an id; raises `ImpressionIdError` if it is forged, of another user or, at `now`, expired."""
        body, separator, given = impression_id.removeprefix(PREFIX).rpartition(".")
        expected = self._hash(body, user_id)
        if not separator or not hmac.compare_digest(expected.encode(), given.encode(errors="surrogatepass")):
            raise ImpressionIdError("the impression id is not one that this user was given; use the id of the ranking")
        _, expires, variant, bundle = body.split(".")
        moment = datetime.fromtimestamp(int(expires, 16), UTC)
        if now is not None and now > moment:
            raise ImpressionIdError(f"the impression id expired at {moment.isoformat()}; rank again to get a new one")
        return Issued(moment, _read(bundle), _read(variant))

    def _hash(self, body: str, user_id: str) -> str:
        message = body.encode(errors="surrogatepass") + b"\0" + user_id.encode(errors="surrogatepass")
        digest = hmac.digest(self._key, message, "sha256")
        return base64.urlsafe_b64encode(digest[:_HASH_BYTES]).decode().rstrip("=")


def is_signed(impression_id: str) -> bool:
    """Whether an id claims to be signed."""
    return impression_id.startswith(PREFIX)


def load_key(file: Path) -> bytes:
    """The key in a file, which is made if it does not exist; only its owner may read it."""
    if not file.exists():
        _make_key(file)
    try:
        key = binascii.unhexlify(file.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise StoreError(f"{file} holds no key: {error}; delete it to get a new one") from error
    if len(key) < KEY_BYTES:
        raise StoreError(f"{file} holds a key of {len(key)} bytes; delete it to get a new one")
    return key


def _make_key(file: Path) -> None:
    """Write a key, whole or not at all; a process that was quicker wins."""
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # only its owner may read it
    except OSError as error:
        raise StoreError(f"the key {file} cannot be made: {error}; choose another folder") from error
    try:
        with os.fdopen(handle, "w") as made:
            made.write(secrets.token_hex(KEY_BYTES))
            made.flush()
            os.fsync(made.fileno())
        with suppress(FileExistsError):
            os.link(scratch, file)
    except OSError as error:
        raise StoreError(f"the key {file} cannot be made: {error}; choose another folder") from error
    finally:
        Path(scratch).unlink()


def _text(name: str) -> str:
    """A name as letters that an id may have."""
    return base64.urlsafe_b64encode(name[:_NAME_LENGTH].encode(errors="replace")).decode().rstrip("=")


def _read(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode(errors="replace")

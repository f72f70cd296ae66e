"""Signed session cookies, and the tokens that protect forms against requests from other sites.

A cookie holds a random number, the id of the key that opened the session and the time at which it expires, and a keyed
hash of all that. The hash also covers the digest of the key, so that a revoked or replaced key ends its sessions. The
secret lives as long as the service: sessions end when it stops.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import Response

COOKIE = "drpn_session"
NOBODY = "-"
"""Stands for the key of a visitor who has not logged in."""
_SECONDS = 8 * 3600
"""How long a session lasts: a working day."""


@dataclass(frozen=True)
class Session:
    """One visitor."""

    number: str
    key_id: str
    expires: int
    """Seconds since 1970."""


class Sessions:
    """Makes and checks cookies and form tokens."""

    def __init__(self, clock: Callable[[], float] = time.time, secret: bytes | None = None) -> None:
        self._secret, self._clock = secret or secrets.token_bytes(32), clock

    def new(self, key_id: str = NOBODY) -> Session:
        """A session that begins now."""
        return Session(secrets.token_urlsafe(16), key_id, int(self._clock()) + _SECONDS)

    def cookie(self, session: Session, digest: bytes = b"") -> str:
        """The signed text of a session; `digest` is that of the key that opened it."""
        body = f"{session.number}.{session.key_id}.{session.expires}"
        return f"{body}.{self._hash('session', body.encode() + digest)}"

    def read(self, cookie: str | None, digest_of: Callable[[str], bytes | None]) -> Session | None:
        """The session of a cookie; None if it is forged, expired, or its key is not in use.

        `digest_of` returns the digest of the key with an id, and None for keys that are not in use.
        """
        parts = (cookie or "").split(".")
        if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdecimal() and len(parts[2]) < 12):
            return None
        session = Session(parts[0], parts[1], int(parts[2]))
        digest = b"" if session.key_id == NOBODY else digest_of(session.key_id)
        if digest is None or session.expires <= self._clock():
            return None
        expected = self.cookie(session, digest)
        return session if hmac.compare_digest(expected.encode(), (cookie or "").encode(errors="replace")) else None

    def token(self, session: Session) -> str:
        """The token of all forms of a session."""
        return self._hash("form", session.number.encode())

    def token_fits(self, session: Session, token: str) -> bool:
        """Whether a form was made for this login."""
        return hmac.compare_digest(self.token(session).encode(), token.encode(errors="replace"))

    def _hash(self, purpose: str, message: bytes) -> str:
        return hmac.new(self._secret, purpose.encode() + b"\0" + message, hashlib.sha256).hexdigest()


def set_cookie(request: Request, response: Response, value: str) -> None:
    """Send the cookie; over HTTPS, also behind a proxy, it is never sent in the clear."""
    outer = request.headers.get("x-forwarded-proto", request.url.scheme).partition(",")[0]
    response.set_cookie(
        COOKIE,
        value,
        max_age=_SECONDS,
        path="/",
        secure=outer.strip().lower() == "https",
        httponly=True,
        samesite="strict",
    )

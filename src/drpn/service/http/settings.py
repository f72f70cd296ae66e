"""Settings of the HTTP edge."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """Limits and access rules of the service."""

    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1", "testserver")
    """Names that the Host header may have; "*" allows all."""
    keys: tuple[str, ...] = ()
    """Keys with every scope, in addition to those of the store."""
    keys_required: bool = False
    """Refuse requests without a key even if no key exists. If any key exists, one is always required."""
    keys_seconds: float = 2.0
    """How long the keys of the store are kept in memory: a revoked key stops working after this time."""
    body_bytes: int = 1 << 20
    """Largest body; larger ones are refused while they are read."""
    body_seconds: float = 10.0
    """Time for a client to send a body."""
    answer_seconds: float = 10.0
    """Time to answer a request; afterwards the answer is 503."""
    running: int = 256
    """Requests that are answered at once; more are refused with 503."""
    bundles: Path | None = None
    """Folder whose bundles can be loaded by name; None refuses every reload."""
    session_secret: bytes | None = None
    """Signs the sessions of the page, the same for all workers of a service; None makes one."""

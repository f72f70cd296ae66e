"""Settings of a store."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class StoreSettings:
    """Limits of a store; the same for every process that opens it."""

    retention_days: int = 365
    """Events older than this are refused, and `Store.delete_expired` deletes them."""
    future_seconds: float = 60.0
    """Events may be this far in the future of the store's clock; clocks differ."""
    key_hours: float = 72.0
    """How long idempotency keys are remembered."""
    waiting: int = 4096
    """Changes that may wait to be written; more are refused with `StoreBusyError`."""
    group: int = 512
    """Changes that are made durable at once at most."""
    rankings_waiting: int = 10_000
    """Logged rankings that may wait to be written; more are dropped and counted."""
    ranking_seconds: float = 1.0
    """Rankings are written at least this often."""

    def __post_init__(self) -> None:
        for name in ("retention_days", "waiting", "group", "rankings_waiting"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 1 or more")
        for name in ("future_seconds", "key_hours", "ranking_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 0 or more")

    @property
    def retention(self) -> timedelta:
        """How long events are kept."""
        return timedelta(days=self.retention_days)

"""Settings of a running newsroom."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NewsroomSettings:
    """Limits and times of a newsroom; each process has its own."""

    seconds: float = 0.25
    """A ranking that takes longer is replaced by popular stories."""
    waiting: int = 256
    """Rankings that may wait; more are refused with `OverloadError`."""
    batch: int = 16
    """Rankings that are computed together at most."""
    batch_seconds: float = 0.0003
    """How long a ranking waits for others to be computed with, if any are on their way."""
    cached_users: int = 50_000
    """Users whose profiles are kept in memory."""
    cached_readers: int = 10_000
    """Users whose encoded profiles are kept in memory; each takes some kilobytes."""
    impression_hours: float = 24.0
    """How long feedback may refer to a ranking."""
    most_candidates: int = 50_000
    """Stories that one request may list."""
    most_stories: int = 1_000
    """Stories that one ranking may return."""
    skip_discount: float = 1.5
    """How far a story goes down for each time that the user was shown and skipped it, in standard deviations of the
    scores of the list; for models that read no counts. 0 turns it off."""
    skip_half_life_hours: float = 24.0
    """After this time a skip lowers a story half as far."""

    def __post_init__(self) -> None:
        for name in ("waiting", "batch", "cached_users", "cached_readers", "most_candidates", "most_stories"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 1 or more")
        for name in ("seconds", "batch_seconds", "impression_hours", "skip_discount"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it takes 0 or more")
        if not self.skip_half_life_hours > 0:
            raise ValueError(f"skip_half_life_hours is {self.skip_half_life_hours}; it takes more than 0")

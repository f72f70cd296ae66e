"""The files that a log is read from, and whether they stay as they are while they are read."""

from dataclasses import dataclass
from pathlib import Path

from drpn.errors import LogError


@dataclass(frozen=True)
class Source:
    """A file, and its state before the first byte was read."""

    file: Path
    state: tuple[int, ...]

    @classmethod
    def before_reading(cls, file: Path) -> "Source":
        """The file as it is now."""
        return cls(file, _state(file))

    def check_unchanged(self) -> None:
        """Refuse a file that was written to or replaced since it was first read."""
        if _state(self.file) != self.state:
            raise LogError(f"{self.file} changed while it was read; wait until nothing writes to it, then repeat")


def _state(file: Path) -> tuple[int, ...]:
    """Device, number, size and time of the last change of a file; empty if the file cannot be read."""
    try:
        facts = file.stat()
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns

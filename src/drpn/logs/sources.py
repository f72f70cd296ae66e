"""The files that a log is read from, and whether they stay as they are while they are read."""

from collections.abc import Iterable
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


def table_files(table: Path) -> list[Path]:
    """The files of a table: the file itself, or those of a folder such as impressions.parquet/day=2026-01-31/."""
    if not table.is_dir():
        return [table]
    files = [
        file
        for file in table.rglob(f"*{table.suffix}")
        if file.is_file() and not any(part.startswith(("_", ".")) for part in file.relative_to(table).parts)
    ]
    return sorted(files) or [table]


def sources_of(tables: Iterable[Path]) -> tuple[Source, ...]:
    """The files of the tables as they are now."""
    return tuple(Source.before_reading(file) for table in tables for file in table_files(table))


def _state(file: Path) -> tuple[int, ...]:
    """Device, number, size and time of the last change of a file; empty if the file cannot be read."""
    try:
        facts = file.stat()
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns

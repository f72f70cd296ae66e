"""One copy of the encoded stories of a bundle for several processes on a machine.

The first process that asks encodes the stories and writes their tables to files; the others wait for it. All of them
map the files: the system keeps one copy of the pages in memory. A mapping is private: a process that writes to a row,
for a story that was put later, copies the few pages of this row and changes nothing for the others. Behind the rows of
the files there is space for such stories, which takes no memory before it is used.
"""

import fcntl
import hashlib
import json
import mmap
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drpn.bundle.files import MANIFEST
from drpn.errors import OutputError, RunError
from drpn.layers.tables import map_tables

ROWS_AT_ONCE = 512
"""Stories that are encoded and written together."""
_SPARE = 1.0
"""Space for later stories, as a share of the first ones."""
_FEWEST_SPARE = 4096
_FACTS = "facts.json"
_PRIVATE = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)

Encode = Callable[[slice], tuple[Any, Any]]
"""The encoded and the derived tables of some of the first rows; derived ones are None if there are none."""


class SharedTables:
    """The tables of one bundle in a folder that some processes share."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        self._folder, self._name = folder, tables_name(bundle)

    def open(self, count: int, encode: Encode) -> tuple[Any, Any, int]:
        """Encoded and derived tables of `count` stories, and how many rows they have; `encode` may not be called."""
        made = self._folder / self._name
        with _locked(self._folder / f"{self._name}.lock"):
            if not (made / _FACTS).is_file():
                try:
                    _write(made, count, encode)
                except OSError as error:
                    shutil.rmtree(made, ignore_errors=True)
                    raise OutputError(
                        f"the tables of the stories cannot be written to {made}: {error.strerror}; free space there, "
                        "or set TMPDIR to another folder"
                    ) from error
        facts = json.loads((made / _FACTS).read_text())
        if facts["count"] != count:
            raise RunError(f"the tables in {made} are of {facts['count']} stories, not of {count}; start again")
        rows = count + max(_FEWEST_SPARE, int(_SPARE * count))
        encoded, derived = encode(slice(1))
        files = _Files(made)
        encoded = map_tables(lambda table: files.mapped(table, rows), encoded)
        if not facts["derived"]:
            return encoded, None, rows
        return encoded, map_tables(lambda table: files.mapped(table, rows), derived), rows


def tables_name(bundle: Path) -> str:
    """The name of a bundle's tables: its manifest has the checksums of all its files."""
    return f"tables-{hashlib.sha256((bundle / MANIFEST).read_bytes()).hexdigest()[:32]}"


def remove_others(folder: Path, bundles: list[Path]) -> None:
    """Remove the tables of all but some bundles; processes that still map them keep them until they let go."""
    kept = {tables_name(bundle) for bundle in bundles}
    for path in folder.glob("tables-*"):
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix == ".readers" and path.stem not in kept:
            path.unlink()


class _Files:
    """A file for each table, in the order in which `map_tables` meets them; one that occurs twice has one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[int, tuple[Tensor, int]] = {}
        self._mapped: dict[int, Tensor] = {}

    def number(self, table: Tensor) -> int:
        """The number of a table; it is kept, so that no other gets its id."""
        return self._seen.setdefault(id(table), (table, len(self._seen)))[1]

    def path(self, number: int) -> Path:
        return self._folder / f"{number}.bin"

    def mapped(self, like: Tensor, rows: int) -> Tensor:
        """The table of a file, with a row like the first of `like` for each story and space behind them."""
        number = self.number(like)
        if number not in self._mapped:
            row = like.element_size() * prod(like.shape[1:])
            if not row:
                return like.new_empty(rows, *like.shape[1:])
            with self.path(number).open("r+b") as file:
                if file.seek(0, 2) < rows * row:  # the space behind the rows is no part of the disk
                    file.truncate(rows * row)
                private = mmap.mmap(file.fileno(), rows * row, _PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
            table = torch.frombuffer(private, dtype=like.dtype).view(rows, *like.shape[1:])
            self._mapped[number] = table
        return self._mapped[number]


def _write(folder: Path, count: int, encode: Encode) -> None:
    """Write the tables, some rows at a time; the file with the facts says that they are complete."""
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    has_derived = True
    for start in range(0, count, ROWS_AT_ONCE):
        encoded, derived = encode(slice(start, min(start + ROWS_AT_ONCE, count)))
        has_derived = has_derived and derived is not None
        files, written = _Files(folder), set[int]()

        def append(table: Tensor, files: _Files = files, written: set[int] = written) -> None:
            number = files.number(table)
            if number not in written:
                written.add(number)
                with files.path(number).open("ab") as file:
                    file.write(table.contiguous().flatten().view(torch.uint8).numpy().data)

        map_tables(append, encoded)
        if has_derived:
            map_tables(append, derived)
    (folder / _FACTS).write_text(json.dumps({"count": count, "derived": has_derived}))


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Wait for other processes; the lock ends with the block, or with the process."""
    with file.open("a") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield

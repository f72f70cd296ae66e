"""Find the line of a log file that breaks the format.

Queries only count bad rows. If there are any, a `FaultFinder` re-reads the files line by line to find the first one.
"""

import csv
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from drpn.errors import LogError
from drpn.logs.engines.engine import EngineError
from drpn.logs.sources import table_files


class FaultFinder(Protocol):
    """Re-reads log files, slowly, once a query has shown that something is wrong."""

    def first_fault(self) -> str | None:
        """The error message for the first bad line; None if every line is valid."""

    def first_shown(self, news_id: str) -> str:
        """The location of the first line that shows the story."""


@contextmanager
def explain_engine_errors(finder: FaultFinder) -> Iterator[None]:
    """Turn a failed query into a `LogError` that names the bad line."""
    try:
        yield
    except EngineError as error:
        raise LogError(finder.first_fault() or f"the logs cannot be read: {error}") from error


def require_files(*files: Path, root: Path, layout: str) -> None:
    """Check that every file, also of a folder, exists, is readable and is not empty; `layout` describes them."""
    for file in itertools.chain.from_iterable(map(table_files, files)):
        if not file.is_file():
            raise LogError(f"{relative(file, root)} is missing in {root}; {layout}")
        if not os.access(file, os.R_OK):
            raise LogError(f"{file} cannot be read; check its permissions")
        if file.stat().st_size == 0:
            raise LogError(f"{relative(file, root)} is empty; {layout}")


def require_columns(present: Sequence[str], needed: Sequence[str], file: Path, root: Path) -> None:
    """Check that the file has every needed column."""
    missing = [name for name in needed if name not in present]
    if missing:
        names = ", ".join(present) or "none"
        raise LogError(f"{relative(file, root)} has no column '{missing[0]}'; its columns are: {names}")


def relative(file: Path, root: Path) -> str:
    """The path of the file relative to the folder that the user passed."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def text_lines(file: Path, root: Path) -> Iterator[tuple[str, str]]:
    """(location, line without its newline) for every line of a table; a LogError where it is not UTF-8."""
    for part in table_files(file):
        yield from _lines(part, root)


def _lines(file: Path, root: Path) -> Iterator[tuple[str, str]]:
    name = relative(file, root)
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                yield f"{name}:{number}", raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                bad_byte = raw[error.start : error.start + 1].hex()
                raise LogError(f"{name}:{number}: byte 0x{bad_byte} is not UTF-8; convert the file to UTF-8") from error


def records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(location, values by column name) for every row of a CSV, JSON Lines or Parquet table."""
    read = {".csv": _csv_records, ".parquet": _parquet_records}.get(file.suffix, _json_records)
    return itertools.chain.from_iterable(read(part, root) for part in table_files(file))


def _csv_records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = _lines(file, root)
    rows = csv.reader((text + "\n" for _, text in lines), strict=True)
    header = next(rows)
    try:
        for row in rows:
            location = f"{relative(file, root)}:{rows.line_num}"
            if len(row) != len(header):
                raise LogError(f"{location}: {len(row)} columns where the header has {len(header)}")
            yield location, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise LogError(f"{relative(file, root)}:{rows.line_num}: {error}") from error


def _json_records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for location, line in _lines(file, root):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise LogError(f"{location}: not a JSON object: {error.msg}") from error
        if not isinstance(record, dict):
            raise LogError(f"{location}: not a JSON object: {line[:40]!r}")
        yield location, record


def _parquet_records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    name = relative(file, root)
    numbers = itertools.count(1)
    try:
        for batch in pq.ParquetFile(file).iter_batches():
            for record in batch.to_pylist():
                yield f"{name}: row {next(numbers)}", record
    except pa.ArrowException as error:
        raise LogError(f"{name} is not a Parquet file: {str(error).splitlines()[0]}") from error

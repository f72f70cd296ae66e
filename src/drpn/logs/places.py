"""Reading log files again line by line, to say where a problem stands."""

import csv
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from drpn.errors import LogError


def require_files(*files: Path, root: Path, layout: str) -> None:
    """Each of `files` is there and not empty; `layout` says what was expected."""
    for file in files:
        if not file.is_file():
            raise LogError(f"{relative(file, root)} is missing in {root}; {layout}")
        if not os.access(file, os.R_OK):
            raise LogError(f"{file} cannot be read; check its permissions")
        if file.stat().st_size == 0:
            raise LogError(f"{relative(file, root)} is empty; {layout}")


def relative(file: Path, root: Path) -> str:
    """The file as seen from the folder the user named."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def text_lines(file: Path, root: Path) -> Iterator[tuple[str, str]]:
    """(place, line without its end) of a text file; a LogError where it is not UTF-8."""
    name = relative(file, root)
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                yield f"{name}:{number}", raw.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                wrong = raw[error.start : error.start + 1].hex()
                raise LogError(f"{name}:{number}: byte 0x{wrong} is not UTF-8; convert the file to UTF-8") from error


def records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, columns by name) of a CSV, JSON Lines or Parquet file."""
    if file.suffix == ".csv":
        return _csv_records(file, root)
    if file.suffix == ".parquet":
        return _parquet_records(file, root)
    return _json_records(file, root)


def _csv_records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    lines = text_lines(file, root)
    rows = csv.reader((text + "\n" for _, text in lines), strict=True)
    header = next(rows)
    try:
        for row in rows:
            place = f"{relative(file, root)}:{rows.line_num}"
            if len(row) != len(header):
                raise LogError(f"{place}: {len(row)} columns where the header has {len(header)}")
            yield place, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise LogError(f"{relative(file, root)}:{rows.line_num}: {error}") from error


def _json_records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, line in text_lines(file, root):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise LogError(f"{place}: not a JSON object: {error.msg}") from error
        if not isinstance(record, dict):
            raise LogError(f"{place}: not a JSON object: {line[:40]!r}")
        yield place, record


def _parquet_records(file: Path, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    name = relative(file, root)
    numbers = itertools.count(1)
    try:
        for batch in pq.ParquetFile(file).iter_batches():
            for record in batch.to_pylist():
                yield f"{name}: row {next(numbers)}", record
    except pa.ArrowException as error:
        raise LogError(f"{name} is not a Parquet file: {str(error).splitlines()[0]}") from error


def require_columns(present: Sequence[str], needed: Sequence[str], file: Path, root: Path) -> None:
    """Each of `needed` is a column of the file."""
    missing = [name for name in needed if name not in present]
    if missing:
        found = ", ".join(present) or "none"
        raise LogError(f"{relative(file, root)} has no column '{missing[0]}'; its columns are: {found}")

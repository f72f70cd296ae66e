"""The interface of a query engine: read files, materialize tables, stream results.

Queries elsewhere are Ibis expressions and run on any engine that implements `Engine`.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import ibis.expr.types as ir
import pyarrow as pa

from drpn.errors import LogError
from drpn.logs.sources import table_files


class EngineError(Exception):
    """A query failed; callers look for the bad line in the logs before they report it."""


class Engine(Protocol):
    """The operations that differ between query engines. A folder of files is read as one table."""

    def read_tsv(self, file: Path, columns: Sequence[str]) -> ir.Table:
        """A tab-separated file without header or quoting; every column is text."""

    def read_csv(self, file: Path) -> ir.Table:
        """A CSV file with a header; every column is text."""

    def read_json_lines(self, file: Path) -> ir.Table:
        """A file with one JSON object per line."""

    def read_parquet(self, file: Path) -> ir.Table:
        """A Parquet file."""

    def materialize(self, name: str, expression: ir.Table, *, by: str | None = None) -> ir.Table:
        """Compute the expression once and store its rows as table `name`.

        `by` is a column with few values, such as the day: queries for some of them need not read the rows of others.
        """

    def stream(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        """The expression's rows in Arrow batches, never all in memory at once."""

    def release_memory(self) -> None:
        """Give back memory that holds parts of stored tables; later queries read them from disk again."""

    def single_row(self, expression: ir.Table) -> dict[str, Any]:
        """The one row of an aggregate."""


def csv_columns(file: Path) -> list[str]:
    """The names in the header of a CSV table; all files of a folder must have the same."""
    headers = []
    for part in table_files(file):
        with part.open(encoding="utf-8", newline="") as stream:
            headers.append(next(csv.reader(stream), []))
        if headers[-1] != headers[0]:
            raise LogError(f"{part} has other columns than {table_files(file)[0].name}; write the same header in all")
    return headers[0]

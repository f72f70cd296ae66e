"""What every query engine offers: it opens files, keeps tables and streams results.

Queries elsewhere are Ibis expressions, which run on any engine that fits `Engine`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import ibis.expr.types as ir
import pyarrow as pa


class EngineError(Exception):
    """The engine could not run a query; readers look for the line at fault before they pass it on."""


class Engine(Protocol):
    """What differs between one query engine and another."""

    def tab_separated(self, file: Path, columns: Sequence[str]) -> ir.Table:
        """A file without header or quoting, every column text."""

    def comma_separated(self, file: Path) -> ir.Table:
        """A CSV file with a header, every column text."""

    def json_lines(self, file: Path) -> ir.Table:
        """One JSON object a line."""

    def parquet(self, file: Path) -> ir.Table:
        """A Parquet file."""

    def keep(self, name: str, expression: ir.Table) -> ir.Table:
        """The expression's rows, computed once."""

    def rows(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        """The expression's rows as Arrow batches, never all at once."""

    def one(self, expression: ir.Table) -> dict[str, Any]:
        """The single row of an aggregate."""

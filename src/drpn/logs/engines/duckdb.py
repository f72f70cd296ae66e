"""DuckDB in this process: the default engine."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
from ibis.backends.duckdb import Backend as DuckDBBackend

from drpn.errors import LogError, OutputError
from drpn.logs.engines.engine import EngineError, csv_columns
from drpn.logs.sources import table_files

_BATCH_ROWS = 1 << 20
_LITTLE_MEMORY = "64MB"
_NO_PARTITIONS = {"hive_partitioning": False}
"""A folder called `clicked=1` adds no column and hides none."""


class DuckDB:
    """DuckDB in this process; tables and spilled data are stored in `scratch`."""

    def __init__(self, scratch: Path, *, memory: str = "2GB", threads: int | None = None) -> None:
        self._scratch, self._memory = scratch, memory
        path = str(scratch.resolve())
        if "?" in path or not _is_text(path):  # before a question mark DuckDB writes `.wal`, so into another folder
            raise OutputError(
                f"{scratch.parent}: DuckDB cannot write to a path with a question mark or with characters that are not "
                "UTF-8; choose another"
            )
        settings: dict[str, Any] = {
            "memory_limit": memory,
            "temp_directory": str(scratch / "spill"),
            "preserve_insertion_order": False,  # no query relies on it, and preserving it costs memory
        }
        if threads is not None:
            settings["threads"] = threads
        with _translate_errors(scratch):
            self._connection: DuckDBBackend = ibis.duckdb.connect(scratch / "tables.duckdb", **settings)
            self._connection.raw_sql("SET enable_progress_bar = false")  # it would write to standard output

    def read_tsv(self, file: Path, columns: Sequence[str]) -> ir.Table:
        return self._read_delimited(file, delim="\t", header=False, quote="", columns=dict.fromkeys(columns, "VARCHAR"))

    def read_csv(self, file: Path) -> ir.Table:
        columns = dict.fromkeys(csv_columns(file), "VARCHAR")
        return self._read_delimited(file, delim=",", header=True, quote='"', columns=columns)

    def _read_delimited(self, file: Path, **options: Any) -> ir.Table:
        options |= {"auto_detect": False, "escape": options["quote"], **_NO_PARTITIONS}
        with _translate_errors(self._scratch):
            return self._connection.read_csv(self._patterns(file), **options)

    def read_json_lines(self, file: Path) -> ir.Table:
        with _translate_errors(self._scratch):
            paths, options = self._patterns(file), {"format": "newline_delimited", "sample_size": -1, **_NO_PARTITIONS}
            return self._connection.read_json(paths, **options)

    def read_parquet(self, file: Path) -> ir.Table:
        with _translate_errors(self._scratch):
            return self._connection.read_parquet(self._patterns(file), **_NO_PARTITIONS)

    def _patterns(self, table: Path) -> list[str]:
        return [self._literal(file) for file in table_files(table)]

    def _literal(self, file: Path) -> str:
        """The pattern that matches this file alone: DuckDB takes every path as a pattern."""
        path = str(file.resolve())  # DuckDB and Ibis would take the `..` after a link for the folder of the link
        pattern = re.sub(r"[*?[]", r"[\g<0>]", path)
        query = "SELECT file FROM glob(?)"
        if not _is_text(path) or self._connection.con.execute(query, [pattern]).fetchall() != [(path,)]:
            raise LogError(
                f"{file} cannot be passed to DuckDB by its name; rename its folders, without backslashes and "
                "characters that are not UTF-8"
            )
        return pattern

    def materialize(self, name: str, expression: ir.Table, *, by: str | None = None) -> ir.Table:  # noqa: ARG002
        # `by` is not needed: DuckDB knows the smallest and largest value of each column in each block of rows
        with _translate_errors(self._scratch):
            return self._connection.create_table(name, expression, overwrite=True)

    def stream(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        with _translate_errors(self._scratch):
            yield from expression.to_pyarrow_batches(chunk_size=_BATCH_ROWS)

    def release_memory(self) -> None:
        # a lower limit makes DuckDB drop what it holds, as far as it can
        with suppress(duckdb.OutOfMemoryException):
            self._connection.con.execute(f"SET memory_limit = '{_LITTLE_MEMORY}'")
        with _translate_errors(self._scratch):
            self._connection.con.execute(f"SET memory_limit = '{self._memory}'")

    def single_row(self, expression: ir.Table) -> dict[str, Any]:
        with _translate_errors(self._scratch):
            row: dict[str, Any] = expression.to_pyarrow().to_pylist()[0]
            return row

    def close(self) -> None:
        """Close the connection and release the database file."""
        self._connection.disconnect()


@contextmanager
def duckdb_engine(scratch: Path, *, memory: str = "2GB") -> Iterator[DuckDB]:
    """A DuckDB engine that is closed when the block ends."""
    engine = DuckDB(scratch, memory=memory)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _translate_errors(scratch: Path) -> Iterator[None]:
    """Raise DuckDB's errors as the package's own."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise LogError(
            f"DuckDB ran out of memory: {_first_line(error)}; raise its memory limit",
            hint="pass a larger limit, such as --memory 4GB",
        ) from error
    except duckdb.IOException as error:
        if "No space left" in str(error) or "out of space" in str(error).lower() or "File too large" in str(error):
            raise OutputError(f"{scratch.parent}: the disk is full; free some space or choose another place") from error
        raise EngineError(_first_line(error)) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise EngineError(_first_line(error)) from error


def _is_text(path: str) -> bool:
    """Whether a path is valid UTF-8; file systems also allow other bytes."""
    return path == path.encode("utf-8", "replace").decode()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]

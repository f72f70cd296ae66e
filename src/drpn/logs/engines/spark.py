"""Spark, on this machine or on a cluster: the engine for logs that are too large for one machine.

Results and stored tables are Parquet files in `scratch`, so on a cluster all workers must see that folder and the logs
under the same paths.
"""

import itertools
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from drpn.errors import LogError, OutputError, SettingsError
from drpn.logs.engines.engine import EngineError, csv_columns
from drpn.logs.sources import table_files

LOCAL = "local[*]"
_BATCH_ROWS = 1 << 17
_LEAST_MEBIBYTES = 512
_JAVA = "Spark needs Java 17 or 21"
_SQL = {
    "spark.sql.ansi.enabled": "true",  # a value that cannot be cast is an error
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",  # one type for all times
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.csv.parser.columnPruning.enabled": "false",  # a line with too few or too many columns is an error
}
_NO_LOG = """rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""
"""No log of Java: errors reach the caller as exceptions. Without an appender Spark would take its own settings."""
_ESCAPES = {"a": r"\u0007", "f": r"\u000C", "v": r"\u000B"}


class Spark:
    """A Spark session; tables and results are stored in `scratch`."""

    def __init__(self, scratch: Path, *, memory: str = "2GB", master: str | None = None) -> None:
        self._scratch, self._numbers = scratch.resolve(), itertools.count(1)
        if not _is_plain(self._scratch):
            raise OutputError(f"{scratch.parent}: Spark takes a path with one of *?[]{{}}\\ for a pattern; rename it")
        self._is_own = SparkSession.getActiveSession() is None
        self._session: SparkSession = _start(self._scratch, _mebibytes(memory), master or LOCAL).newSession()
        for name, value in _SQL.items():
            self._session.conf.set(name, value)
        self._connection = ibis.pyspark.connect(self._session)

    def read_tsv(self, file: Path, columns: Sequence[str]) -> ir.Table:
        with _translate_errors(self._scratch):
            lines = self._session.read.text(_paths(file), lineSep="\n")
            line = F.rtrim(F.validate_utf8("value"), F.lit("\r"))
            fields = F.split(line, "\t", -1)
            complete = F.when(F.size(fields) == len(columns), fields).otherwise(
                F.raise_error(F.lit(f"{file.name}: a line does not have {len(columns)} columns"))
            )
            rows = lines.where(line != "").select(complete.alias("fields"))
            values = [F.nullif(F.col("fields")[index], F.lit("")) for index in range(len(columns))]
            return self._view(rows.select(*[value.alias(name) for name, value in zip(columns, values, strict=True)]))

    def read_csv(self, file: Path) -> ir.Table:
        names = csv_columns(file)
        with _translate_errors(self._scratch):
            self._check_utf8(file)
            rows = self._session.read.csv(
                _paths(file),
                schema=", ".join(f"`{name.replace('`', '``')}` STRING" for name in names),
                header=True,
                quote='"',
                escape='"',
                multiLine=True,
                mode="FAILFAST",
            )
            return self._view(rows.select(*[F.nullif(rows[_quoted(name)], F.lit("")).alias(name) for name in names]))

    def read_json_lines(self, file: Path) -> ir.Table:
        with _translate_errors(self._scratch):
            self._check_utf8(file)
            return self._view(self._session.read.json(_paths(file), mode="FAILFAST"))

    def read_parquet(self, file: Path) -> ir.Table:
        with _translate_errors(self._scratch):
            rows = self._session.read.parquet(*_paths(file))
            kinds = {field.name: str(field.type) for field in pq.read_schema(table_files(file)[0])}
            in_nanoseconds = [name for name in rows.columns if kinds[name].startswith("timestamp[ns")]
            times = {name: F.expr(f"timestamp_micros({_quoted(name)} div 1000)") for name in in_nanoseconds}
            return self._view(rows.withColumns(times) if times else rows)

    def _check_utf8(self, file: Path) -> None:
        """Refuse other bytes: the readers of CSV and JSON would replace them."""
        lines = self._session.read.text(_paths(file), lineSep="\n")
        if not lines.where(~F.is_valid_utf8("value")).isEmpty():
            raise EngineError(f"{file.name} is not UTF-8")

    def materialize(self, name: str, expression: ir.Table, *, by: str | None = None) -> ir.Table:
        with _translate_errors(self._scratch):
            rows = self._query(expression)
            folder = self._write(rows, by)
            return self._view(self._session.read.schema(rows.schema).parquet(f"file://{folder}"), name)

    def stream(self, expression: ir.Table) -> Iterator[pa.RecordBatch]:
        schema = expression.schema().to_pyarrow()
        with _translate_errors(self._scratch):
            folder = self._write(self._query(expression))
            for file in sorted(folder.glob("*.parquet")):  # the files are in the order of the rows
                for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS):
                    yield batch.cast(schema)
            shutil.rmtree(folder)

    def release_memory(self) -> None:
        self._session.sparkContext._jvm.System.gc()

    def single_row(self, expression: ir.Table) -> dict[str, Any]:
        with _translate_errors(self._scratch):
            row: dict[str, Any] = (
                self._query(expression).toArrow().cast(expression.schema().to_pyarrow()).to_pylist()[0]
            )
            return row

    def close(self) -> None:
        """Stop Spark, unless the caller had started it."""
        if self._is_own:
            self._session.stop()

    def _query(self, expression: ir.Table) -> DataFrame:
        # Ibis writes some control characters with escapes that Spark takes for letters
        sql = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), self._connection.compile(expression))
        return self._session.sql(sql)

    def _write(self, rows: DataFrame, by: str | None = None) -> Path:
        """Compute the rows and write them as Parquet files to a new folder, or to one folder for each value of `by`."""
        folder = self._scratch / f"rows{next(self._numbers)}"
        if by is not None:
            rows = rows.hint("rebalance", by)  # few files: workers exchange rows until each has those of few values
        rows.write.partitionBy([] if by is None else [by]).parquet(f"file://{folder}")
        return folder

    def _view(self, rows: DataFrame, name: str | None = None) -> ir.Table:
        name = name or f"file{next(self._numbers)}"
        rows.createOrReplaceTempView(name)
        return self._connection.table(name)


@contextmanager
def spark_engine(scratch: Path, *, memory: str = "2GB", master: str | None = None) -> Iterator[Spark]:
    """A Spark engine that is closed when the block ends."""
    engine = Spark(scratch, memory=memory, master=master)
    try:
        yield engine
    finally:
        engine.close()


def _start(scratch: Path, mebibytes: int, master: str) -> SparkSession:
    java = Path(os.environ["JAVA_HOME"]) / "bin" if os.environ.get("JAVA_HOME") else None
    if shutil.which("java", path=str(java) if java else None) is None:
        raise SettingsError(f"{_JAVA}, and there is none in {java or 'PATH'}; install it or set JAVA_HOME")
    options = {
        "spark.driver.memory": f"{mebibytes}m",
        "spark.local.dir": str(scratch / "spill"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        quiet = scratch / "log4j2.properties"
        quiet.write_text(_NO_LOG)
        options |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile=file:{quiet}"',
            "spark.sql.shuffle.partitions": "32",
        }
    builder = SparkSession.builder.appName("drpn prepare").master(master)
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, PySparkRuntimeError, Py4JError) as error:
        raise SettingsError(f"Spark does not start at {master}: {_cause(error)}; {_JAVA}") from error
    return session


def _mebibytes(memory: str) -> int:
    """A size such as 2GB or 1.5GiB in MiB."""
    size = re.fullmatch(r"([\d.]+)\s*([KMGT])(i?)B", memory, re.IGNORECASE)
    if size is None:
        raise SettingsError(f"memory is {memory!r}; it takes a size such as 2GB")
    base, power = 1024 if size[3] else 1000, "KMGT".index(size[2].upper()) + 1
    mebibytes = int(float(size[1]) * base**power / 2**20)
    if mebibytes < _LEAST_MEBIBYTES:
        raise SettingsError(f"memory is {memory!r}; Spark needs {_LEAST_MEBIBYTES}MiB or more")
    return mebibytes


def _paths(table: Path) -> list[str]:
    return [_path(file) for file in table_files(table)]


def _path(file: Path) -> str:
    path = file.resolve()
    if not _is_plain(path):
        raise LogError(
            f"{file} cannot be passed to Spark by its name; rename its folders, without *?[]{{}}\\ and characters that "
            "are not UTF-8"
        )
    return f"file://{path}"


def _is_plain(path: Path) -> bool:
    """Whether a path is valid UTF-8 without the characters of a pattern."""
    text = str(path)
    return text == text.encode("utf-8", "replace").decode() and not re.search(r"[*?\[\]{}\\]", text)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _translate_errors(scratch: Path) -> Iterator[None]:
    """Raise Spark's errors as the package's own."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if "OutOfMemoryError" in text:
            raise LogError(
                f"Spark ran out of memory: {_cause(error)}; raise its memory limit",
                hint="pass a larger limit, such as --memory 4GB",
            ) from error
        if "No space left" in text or "File too large" in text:
            raise OutputError(f"{scratch.parent}: the disk is full; free some space or choose another place") from error
        raise EngineError(_cause(error)) from error
    except pa.ArrowException as error:
        raise EngineError(_cause(error)) from error


def _cause(error: Exception) -> str:
    """The line of a message that names the first cause."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return causes[-1] if causes else lines[0]

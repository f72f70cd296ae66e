"""Choose the query engine."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from drpn.errors import SettingsError
from drpn.logs.engines.engine import Engine

EngineName = Literal["duckdb", "spark"]


def open_engine(
    name: EngineName, scratch: Path, *, memory: str = "2GB", master: str | None = None
) -> AbstractContextManager[Engine]:
    """An engine that is closed when the block ends; it stores tables and spilled data in `scratch`.

    `master` is the URL of a Spark cluster; by default Spark runs on all cores of this machine.
    """
    if name == "spark":
        try:
            from drpn.logs.engines.spark import spark_engine  # only the chosen engine is loaded
        except ModuleNotFoundError as error:
            raise SettingsError("pyspark is not installed; run: pip install 'drpn[spark]'") from error
        return spark_engine(scratch, memory=memory, master=master)
    if master is not None:
        raise SettingsError(
            f"master is {master}, but DuckDB runs in this process; choose the engine spark",
            hint="pass --engine spark",
        )
    from drpn.logs.engines.duckdb import duckdb_engine

    return duckdb_engine(scratch, memory=memory)

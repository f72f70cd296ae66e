"""The query engine between two queries."""

from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa

from drpn.logs.engines.duckdb import DuckDB, duckdb_engine


def held(engine: DuckDB) -> int:
    """Bytes of memory that DuckDB holds."""
    return int(engine._connection.con.execute("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchall()[0][0])


def test_tables_survive_the_release_of_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 2**38, 25_000_000)
    with duckdb_engine(tmp_path, memory="400MB") as engine:
        numbers = engine.materialize("numbers", ibis.memtable(pa.table({"number": values})))
        query = numbers.aggregate(total=numbers.number.sum())
        assert engine.single_row(query)["total"] == values.sum()
        assert held(engine) > 100e6
        engine.release_memory()
        assert held(engine) < 70e6
        assert engine.single_row(query)["total"] == values.sum()
        assert held(engine) > 100e6  # the limit is what it was

"""The impressions of a split, and the log's optional columns, as arrays."""

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from drpn.dataset.arrays import Array, ArrayWriter
from drpn.logs.engines.engine import Engine
from drpn.prepare.texts import strings
from drpn.schema import Column

DTYPES = {"text": np.int32, "flag": np.int8, "whole": np.int32, "number": np.float32}
"""How an optional column is stored: text as a row of names/, a flag as 0 or 1."""
MISSING = {"text": 0, "flag": -1, "whole": np.iinfo(np.int32).min, "number": np.nan}
"""What stands where the log knows nothing."""


@dataclass(frozen=True)
class SplitWriter:
    """Writes splits: their impressions, candidates and optional columns."""

    engine: Engine
    impressions: ir.Table  # impression, user, impression_id, time, optional columns
    shown: ir.Table  # impression, order, news, clicked, optional columns
    extras: tuple[Column, ...]
    writer: ArrayWriter

    def write(self, name: str, numbers: range) -> None:
        """The split of these impression numbers; impressions of which no news is known are left out."""
        shown = self.shown.filter((self.shown.impression >= numbers.start) & (self.shown.impression < numbers.stop))
        sizes = shown.group_by("impression").aggregate(size=shown.count())
        order = self.impressions.join(sizes, "impression").order_by("impression")
        self._write_heads(name, order)
        self._write_candidates(name, shown.order_by("impression", "order", "news"))

    def _write_heads(self, name: str, order: ir.Table) -> None:
        table = pa.Table.from_batches(list(self.engine.rows(order)), schema=order.schema().to_pyarrow())
        offsets = np.zeros(len(table) + 1, dtype=np.int64)
        np.cumsum(table["size"].to_numpy(), out=offsets[1:])
        self.writer.array(f"{name}/offsets", offsets)
        self.writer.array(f"{name}/user", table["user"].to_numpy().astype(np.int32))
        self.writer.array(f"{name}/time", table["time"].to_numpy().astype("datetime64[us]"))
        self.writer.strings(f"{name}/id", strings(table["impression_id"]))
        for column in self.extras:
            if column.name in self.impressions.columns:
                self.writer.array(f"{name}/{column.name}", stored(table[column.name], column))

    def _write_candidates(self, name: str, order: ir.Table) -> None:
        total = int(self.engine.one(order.aggregate(rows=order.count()))["rows"])
        extras = [column for column in self.extras if column.name in self.shown.columns]
        arrays = {
            "candidates": self.writer.empty(f"{name}/candidates", (total,), np.int32),
            "clicked": self.writer.empty(f"{name}/clicked", (total,), np.bool_),
        }
        arrays |= {
            column.name: self.writer.empty(f"{name}/{column.name}", (total,), DTYPES[column.kind]) for column in extras
        }
        start = 0
        for batch in self.engine.rows(order):
            stop = start + batch.num_rows
            arrays["candidates"][start:stop] = batch["news"].to_numpy()
            arrays["clicked"][start:stop] = batch["clicked"].to_numpy(zero_copy_only=False)
            for column in extras:
                arrays[column.name][start:stop] = stored(batch[column.name], column)
            start = stop


def code_texts(engine: Engine, impressions: ir.Table, extras: tuple[Column, ...], writer: ArrayWriter) -> ir.Table:
    """The impressions with each optional text column as a number, its texts written to names/."""
    for column in extras:
        if column.kind != "text" or column.name not in impressions.columns:
            continue
        texts = impressions.select(column.name).filter(impressions[column.name].notnull()).distinct()
        codes = texts.mutate(code=(ibis.row_number().over(order_by=texts[column.name]) + 1).cast("int32"))
        codes = engine.keep(f"names_{column.name}", codes)
        names = pa.Table.from_batches(list(engine.rows(codes.order_by("code"))), schema=codes.schema().to_pyarrow())
        writer.strings(f"names/{column.name}", strings(names[column.name], padding=True))
        impressions = impressions.left_join(codes, column.name).drop(column.name, f"{column.name}_right")
        impressions = impressions.rename({column.name: "code"})
    return impressions


def stored(values: pa.Array | pa.ChunkedArray, column: Column) -> Array:
    """An optional column as it is stored."""
    kinds = {"number": pa.float32(), "flag": pa.int8()}
    filled = values.cast(kinds.get(column.kind, pa.int32())).fill_null(MISSING[column.kind])
    return np.asarray(filled, dtype=DTYPES[column.kind])

"""Write the impressions of a split and the log's optional columns as arrays."""

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from drpn.dataset.arrays import Array, ArrayWriter
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.preparation.split import Window
from drpn.preparation.texts import strings
from drpn.schema import Column

DTYPES = {"text": np.int32, "flag": np.int8, "whole": np.int32, "number": np.float32}
"""Type of a stored optional column: a text is a row of names/, a flag is 0 or 1."""
MISSING = {"text": 0, "flag": -1, "whole": np.iinfo(np.int32).min, "number": np.nan}
"""Stored value where the log has none."""


PAGE = "page"
"""The one text column that names stories: it is stored as their rows."""


@dataclass(frozen=True)
class SplitWriter:
    """Writes the impressions, candidates and optional columns of splits."""

    engine: Engine
    impressions: ir.Table  # impression, user, impression_id, time, optional columns
    shown: ir.Table  # impression, order, news, clicked, optional columns
    extras: tuple[Column, ...]
    writer: ArrayWriter

    def write(self, name: str, window: Window) -> None:
        """Write the split of this window; impressions without a known story are left out."""
        shown = window.within(self.shown)
        sizes = shown.group_by("impression").aggregate(size=shown.count())
        impressions = window.within(self.impressions).join(sizes, "impression").order_by("impression")
        self._write_impressions(name, impressions)
        self._write_candidates(name, shown.order_by("impression", "order", "news"))

    def _write_impressions(self, name: str, impressions: ir.Table) -> None:
        batches = list(self.engine.stream(impressions))
        table = pa.Table.from_batches(batches, schema=impressions.schema().to_pyarrow())
        if not len(table):  # the windows have impressions, so the choice of users left none
            raise LogError(f"no impressions of users with a profile are left for {name}; keep all users in data.users")
        offsets = np.zeros(len(table) + 1, dtype=np.int64)
        np.cumsum(table["size"].to_numpy(), out=offsets[1:])
        self.writer.array(f"{name}/offsets", offsets)
        self.writer.array(f"{name}/user", table["user"].to_numpy().astype(np.int32))
        self.writer.array(f"{name}/time", table["time"].to_numpy().astype("datetime64[us]"))
        self.writer.strings(f"{name}/id", strings(table["impression_id"]))
        for column in self.extras:
            if column.name in self.impressions.columns:
                self.writer.array(f"{name}/{column.name}", stored(table[column.name], column))

    def _write_candidates(self, name: str, shown: ir.Table) -> None:
        total = int(self.engine.single_row(shown.aggregate(rows=shown.count()))["rows"])
        extras = [column for column in self.extras if column.name in self.shown.columns]
        arrays = {
            "candidates": self.writer.empty(f"{name}/candidates", (total,), np.int32),
            "clicked": self.writer.empty(f"{name}/clicked", (total,), np.bool_),
        }
        arrays |= {
            column.name: self.writer.empty(f"{name}/{column.name}", (total,), DTYPES[column.kind]) for column in extras
        }
        start = 0
        for batch in self.engine.stream(shown):
            stop = start + batch.num_rows
            arrays["candidates"][start:stop] = batch["news"].to_numpy()
            arrays["clicked"][start:stop] = batch["clicked"].to_numpy(zero_copy_only=False)
            for column in extras:
                arrays[column.name][start:stop] = stored(batch[column.name], column)
            start = stop


def code_texts(engine: Engine, impressions: ir.Table, extras: tuple[Column, ...], writer: ArrayWriter) -> ir.Table:
    """The impressions with each optional text column replaced by codes; the texts are written to names/."""
    for column in extras:
        if column.kind != "text" or column.name not in impressions.columns or column.name == PAGE:
            continue
        texts = impressions.select(column.name).filter(impressions[column.name].notnull()).distinct()
        codes = texts.mutate(code=(ibis.row_number().over(order_by=texts[column.name]) + 1).cast("int32"))
        codes = engine.materialize(f"names_{column.name}", codes)
        names = pa.Table.from_batches(list(engine.stream(codes.order_by("code"))), schema=codes.schema().to_pyarrow())
        writer.strings(f"names/{column.name}", strings(names[column.name], padding=True))
        impressions = impressions.left_join(codes, column.name).drop(column.name, f"{column.name}_right")
        impressions = impressions.rename({column.name: "code"})
    return impressions


def stored(values: pa.Array | pa.ChunkedArray, column: Column) -> Array:
    """The values of an optional column in their stored type, with `MISSING` for null."""
    types = {"number": pa.float32(), "flag": pa.int8()}
    filled = values.cast(types.get(column.kind, pa.int32())).fill_null(MISSING[column.kind])
    return np.asarray(filled, dtype=DTYPES[column.kind])

"""Write the impressions of a split and the log's optional columns as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

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
        # stored, because they are counted before they are read, and the sizes come from all shown stories
        impressions = self.engine.materialize(
            f"{name}_impressions", window.within(self.impressions).join(sizes, "impression")
        )
        count = int(self.engine.single_row(impressions.aggregate(rows=impressions.count()))["rows"])
        if not count:  # the windows have impressions, so the choice of users left none
            raise LogError(f"no impressions of users with a profile are left for {name}; keep all users in data.users")
        offsets = self._write_impressions(name, impressions.order_by("impression"), count)
        self._write_candidates(name, shown.order_by("impression", "order", "news"), offsets)

    def _write_impressions(self, name: str, impressions: ir.Table, count: int) -> Array:
        """Write the arrays with a row for each impression; return the offsets of the candidates."""
        extras = [column for column in self.extras if column.name in self.impressions.columns]
        users = self._empty(f"{name}/user", count, np.int32)
        times = self._empty(f"{name}/time", count, "datetime64[us]")
        offsets = self.writer.empty(f"{name}/offsets", (count + 1,), np.int64, self.writer.cuts(count))
        values = {column: self._empty(f"{name}/{column.name}", count, DTYPES[column.kind]) for column in extras}
        start, end = 0, 0
        with self.writer.growing_strings(f"{name}/id", count) as ids:
            for batch in self.engine.stream(impressions):
                stop = start + batch.num_rows
                users[start:stop] = batch["user"].to_numpy()
                times[start:stop] = batch["time"].to_numpy(zero_copy_only=False).astype("datetime64[us]")
                offsets[start + 1 : stop + 1] = end + np.cumsum(batch["size"].to_numpy())
                ids.append(strings(batch["impression_id"]))
                for column, array in values.items():
                    array[start:stop] = stored(batch[column.name], column)
                start, end = stop, int(offsets[stop])
        return offsets

    def _empty(self, name: str, rows: int, dtype: DTypeLike, cuts: Sequence[int] | None = None) -> Array:
        return self.writer.empty(name, (rows,), dtype, cuts)

    def _write_candidates(self, name: str, shown: ir.Table, offsets: Array) -> None:
        total, cuts = int(offsets[-1]), offsets[self.writer.cuts(len(offsets) - 1)].tolist()
        extras = [column for column in self.extras if column.name in self.shown.columns]
        arrays = {
            "candidates": self._empty(f"{name}/candidates", total, np.int32, cuts),
            "clicked": self._empty(f"{name}/clicked", total, np.bool_, cuts),
        }
        arrays |= {
            column.name: self._empty(f"{name}/{column.name}", total, DTYPES[column.kind], cuts) for column in extras
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

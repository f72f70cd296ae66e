"""Rows of tables at some positions, with a gradient that is summed row by row.

Indexing by `table[positions]` is quick, its gradient is not: thousands of positions add into the row of a popular
news, and thousands of padding positions into row 0. Here padding (position 0) has no gradient, and the others are
sorted first, so that each row is summed in few pieces. On a GPU one Triton kernel does that for all tables of a call
after a single sort; elsewhere it is the gradient of `torch.nn.functional.embedding`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding

_SPARSE = "sparse_gradient"


def gather(tables: Sequence[Float[Tensor, "U ?D"]], positions: Int[Tensor, "..."]) -> list[Tensor]:
    """The rows of several tables at the same positions; row 0 is padding and gets no gradient."""
    if positions.is_cuda:
        return list(_Gather.apply(positions, *tables))  # type: ignore[no-untyped-call]
    return [embedding(positions, table, padding_idx=0, sparse=hasattr(table, _SPARSE)) for table in tables]


def give_sparse_gradient(table: Tensor) -> None:
    """From now on the gradient of this parameter, on a CPU, holds the rows that were gathered and no others."""
    setattr(table, _SPARSE, True)


def rows(table: Float[Tensor, "U D"], positions: Int[Tensor, "..."]) -> Float[Tensor, "... D"]:
    """The rows of one table."""
    return gather([table], positions)[0]


class TableRows(NamedTuple):
    """Rows of a table at the positions of sequences, on a GPU: kernels read them there, and nothing is gathered."""

    table: Float[Tensor, "U D"]
    positions: Int[Tensor, "B S"]

    def rows(self) -> Float[Tensor, "B S D"]:
        """Gathered after all."""
        return rows(self.table, self.positions)

    def split(self, sizes: Sequence[int]) -> "list[TableRows]":
        """Columns of the table, so many for each."""
        return [TableRows(part, self.positions) for part in torch.split(self.table, list(sizes), dim=-1)]


def weighted_rows(placed: TableRows, weights: Float[Tensor, "B S"]) -> Float[Tensor, "B D"]:
    """The sum of the rows of each sequence, each by its weight."""
    found: Tensor = _WeightedRows.apply(placed.table, placed.positions, weights)  # type: ignore[no-untyped-call]
    return found


def sort_positions(positions: Int[Tensor, "..."]) -> tuple[Int[Tensor, "P"], Int[Tensor, "P"]]:
    """Positions in their order, and where each of them stood."""
    return tuple(torch.sort(positions.flatten()))  # type: ignore[return-value]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, positions: Tensor, *tables: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(positions)
        ctx.counts = [len(table) for table in tables]
        return tuple(embedding(positions, table) for table in tables)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (positions,) = ctx.saved_tensors
        keys, order = sort_positions(positions)
        sums = [
            segment_sum(gradient.reshape(len(order), gradient.shape[-1]), keys, order, count).to(gradient.dtype)
            for gradient, count in zip(gradients, ctx.counts, strict=True)
        ]
        return (None, *sums)


class _WeightedRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, positions: Tensor, weights: Tensor) -> Tensor:
        from drpn.layers.kernels.segments import weighted_rows as kernel  # Triton comes with torch for GPUs alone

        ctx.save_for_backward(table, positions, weights)
        found: Tensor = kernel(table, positions, weights)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        from drpn.layers.kernels.segments import products_with_rows, weighted_segment_sum

        table, positions, weights = ctx.saved_tensors
        of_table = weighted_segment_sum(gradient, weights, *sort_positions(positions), len(table))
        of_weights = products_with_rows(table, positions, gradient)
        return of_table.to(table.dtype), None, of_weights.to(weights.dtype)


def segment_sum(
    values: Float[Tensor, "P D"], keys: Int[Tensor, "P"], order: Int[Tensor, "P"], count: int
) -> Float[Tensor, "U D"]:
    """For each key the sum of its values, `values[order[i]]` having the sorted key `keys[i]`; nothing for key 0.

    Sums are in float32 at least.
    """
    if values.is_cuda and values.dtype != torch.float64:
        from drpn.layers.kernels.segments import sorted_segment_sum

        summed: Tensor = sorted_segment_sum(values, keys, order, count)
        return summed
    return plain_segment_sum(values, keys, order, count)


def plain_segment_sum(values: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:
    """What the kernel must give: its tested reference."""
    wide = torch.promote_types(values.dtype, torch.float32)
    sums = values.new_zeros(count, values.shape[1], dtype=wide)
    sums.index_add_(0, keys.long(), values[order.long()].to(wide))
    sums[0] = 0
    return sums

"""Rows of tables at positions, with a gradient that is summed row by row.

`table[positions]` is fast, its gradient is not: thousands of positions add into the row of a popular story, and
thousands of padding positions into row 0. Here padding (position 0) gets no gradient, and the other positions are
sorted first, so that each row is summed in few pieces. On a GPU one Triton kernel does that for all tables of a call
after a single sort; on a CPU it is the gradient of `torch.nn.functional.embedding`.
"""

from collections.abc import Sequence
from typing import Any

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


def gather_rows(table: Float[Tensor, "U D"], positions: Int[Tensor, "..."]) -> Float[Tensor, "... D"]:
    """The rows of one table."""
    return gather([table], positions)[0]


def give_sparse_gradient(table: Tensor) -> None:
    """Make the gradient of this parameter sparse on a CPU: it then holds only the rows that were gathered."""
    setattr(table, _SPARSE, True)


def weighted_rows(
    table: Float[Tensor, "U D"], positions: Int[Tensor, "B S"], weights: Float[Tensor, "B S"]
) -> Float[Tensor, "B D"]:
    """The weighted sum of each sequence's rows, read in the table by a GPU kernel."""
    total: Tensor = _WeightedRows.apply(table, positions, weights)  # type: ignore[no-untyped-call]
    return total


def sort_positions(positions: Int[Tensor, "..."]) -> tuple[Int[Tensor, "P"], Int[Tensor, "P"]]:
    """Sorted positions, and the index that each of them had before."""
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
        total: Tensor = kernel(table, positions, weights)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        from drpn.layers.kernels.segments import products_with_rows, weighted_segment_sum

        table, positions, weights = ctx.saved_tensors
        table_gradient = weighted_segment_sum(gradient, weights, *sort_positions(positions), len(table))
        weight_gradient = products_with_rows(table, positions, gradient)
        return table_gradient.to(table.dtype), None, weight_gradient.to(weights.dtype)


def segment_sum(
    values: Float[Tensor, "P D"], keys: Int[Tensor, "P"], order: Int[Tensor, "P"], count: int
) -> Float[Tensor, "U D"]:
    """For each key the sum of its values; `values[order[i]]` has the sorted key `keys[i]`. Key 0 sums to zero.

    Sums are in float32 at least.
    """
    if values.is_cuda and values.dtype != torch.float64:
        from drpn.layers.kernels.segments import sorted_segment_sum

        summed: Tensor = sorted_segment_sum(values, keys, order, count)
        return summed
    return plain_segment_sum(values, keys, order, count)


def plain_segment_sum(values: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:
    """The plain version of the kernel, against which it is tested."""
    wide = torch.promote_types(values.dtype, torch.float32)
    sums = values.new_zeros(count, values.shape[1], dtype=wide)
    sums.index_add_(0, keys.long(), values[order.long()].to(wide))
    sums[0] = 0
    return sums

# mypy: ignore-errors
# ruff: noqa: N803
"""Sums of rows by key, and weighted sums of rows at positions; see `drpn.layers.gather`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from drpn.layers.kernels.launch import launch

_POSITIONS, _COLUMNS = 32, 128
"""Positions and columns that one program of the segment sum reads."""
_WIDE = 64
"""Columns that one program of the weighted sum reads at a time."""


@triton.jit(do_not_specialize=["positions", "width"])
def _segment_sum(
    values, weights, keys, order, sums, positions, width, columns: tl.constexpr, row_stride: tl.constexpr,
    WEIGHTED: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Sum a block of sorted positions by key, and add each sum to the row of its key with one atomic operation."""
    place = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    there = place < positions
    key = tl.load(keys + place, mask=there, other=0).to(tl.int32)
    if tl.max(key, 0) > 0:  # padding is sorted to the front
        before = tl.load(keys + place - 1, mask=there & (place > tl.program_id(0) * BLOCK_P), other=-1).to(tl.int32)
        source = tl.load(order + place, mask=there, other=0).to(tl.int64)
        inside = (key > 0)[:, None] & (column < columns)[None, :]
        row = source // width if WEIGHTED else source
        tile = tl.load(values + row[:, None] * row_stride + column[None, :], mask=inside, other=0.0)
        if WEIGHTED:
            weight = tl.load(weights + source, mask=key > 0, other=0.0).to(tl.float32)
            tile = (tile.to(tl.float32) * weight[:, None]).to(tile.dtype)
        same = (key[:, None] == key[None, :]).to(tile.dtype)
        total = tl.dot(same, tile, input_precision="ieee")  # row i: the sum of all rows with the key of i
        first = (key != before)[:, None] & inside
        tl.atomic_add(sums + key.to(tl.int64)[:, None] * columns + column[None, :], total, mask=first)


def _summed(values: Tensor, weights: Tensor | None, width: int, keys: Tensor, order: Tensor, count: int) -> Tensor:
    sums = torch.zeros(count, values.shape[1], dtype=torch.float32, device=values.device)
    if values.numel():
        if values.stride(1) != 1:
            values = values.contiguous()
        block = max(16, min(_COLUMNS, triton.next_power_of_2(values.shape[1])))
        grid = (triton.cdiv(len(keys), _POSITIONS), triton.cdiv(values.shape[1], block))
        launch(_segment_sum, grid,
            values, values if weights is None else weights, keys, order, sums, len(keys), width, values.shape[1],
            values.stride(0), weights is not None, _POSITIONS, block, num_warps=4,
        )  # fmt: skip
    return sums


@torch.library.custom_op("drpn::sorted_segment_sum", mutates_args=())
def sorted_segment_sum(values: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:
    """See `drpn.layers.gather.segment_sum`; sums are in float32."""
    return _summed(values, None, 1, keys, order, count)


@sorted_segment_sum.register_fake
def _(values: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:  # noqa: ARG001
    return values.new_empty(count, values.shape[1], dtype=torch.float32)


@torch.library.custom_op("drpn::weighted_segment_sum", mutates_args=())
def weighted_segment_sum(values: Tensor, weights: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:
    """The segment sum of the rows `weights[b, s] * values[b]`, which are never written to memory."""
    return _summed(values, weights.contiguous(), weights.shape[1], keys, order, count)


@weighted_segment_sum.register_fake
def _(values: Tensor, weights: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:  # noqa: ARG001
    return values.new_empty(count, values.shape[1], dtype=torch.float32)


@triton.jit(do_not_specialize=["length"])
def _weighted_rows(
    table, positions, weights, out, length, columns: tl.constexpr, row_stride: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """A block of columns of the weighted sum of one sequence."""
    b = tl.program_id(0).to(tl.int64)
    s, d = tl.arange(0, BLOCK_S), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    row = tl.load(positions + b * length + s, mask=s < length, other=0).to(tl.int64)
    weight = tl.load(weights + b * length + s, mask=s < length, other=0.0).to(tl.float32)
    inside = (row > 0)[:, None] & (d < columns)[None, :]
    tile = tl.load(table + row[:, None] * row_stride + d[None, :], mask=inside, other=0.0).to(tl.float32)
    tl.store(out + b * columns + d, tl.sum(tile * weight[:, None], 0).to(out.dtype.element_ty), mask=d < columns)


@triton.jit(do_not_specialize=["length"])
def _products_with_rows(
    table, positions, vectors, out, length, columns: tl.constexpr, row_stride: tl.constexpr,
    BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The inner product of one vector with each row of its sequence."""
    b = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, BLOCK_S)
    row = tl.load(positions + b * length + s, mask=s < length, other=0).to(tl.int64)
    total = tl.zeros((BLOCK_S,), tl.float32)
    for start in range(0, columns, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        inside = (row > 0)[:, None] & (d < columns)[None, :]
        tile = tl.load(table + row[:, None] * row_stride + d[None, :], mask=inside, other=0.0).to(tl.float32)
        vector = tl.load(vectors + b * columns + d, mask=d < columns, other=0.0).to(tl.float32)
        total += tl.sum(tile * vector[None, :], 1)
    tl.store(out + b * length + s, total, mask=s < length)


@torch.library.custom_op("drpn::weighted_rows", mutates_args=())
def weighted_rows(table: Tensor, positions: Tensor, weights: Tensor) -> Tensor:
    """See `drpn.layers.gather.weighted_rows`."""
    out = table.new_empty(len(positions), table.shape[1])
    if out.numel():
        launch(_weighted_rows, (len(out), triton.cdiv(out.shape[1], _WIDE)),
            table, positions.contiguous(), weights.contiguous(), out, positions.shape[1], out.shape[1],
            table.stride(0), max(16, triton.next_power_of_2(positions.shape[1])), _WIDE, num_warps=4,
        )  # fmt: skip
    return out


@weighted_rows.register_fake
def _(table: Tensor, positions: Tensor, weights: Tensor) -> Tensor:  # noqa: ARG001
    return table.new_empty(len(positions), table.shape[1])


@torch.library.custom_op("drpn::products_with_rows", mutates_args=())
def products_with_rows(table: Tensor, positions: Tensor, vectors: Tensor) -> Tensor:
    """The inner product of `vectors[b]` with the row at each position (b, s), in float32."""
    out = torch.empty(positions.shape, dtype=torch.float32, device=table.device)
    if out.numel():
        launch(_products_with_rows, (len(out),),
            table, positions.contiguous(), vectors.contiguous(), out, positions.shape[1], table.shape[1],
            table.stride(0), max(16, triton.next_power_of_2(positions.shape[1])), _WIDE, num_warps=4,
        )  # fmt: skip
    return out


@products_with_rows.register_fake
def _(table: Tensor, positions: Tensor, vectors: Tensor) -> Tensor:  # noqa: ARG001
    return table.new_empty(positions.shape, dtype=torch.float32)

# mypy: ignore-errors
# ruff: noqa: N803
"""Self-attention of short sequences, with whole heads in registers; see `drpn.layers.attention.self_attention`.

A sequence is either consecutive rows of a table, or the rows at its positions. `marks` is a mask in the first case, and
the positions in the second, with 0 for padding.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from drpn.layers.kernels.launch import launch

LONGEST = 64
"""The longest sequence, and the largest head."""


@triton.jit
def _head(
    table, marks, b, h, length, size: tl.constexpr, head_size: tl.constexpr, row_stride: tl.constexpr,
    scale: tl.constexpr, AT: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Queries, keys and values of one head of one sequence, and softmax(q k^T scale).

    The softmax leaves out padding, unless the whole sequence is padding.
    """
    s, d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    mark = tl.load(marks + b * length + s, mask=s < length, other=0)
    real = mark != 0
    row = mark.to(tl.int64) if AT else b * length + s
    there = real if AT else s < length
    inside = there[:, None] & (d < head_size)[None, :]
    place = table + row[:, None] * row_stride + h * head_size + d[None, :]
    q = tl.load(place, mask=inside, other=0.0)
    k = tl.load(place + size, mask=inside, other=0.0)
    v = tl.load(place + 2 * size, mask=inside, other=0.0)
    nothing = tl.max(real.to(tl.int32), 0) == 0
    allowed = (s < length) & (real | nothing)
    logits = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    logits = tl.where(allowed[None, :], logits, float("-inf"))
    raised = tl.exp(logits - tl.max(logits, 1)[:, None])
    return q, k, v, raised / tl.sum(raised, 1)[:, None]


@triton.jit(do_not_specialize=["length"])
def _attention_forward(
    table, marks, out, length, size: tl.constexpr, head_size: tl.constexpr, row_stride: tl.constexpr,
    scale: tl.constexpr, AT: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The output of one head of one sequence."""
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    s, d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    _q, _k, v, weight = _head(table, marks, b, h, length, size, head_size, row_stride, scale, AT, BLOCK_S, BLOCK_D)
    read = tl.dot(weight.to(v.dtype), v, input_precision="ieee")
    inside = (s < length)[:, None] & (d < head_size)[None, :]
    tl.store(out + (b * length + s[:, None]) * size + h * head_size + d[None, :], read.to(v.dtype), mask=inside)


@triton.jit(do_not_specialize=["length"])
def _attention_backward(
    table, marks, grad, out, length, size: tl.constexpr, head_size: tl.constexpr, row_stride: tl.constexpr,
    scale: tl.constexpr, AT: tl.constexpr, out_stride: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradient of one head of one sequence; the weights are recomputed."""
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    s, d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    q, k, v, weight = _head(
        table, marks, b, h, length, size, head_size, row_stride, scale, AT, BLOCK_S, BLOCK_D
    )  # fmt: skip
    inside = (s < length)[:, None] & (d < head_size)[None, :]
    up = tl.load(grad + (b * length + s[:, None]) * size + h * head_size + d[None, :], mask=inside, other=0.0)
    of_weight = tl.dot(up, tl.trans(v), input_precision="ieee")
    of_logit = weight * (of_weight - tl.sum(of_weight * weight, 1)[:, None]) * scale
    of_v = tl.dot(tl.trans(weight).to(v.dtype), up, input_precision="ieee")
    of_q = tl.dot(of_logit.to(k.dtype), k, input_precision="ieee")
    of_k = tl.dot(tl.trans(of_logit).to(q.dtype), q, input_precision="ieee")
    place = out + (b * length + s[:, None]) * out_stride + h * head_size + d[None, :]
    tl.store(place, of_q.to(q.dtype), mask=inside)
    tl.store(place + size, of_k.to(q.dtype), mask=inside)
    tl.store(place + 2 * size, of_v.to(q.dtype), mask=inside)


def _plan(table: Tensor, marks: Tensor, heads: int, size: int) -> tuple[tuple[int, int], list, dict[str, int]]:
    batch, length = marks.shape
    head_size = size // heads
    block_s = max(16, triton.next_power_of_2(length))
    block_d = max(16, triton.next_power_of_2(head_size))
    constants = [length, size, head_size, table.stride(0), head_size**-0.5, marks.dtype != torch.bool]
    return (batch, heads), constants, {"BLOCK_S": block_s, "BLOCK_D": block_d, "num_warps": max(1, block_s // 16)}


@torch.library.custom_op("drpn::short_attention", mutates_args=())
def short_attention(table: Tensor, marks: Tensor, heads: int, size: int) -> Tensor:
    """The attention output of each item over its sequence; `marks` are positions, or a mask of stored sequences."""
    grid, constants, blocks = _plan(table, marks, heads, size)
    out = table.new_empty(*marks.shape, size)
    if out.numel():
        launch(_attention_forward, grid, table, marks.contiguous(), out, *constants, **blocks)
    return out


@short_attention.register_fake
def _(table: Tensor, marks: Tensor, heads: int, size: int) -> Tensor:  # noqa: ARG001
    return table.new_empty(*marks.shape, size)


@torch.library.custom_op("drpn::short_attention_backward", mutates_args=())
def short_attention_backward(table: Tensor, marks: Tensor, grad: Tensor, heads: int, size: int) -> Tensor:
    """The gradient of the row that each position reads; columns after query, key and value are 0."""
    grid, constants, blocks = _plan(table, marks, heads, size)
    out = table.new_empty(marks.numel(), table.shape[1])
    out[:, 3 * size :] = 0
    if out.numel():
        launch(
            _attention_backward,
            grid,
            table,
            marks.contiguous(),
            grad.contiguous(),
            out,
            *constants,
            out.stride(0),
            **blocks,
        )
    return out


@short_attention_backward.register_fake
def _(table: Tensor, marks: Tensor, grad: Tensor, heads: int, size: int) -> Tensor:  # noqa: ARG001
    return table.new_empty(marks.numel(), table.shape[1])

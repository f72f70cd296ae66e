# mypy: ignore-errors
# ruff: noqa: N803
"""Triton kernels, for machines with a GPU; each has a plain version beside its caller, which is its reference.

Strides and sizes of rows are constants of a kernel: with them the compiler knows how many bytes it may load at once.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_POSITIONS, _COLUMNS = 32, 128
"""Positions and columns that one program of the segment sum adds up."""


@triton.jit
def _segment_sum(
    values, keys, order, sums, positions, columns: tl.constexpr, row_stride: tl.constexpr,
    BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """A stretch of sorted positions: what has one key is added up here, and then once to the key's row."""
    place = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    there = place < positions
    key = tl.load(keys + place, mask=there, other=0).to(tl.int32)
    if tl.max(key, 0) > 0:  # padding is sorted to the front
        before = tl.load(keys + place - 1, mask=there & (place > tl.program_id(0) * BLOCK_P), other=-1).to(tl.int32)
        source = tl.load(order + place, mask=there, other=0).to(tl.int64)
        inside = (key > 0)[:, None] & (column < columns)[None, :]
        tile = tl.load(values + source[:, None] * row_stride + column[None, :], mask=inside, other=0.0)
        same = (key[:, None] == key[None, :]).to(tile.dtype)
        total = tl.dot(same, tile, input_precision="ieee")  # row i: the sum of all rows with the key of i
        first = (key != before)[:, None] & inside
        tl.atomic_add(sums + key.to(tl.int64)[:, None] * columns + column[None, :], total, mask=first)


@torch.library.custom_op("drpn::sorted_segment_sum", mutates_args=())
def sorted_segment_sum(values: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:
    """See `drpn.layers.gather.segment_sum`; sums in float32, whatever the values are."""
    sums = torch.zeros(count, values.shape[1], dtype=torch.float32, device=values.device)
    if values.numel():
        if values.stride(1) != 1:
            values = values.contiguous()
        block = max(16, min(_COLUMNS, triton.next_power_of_2(values.shape[1])))
        grid = (triton.cdiv(len(keys), _POSITIONS), triton.cdiv(values.shape[1], block))
        _segment_sum[grid](
            values, keys, order, sums, len(keys), values.shape[1], values.stride(0), _POSITIONS, block, num_warps=4
        )
    return sums.to(values.dtype)


@sorted_segment_sum.register_fake
def _(values: Tensor, keys: Tensor, order: Tensor, count: int) -> Tensor:  # noqa: ARG001
    return values.new_empty(count, values.shape[1])


@triton.jit
def _tile(
    base, part: tl.constexpr, h, s, d, inside,
    seq_stride: tl.constexpr, size: tl.constexpr, head_size: tl.constexpr,
):  # fmt: skip
    return tl.load(base + s[:, None] * seq_stride + part * size + h * head_size + d[None, :], mask=inside, other=0.0)


@triton.jit
def _weights(q, k, mask, b, s, length, scale):
    """softmax(q k^T scale) over what is there; over everything where nothing is."""
    real = tl.load(mask + b * length + s, mask=s < length, other=0) != 0
    nothing = tl.max(real.to(tl.int32), 0) == 0
    allowed = (s < length) & (real | nothing)
    logits = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    logits = tl.where(allowed[None, :], logits, float("-inf"))
    raised = tl.exp(logits - tl.max(logits, 1)[:, None])
    return raised / tl.sum(raised, 1)[:, None]


@triton.jit
def _attention_forward(
    qkv, mask, out,
    batch_stride, seq_stride: tl.constexpr, length, size: tl.constexpr,
    head_size: tl.constexpr, scale: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """One head of one sequence."""
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    s, d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    inside = (s < length)[:, None] & (d < head_size)[None, :]
    base = qkv + b * batch_stride
    q = _tile(base, 0, h, s, d, inside, seq_stride, size, head_size)
    k = _tile(base, 1, h, s, d, inside, seq_stride, size, head_size)
    v = _tile(base, 2, h, s, d, inside, seq_stride, size, head_size)
    weight = _weights(q, k, mask, b, s, length, scale)
    read = tl.dot(weight.to(v.dtype), v, input_precision="ieee")
    tl.store(out + (b * length + s[:, None]) * size + h * head_size + d[None, :], read.to(v.dtype), mask=inside)


@triton.jit
def _attention_backward(
    qkv, mask, grad, out,
    batch_stride, seq_stride: tl.constexpr, length, size: tl.constexpr,
    head_size: tl.constexpr, scale: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradient of one head of one sequence; its weights are computed again."""
    b, h = tl.program_id(0).to(tl.int64), tl.program_id(1)
    s, d = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    inside = (s < length)[:, None] & (d < head_size)[None, :]
    base = qkv + b * batch_stride
    q = _tile(base, 0, h, s, d, inside, seq_stride, size, head_size)
    k = _tile(base, 1, h, s, d, inside, seq_stride, size, head_size)
    v = _tile(base, 2, h, s, d, inside, seq_stride, size, head_size)
    up = tl.load(grad + (b * length + s[:, None]) * size + h * head_size + d[None, :], mask=inside, other=0.0)
    weight = _weights(q, k, mask, b, s, length, scale)
    of_weight = tl.dot(up, tl.trans(v), input_precision="ieee")
    of_logit = weight * (of_weight - tl.sum(of_weight * weight, 1)[:, None]) * scale
    of_v = tl.dot(tl.trans(weight).to(v.dtype), up, input_precision="ieee")
    of_q = tl.dot(of_logit.to(k.dtype), k, input_precision="ieee")
    of_k = tl.dot(tl.trans(of_logit).to(q.dtype), q, input_precision="ieee")
    place = out + (b * length + s[:, None]) * (3 * size) + h * head_size + d[None, :]
    tl.store(place, of_q.to(q.dtype), mask=inside)
    tl.store(place + size, of_k.to(q.dtype), mask=inside)
    tl.store(place + 2 * size, of_v.to(q.dtype), mask=inside)


def _plan(qkv: Tensor, heads: int) -> tuple[tuple[int, int], list[int | float], dict[str, int]]:
    batch, length, width = qkv.shape
    size = width // 3
    head_size = size // heads
    block_s = max(16, triton.next_power_of_2(length))
    block_d = max(16, triton.next_power_of_2(head_size))
    numbers = [qkv.stride(0), qkv.stride(1), length, size, head_size, head_size**-0.5]
    return (batch, heads), numbers, {"BLOCK_S": block_s, "BLOCK_D": block_d, "num_warps": max(1, block_s // 16)}


@torch.library.custom_op("drpn::short_attention", mutates_args=())
def short_attention(qkv: Tensor, mask: Tensor, heads: int) -> Tensor:
    """See `drpn.layers.attention.self_attention`, for sequences and heads of up to 64."""
    grid, numbers, blocks = _plan(qkv, heads)
    out = qkv.new_empty(*qkv.shape[:2], qkv.shape[2] // 3)
    if out.numel():
        _attention_forward[grid](qkv, mask, out, *numbers, **blocks)
    return out


@short_attention.register_fake
def _(qkv: Tensor, mask: Tensor, heads: int) -> Tensor:  # noqa: ARG001
    return qkv.new_empty(*qkv.shape[:2], qkv.shape[2] // 3)


@torch.library.custom_op("drpn::short_attention_backward", mutates_args=())
def short_attention_backward(qkv: Tensor, mask: Tensor, grad: Tensor, heads: int) -> Tensor:
    """The gradient of `short_attention`."""
    grid, numbers, blocks = _plan(qkv, heads)
    out = qkv.new_empty(qkv.shape)
    if out.numel():
        _attention_backward[grid](qkv, mask, grad.contiguous(), out, *numbers, **blocks)
    return out


@short_attention_backward.register_fake
def _(qkv: Tensor, mask: Tensor, grad: Tensor, heads: int) -> Tensor:  # noqa: ARG001
    return qkv.new_empty(qkv.shape)


@triton.jit
def _fused_scores(
    candidates, plain, halves, users, interests, out, bias, scores, width,
    plain_stride: tl.constexpr, half_stride: tl.constexpr, count: tl.constexpr, size: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The score of one candidate for one user."""
    place = tl.program_id(0).to(tl.int64)
    user = place // width
    row = tl.load(candidates + place).to(tl.int64)
    d = tl.arange(0, BLOCK)
    inside = d < size
    own = tl.load(plain + row * plain_stride + d, mask=inside, other=0.0).to(tl.float32)
    score = 0.0
    for f in tl.static_range(count):
        at = (user * count + f) * size + d
        both = tl.load(users + at, mask=inside, other=0.0).to(tl.float32)
        both += tl.load(halves + row * half_stride + f * size + d, mask=inside, other=0.0).to(tl.float32)
        direction = tl.load(out + f * size + d, mask=inside, other=0.0).to(tl.float32)
        beta = tl.sum((2.0 * tl.sigmoid(2.0 * both) - 1.0) * direction, 0) + tl.load(bias + f)
        interest = tl.load(interests + at, mask=inside, other=0.0).to(tl.float32)
        score += beta * tl.sum(own * interest, 0)
    tl.store(scores + place, score)


def fused_scores(
    candidates: Tensor, plain: Tensor, halves: Tensor, users: Tensor, interests: Tensor, out: Tensor, bias: Tensor
) -> Tensor:
    """Eqs. 9 to 11 and the inner product for every candidate, nothing of them written; without gradients."""
    batch, width = candidates.shape
    scores = torch.empty(batch, width, dtype=torch.float32, device=candidates.device)
    count, size = out.shape
    if scores.numel():
        _fused_scores[(scores.numel(),)](
            candidates.contiguous(), plain, halves, users.contiguous(), interests.contiguous(), out.contiguous(), bias,
            scores, width, plain.stride(0), halves.stride(0), count, size, triton.next_power_of_2(size),
        )  # fmt: skip
    return scores

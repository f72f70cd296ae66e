# mypy: ignore-errors
# ruff: noqa: N803
"""The similarities of DRPN's denoising, without intermediate results in memory; see `drpn.layers.denoising`.

One program computes the sequence of one user. A row of `own` holds query, key, value and the story's half of each
similarity head; a row of `other` holds key and value for the opposite sequence. Both are read at positions, a block of
columns at a time.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from drpn.layers.kernels.launch import launch

LONGEST = 64
"""The longest sequence."""
_COLUMNS = 64
"""Columns read at a time."""


@triton.jit
def _rows(table, row, d, D: tl.constexpr, part: tl.constexpr, stride: tl.constexpr):
    """A block of columns of one part of the rows; zeros at padding."""
    inside = (row > 0)[:, None] & (d < D)[None, :]
    return tl.load(table + row[:, None] * stride + part * D + d[None, :], mask=inside, other=0.0)


@triton.jit
def _softmax(logits, allowed):
    """Softmax where `allowed` is true; zeros if it is false throughout."""
    logits = tl.where(allowed, logits, -1e30)
    raised = tl.where(allowed, tl.exp(logits - tl.max(logits, 1)[:, None]), 0.0)
    return raised / tl.maximum(tl.sum(raised, 1)[:, None], 1e-30)


@triton.jit
def _tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def _weights(
    own, other, row, far, D: tl.constexpr, own_stride: tl.constexpr, other_stride: tl.constexpr, scale: tl.constexpr,
    OPPOSITE: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Eqs. 4 and 5: attention weights over the rest of the sequence, and over the opposite sequence."""
    s = tl.arange(0, BLOCK_S)
    intra = tl.zeros((BLOCK_S, BLOCK_S), tl.float32)
    inter = tl.zeros((BLOCK_S, BLOCK_T), tl.float32)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        q = _rows(own, row, d, D, 0, own_stride)
        intra += tl.dot(q, tl.trans(_rows(own, row, d, D, 1, own_stride)), input_precision="ieee")
        if OPPOSITE:
            inter += tl.dot(q, tl.trans(_rows(other, far, d, D, 0, other_stride)), input_precision="ieee")
    rest = (row > 0)[None, :] & (s[:, None] != s[None, :])
    opposed = ((far > 0)[None, :]) & (s >= 0)[:, None]
    return _softmax(intra * scale, rest), _softmax(inter * scale, opposed)


@triton.jit(do_not_specialize=["length", "far_length"])
def _similarities_forward(
    own, other, positions, others, to_similar, to_contrary, unopposed, similar, contrary,
    length, far_length, D: tl.constexpr, own_stride: tl.constexpr, other_stride: tl.constexpr, scale: tl.constexpr,
    OPPOSITE: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    s, t = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_T)
    row = tl.load(positions + b * length + s, mask=s < length, other=0).to(tl.int64)
    far = tl.load(others + b * far_length + t, mask=t < far_length, other=0).to(tl.int64)
    nobody = tl.max(far, 0) == 0
    like = tl.zeros((BLOCK_S,), tl.float32)
    unlike = tl.zeros((BLOCK_S,), tl.float32)
    if tl.max(row, 0) > 0:
        intra, inter = _weights(
            own, other, row, far, D, own_stride, other_stride, scale, OPPOSITE, BLOCK_S, BLOCK_T, BLOCK_D
        )  # fmt: skip
        for start in range(0, D, BLOCK_D):
            d = start + tl.arange(0, BLOCK_D)
            inside = d < D
            v = _rows(own, row, d, D, 2, own_stride)
            same = tl.dot(intra.to(v.dtype), v, input_precision="ieee")
            turned = _tanh(_rows(own, row, d, D, 3, own_stride).to(tl.float32) + same)
            like += tl.sum(turned * tl.load(to_similar + d, mask=inside, other=0.0).to(tl.float32)[None, :], 1)
            if OPPOSITE:
                v = _rows(other, far, d, D, 1, other_stride)
                opposite = tl.dot(inter.to(v.dtype), v, input_precision="ieee")
                alone = tl.load(unopposed + d, mask=inside & nobody, other=0.0).to(tl.float32)
                turned = _tanh(_rows(own, row, d, D, 4, own_stride).to(tl.float32) + opposite + alone[None, :])
                unlike += tl.sum(turned * tl.load(to_contrary + d, mask=inside, other=0.0).to(tl.float32)[None, :], 1)
    tl.store(similar + b * length + s, like, mask=s < length)
    tl.store(contrary + b * length + s, unlike, mask=s < length)


@triton.jit(do_not_specialize=["length", "far_length"])
def _similarities_backward(
    own, other, positions, others, to_similar, to_contrary, unopposed, of_similar, of_contrary,
    of_own, of_other, of_to_similar, of_to_contrary, of_unopposed,
    length, far_length, D: tl.constexpr, own_stride: tl.constexpr, other_stride: tl.constexpr, scale: tl.constexpr,
    OPPOSITE: tl.constexpr, PARTS: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The gradient of one sequence; the attention is recomputed."""
    b = tl.program_id(0).to(tl.int64)
    s, t = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_T)
    row = tl.load(positions + b * length + s, mask=s < length, other=0).to(tl.int64)
    far = tl.load(others + b * far_length + t, mask=t < far_length, other=0).to(tl.int64)
    nobody = tl.max(far, 0) == 0
    real = row > 0
    own_place = of_own + (b * length + s) * (PARTS * D)
    other_place = of_other + (b * far_length + t) * (2 * D)
    if tl.max(row, 0) > 0:
        up = tl.load(of_similar + b * length + s, mask=real, other=0.0)
        down = tl.load(of_contrary + b * length + s, mask=real, other=0.0)
        intra, inter = _weights(
            own, other, row, far, D, own_stride, other_stride, scale, OPPOSITE, BLOCK_S, BLOCK_T, BLOCK_D
        )  # fmt: skip
        of_intra = tl.zeros((BLOCK_S, BLOCK_S), tl.float32)
        of_inter = tl.zeros((BLOCK_S, BLOCK_T), tl.float32)
        for start in range(0, D, BLOCK_D):
            d = start + tl.arange(0, BLOCK_D)
            inside = d < D
            mine = real[:, None] & inside[None, :]
            v = _rows(own, row, d, D, 2, own_stride)
            same = tl.dot(intra.to(v.dtype), v, input_precision="ieee")
            turned = _tanh(_rows(own, row, d, D, 3, own_stride).to(tl.float32) + same)
            tl.store(of_to_similar + b * D + d, tl.sum(turned * up[:, None], 0), mask=inside)
            way = tl.load(to_similar + d, mask=inside, other=0.0).to(tl.float32)
            slope = (up[:, None] * way[None, :] * (1.0 - turned * turned)).to(v.dtype)
            tl.store(own_place[:, None] + 3 * D + d[None, :], slope, mask=mine)
            of_v = tl.dot(tl.trans(intra).to(v.dtype), slope, input_precision="ieee")
            tl.store(own_place[:, None] + 2 * D + d[None, :], of_v.to(v.dtype), mask=mine)
            of_intra += tl.dot(slope, tl.trans(v), input_precision="ieee")
            if OPPOSITE:
                v = _rows(other, far, d, D, 1, other_stride)
                opposite = tl.dot(inter.to(v.dtype), v, input_precision="ieee")
                alone = tl.load(unopposed + d, mask=inside & nobody, other=0.0).to(tl.float32)
                turned = _tanh(_rows(own, row, d, D, 4, own_stride).to(tl.float32) + opposite + alone[None, :])
                tl.store(of_to_contrary + b * D + d, tl.sum(turned * down[:, None], 0), mask=inside)
                way = tl.load(to_contrary + d, mask=inside, other=0.0).to(tl.float32)
                steep = down[:, None] * way[None, :] * (1.0 - turned * turned)
                tl.store(of_unopposed + b * D + d, tl.where(nobody, tl.sum(steep, 0), 0.0), mask=inside)
                slope = steep.to(v.dtype)
                tl.store(own_place[:, None] + 4 * D + d[None, :], slope, mask=mine)
                of_v = tl.dot(tl.trans(inter).to(v.dtype), slope, input_precision="ieee")
                theirs = (far > 0)[:, None] & inside[None, :]
                tl.store(other_place[:, None] + D + d[None, :], of_v.to(v.dtype), mask=theirs)
                of_inter += tl.dot(slope, tl.trans(v), input_precision="ieee")
        of_intra = intra * (of_intra - tl.sum(of_intra * intra, 1)[:, None]) * scale
        of_inter = inter * (of_inter - tl.sum(of_inter * inter, 1)[:, None]) * scale
        for start in range(0, D, BLOCK_D):
            d = start + tl.arange(0, BLOCK_D)
            inside = d < D
            mine = real[:, None] & inside[None, :]
            q = _rows(own, row, d, D, 0, own_stride)
            k = _rows(own, row, d, D, 1, own_stride)
            of_q = tl.dot(of_intra.to(k.dtype), k, input_precision="ieee")
            of_k = tl.dot(tl.trans(of_intra).to(q.dtype), q, input_precision="ieee")
            tl.store(own_place[:, None] + D + d[None, :], of_k.to(q.dtype), mask=mine)
            if OPPOSITE:
                k = _rows(other, far, d, D, 0, other_stride)
                of_q += tl.dot(of_inter.to(k.dtype), k, input_precision="ieee")
                of_k = tl.dot(tl.trans(of_inter).to(q.dtype), q, input_precision="ieee")
                theirs = (far > 0)[:, None] & inside[None, :]
                tl.store(other_place[:, None] + d[None, :], of_k.to(q.dtype), mask=theirs)
            tl.store(own_place[:, None] + d[None, :], of_q.to(q.dtype), mask=mine)
    else:
        for start in range(0, D, BLOCK_D):
            d = start + tl.arange(0, BLOCK_D)
            nothing = tl.zeros((BLOCK_D,), tl.float32)
            tl.store(of_to_similar + b * D + d, nothing, mask=d < D)
            if OPPOSITE:
                tl.store(of_to_contrary + b * D + d, nothing, mask=d < D)
                tl.store(of_unopposed + b * D + d, nothing, mask=d < D)
                none = tl.zeros((BLOCK_T, BLOCK_D), of_other.dtype.element_ty)
                theirs = (far > 0)[:, None] & (d < D)[None, :]
                tl.store(other_place[:, None] + d[None, :], none, mask=theirs)
                tl.store(other_place[:, None] + D + d[None, :], none, mask=theirs)


def _plan(own: Tensor, other: Tensor | None, positions: Tensor, others: Tensor, size: int) -> tuple[list, dict]:
    block_s, block_t = (max(16, triton.next_power_of_2(each.shape[1])) for each in (positions, others))
    constants = [
        positions.shape[1], others.shape[1], size, own.stride(0), 0 if other is None else other.stride(0),
        size**-0.5, other is not None,
    ]  # fmt: skip
    blocks = {"BLOCK_S": block_s, "BLOCK_T": block_t, "BLOCK_D": _COLUMNS}
    return constants, blocks | {"num_warps": 8 if max(block_s, block_t) == LONGEST else 4}


@torch.library.custom_op("drpn::similarities", mutates_args=())
def similarities(
    own: Tensor,
    other: Tensor | None,
    positions: Tensor,
    others: Tensor,
    to_similar: Tensor,
    to_contrary: Tensor | None,
    unopposed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """See `drpn.layers.denoising.similarities`."""
    size = to_similar.shape[0]
    results = tuple(torch.empty(positions.shape, dtype=torch.float32, device=own.device) for _ in range(2))
    if positions.numel():
        constants, blocks = _plan(own, other, positions, others, size)
        launch(_similarities_forward, (len(positions),),
            own, own if other is None else other, positions.contiguous(), others.contiguous(), to_similar,
            to_similar if to_contrary is None else to_contrary, to_similar if unopposed is None else unopposed,
            *results, *constants, **blocks,
        )  # fmt: skip
    return results


@similarities.register_fake
def _(own, other, positions, others, to_similar, to_contrary, unopposed):  # noqa: ARG001
    return tuple(own.new_empty(positions.shape, dtype=torch.float32) for _ in range(2))


@torch.library.custom_op("drpn::similarities_backward", mutates_args=())
def similarities_backward(
    own: Tensor,
    other: Tensor | None,
    positions: Tensor,
    others: Tensor,
    to_similar: Tensor,
    to_contrary: Tensor | None,
    unopposed: Tensor | None,
    of_similar: Tensor,
    of_contrary: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients at each position of both sequences, and of three vectors for each user.

    Gradients at padding are not initialised.
    """
    size, parts = to_similar.shape[0], 4 if other is None else 5
    results = _room(own, positions, others, size, parts)
    if positions.numel():
        constants, blocks = _plan(own, other, positions, others, size)
        launch(_similarities_backward, (len(positions),),
            own, own if other is None else other, positions.contiguous(), others.contiguous(), to_similar,
            to_similar if to_contrary is None else to_contrary, to_similar if unopposed is None else unopposed,
            of_similar.contiguous(), of_contrary.contiguous(), *results, *constants, parts, **blocks,
        )  # fmt: skip
    return results


@similarities_backward.register_fake
def _(own, other, positions, others, to_similar, to_contrary, unopposed, of_similar, of_contrary):  # noqa: ARG001
    return _room(own, positions, others, to_similar.shape[0], 4 if other is None else 5)


def _room(own: Tensor, positions: Tensor, others: Tensor, size: int, parts: int) -> tuple[Tensor, ...]:
    users = [own.new_empty(len(positions), size, dtype=torch.float32) for _ in range(3)]
    places = own.new_empty(positions.numel(), parts * size), own.new_empty(others.numel(), 2 * size)
    return (*places, *users)

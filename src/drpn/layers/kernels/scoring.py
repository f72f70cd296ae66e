# mypy: ignore-errors
# ruff: noqa: N803
"""DRPN's fusion and inner products for every candidate, without gradients; see `drpn.layers.fusion`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from drpn.layers.kernels.launch import launch


@triton.jit(do_not_specialize=["width"])
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
    """Eqs. 9 to 11 and the inner product for every candidate, without intermediate results and gradients."""
    batch, width = candidates.shape
    scores = torch.empty(batch, width, dtype=torch.float32, device=candidates.device)
    count, size = out.shape
    if scores.numel():
        launch(_fused_scores, (scores.numel(),),
            candidates.contiguous(), plain, halves, users.contiguous(), interests.contiguous(), out.contiguous(), bias,
            scores, width, plain.stride(0), halves.stride(0), count, size, triton.next_power_of_2(size),
        )  # fmt: skip
    return scores

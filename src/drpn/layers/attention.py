"""Attention over sequences with padding."""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from drpn.layers.gather import segment_sum, sort_positions
from drpn.layers.linear import Weight, aligned_linear, at_least_float32, dot, padded_linear, split_heads
from drpn.layers.tables import TableRows, weighted_sum

SHORT = 64
"""The longest sequence, and the largest head, that the kernels can hold."""


def masked_softmax(logits: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Softmax over the last axis where `mask` is True; zeros elsewhere, also if it is False throughout."""
    weights = torch.softmax(logits.masked_fill(~mask, torch.finfo(logits.dtype).min), dim=-1)
    return weights * mask


def attend(
    query: Float[Tensor, "B Q D"],
    key: Float[Tensor, "B K D"],
    value: Float[Tensor, "B K V"],
    mask: Bool[Tensor, "B Q K"] | Bool[Tensor, "B 1 K"],
) -> Float[Tensor, "B Q V"]:
    """Eq. 1: softmax(Q K^T / sqrt(d)) V over the keys that the mask allows; zeros if it allows none."""
    logits = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (B Q K)
    return masked_softmax(logits, mask) @ value


def attention_logits(
    query: Float[Tensor, "... Q d"], key: Float[Tensor, "... K d"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "... Q K"]:
    """Q K^T / sqrt(d) in float32 at least; the smallest number of the type where `mask` is False."""
    logits = at_least_float32(query @ key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
    return logits if mask is None else logits.masked_fill(~mask, torch.finfo(logits.dtype).min)


def where_present(
    values: Float[Tensor, "... D"], present: Bool[Tensor, "..."], instead: Float[Tensor, "D"]
) -> Float[Tensor, "... D"]:
    """The values where `present` is True, a learned vector elsewhere."""
    return torch.where(present.unsqueeze(-1), values, instead.to(values.dtype))


def self_attention(
    qkv: Float[Tensor, "B S all"] | TableRows, mask: Bool[Tensor, "B S"], heads: int, size: int
) -> Float[Tensor, "B S D"]:
    """Multi-head self-attention: every item of a sequence reads the whole sequence.

    The first columns of `qkv` are queries, keys and values of `size` each; further columns are not read.
    """
    short = mask.shape[1] <= SHORT and size // heads <= SHORT
    if isinstance(qkv, TableRows):
        if short and qkv.table is not None:
            return _ShortAttention.apply(qkv.table, qkv.positions, heads, size)  # type: ignore[no-any-return, no-untyped-call]
        qkv = qkv.gather()
    if short and qkv.is_cuda and qkv.dtype != torch.float64:
        in_order = qkv.flatten(0, 1)
        return _ShortAttention.apply(in_order, mask, heads, size)  # type: ignore[no-any-return, no-untyped-call]
    return plain_self_attention(qkv[..., : 3 * size], mask, heads)


def plain_self_attention(
    qkv: Float[Tensor, "B S QKV"], mask: Bool[Tensor, "B S"], heads: int
) -> Float[Tensor, "B S D"]:
    """The plain version of the kernel, against which it is tested."""
    query, key, value = (split_heads(part, heads).transpose(1, 2) for part in qkv.chunk(3, dim=-1))  # (B h S d)
    # an empty sequence may read its padding: this avoids a softmax over nothing, and nobody reads the result
    allowed = mask | ~mask.any(-1, keepdim=True)  # (B S)
    read = scaled_dot_product_attention(query, key, value, attn_mask=allowed[:, None, None, :])
    return read.transpose(1, 2).flatten(-2)


class _ShortAttention(torch.autograd.Function):
    """The kernel, for sequences at positions of a table or, given a mask, for a table that holds them in order."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, marks: Tensor, heads: int, size: int) -> Tensor:
        from drpn.layers.kernels.attention import short_attention  # Triton comes with torch on GPU machines alone

        table = table if table.stride(-1) == 1 else table.contiguous()
        ctx.save_for_backward(table, marks)
        ctx.heads, ctx.size = heads, size
        read: Tensor = short_attention(table, marks, heads, size)
        return read

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        from drpn.layers.kernels.attention import short_attention_backward

        table, marks = ctx.saved_tensors
        by_position = short_attention_backward(table, marks, gradient, ctx.heads, ctx.size)
        if marks.dtype == torch.bool:
            return by_position, None, None, None
        return segment_sum(by_position, *sort_positions(marks), len(table)).to(table.dtype), None, None, None


class MultiHeadAttention(nn.Module):
    """Eq. 2: [head_1; ...; head_h] W^I with head_i = Attn(Q W^Q_i, K W^K_i, V W^V_i), of a sequence with itself.

    Without `head_size` the heads divide `size` evenly; without `join` there is no W^I.
    """

    def __init__(self, size: int, heads: int, *, head_size: int | None = None, join: bool = True) -> None:
        super().__init__()
        if head_size is None and size % heads:
            raise ValueError(f"heads is {heads}; it takes a divisor of size, which is {size}")
        width = size if head_size is None else heads * head_size
        self.heads, self.width = heads, width
        self.query = nn.Linear(size, width, bias=False)
        self.key = nn.Linear(size, width, bias=False)
        self.value = nn.Linear(size, width, bias=False)
        self.join = nn.Linear(width, size, bias=False) if join else nn.Identity()

    def weights(self) -> list[Weight]:
        """W^Q, W^K and W^V of all heads."""
        return [Weight(layer.weight) for layer in (self.query, self.key, self.value)]

    def project(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "... QKV"]:
        """Query, key and value of each item, concatenated; they do not depend on the rest of its sequence."""
        return padded_linear(items, torch.cat([weight.matrix for weight in self.weights()]))

    def forward(
        self, projected: Float[Tensor, "B S QKV"] | TableRows, mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """The attention output of each item over its sequence, from the result of `project`."""
        read = self_attention(projected, mask, self.heads, self.width)
        return aligned_linear(read, self.join.weight) if isinstance(self.join, nn.Linear) else read


class GatedAggregate(nn.Module):
    """Eq. 3: softmax(tanh(T W_a + b_a) W_g)^T T."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(size, hidden)
        self.gate = nn.Linear(hidden, 1, bias=False)

    def logits(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """tanh(T W_a + b_a) W_g: the weight of each item before the softmax."""
        return dot(torch.tanh(aligned_linear(items, self.hidden.weight, self.hidden.bias)), self.gate.weight[0])

    def forward(self, items: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> "Aggregated":
        """The weighted sum of the items, and the weights; zeros for an empty sequence."""
        return aggregate(self.logits(items), items, mask)


class DirectAggregate(nn.Module):
    """softmax(tanh(T v + b))^T T: as `GatedAggregate`, without a hidden layer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate = nn.Linear(size, 1)

    def logits(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """tanh(T v + b): the weight of each item before the softmax."""
        return torch.tanh(dot(items, self.gate.weight[0]) + self.gate.bias)

    def forward(self, items: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> "Aggregated":
        """The weighted sum of the items, and the weights; zeros for an empty sequence."""
        return aggregate(self.logits(items), items, mask)


class Aggregated(NamedTuple):
    """A sequence as one vector, and the weight of each item."""

    vector: Float[Tensor, "B D"]
    weight: Float[Tensor, "B S"]


def aggregate(
    logits: Float[Tensor, "B S"], items: Float[Tensor, "B S D"] | TableRows, mask: Bool[Tensor, "B S"]
) -> Aggregated:
    """The sum of the items, weighted by the softmax of their logits."""
    weight = masked_softmax(logits, mask)
    return Aggregated(weighted_sum(weight, items), weight)

"""Attention over what is really there."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from drpn.layers.gather import TableRows, rows, segment_sum, sort_positions, weighted_rows

SHORT = 64
"""The longest sequence, and the largest head, that the kernels hold."""
_ALIGNED = 8
"""Numbers of two bytes that make 16."""


def masked_softmax(logits: Float[Tensor, "..."], mask: Bool[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Softmax over the last axis where `mask` is True; zeros where it is False, also where it is so throughout."""
    weights = torch.softmax(logits.masked_fill(~mask, torch.finfo(logits.dtype).min), dim=-1)
    return weights * mask


def attend(
    query: Float[Tensor, "B Q D"],
    key: Float[Tensor, "B K D"],
    value: Float[Tensor, "B K V"],
    mask: Bool[Tensor, "B Q K"] | Bool[Tensor, "B 1 K"],
) -> Float[Tensor, "B Q V"]:
    """Eq. 1: softmax(Q K^T / sqrt(d)) V, over the keys of the mask; zero where there is none."""
    logits = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # (B Q K)
    return masked_softmax(logits, mask) @ value


class Weight(NamedTuple):
    """The weight and the bias of a linear layer, or of several taken one after the other."""

    matrix: Float[Tensor, "out D"]
    bias: Float[Tensor, "out"] | None = None

    @classmethod
    def of(cls, layer: nn.Linear) -> "Weight":
        """Those of a layer."""
        return cls(layer.weight, layer.bias)


def joint_linear(items: Float[Tensor, "... D"], weights: Sequence[Weight]) -> Float[Tensor, "... all"]:
    """What several linear layers make of the same items, in one matrix product; nothing of none."""
    if not weights:
        return items[..., :0]
    matrix = torch.cat([weight.matrix for weight in weights])
    if all(weight.bias is None for weight in weights):
        return aligned_linear(items, matrix)
    biases = [matrix.new_zeros(len(one.matrix)) if one.bias is None else one.bias for one in weights]
    return aligned_linear(items, matrix, torch.cat(biases))


def aligned_linear(
    items: Float[Tensor, "... D"], matrix: Float[Tensor, "out D"], bias: Float[Tensor, "out"] | None = None
) -> Float[Tensor, "... out"]:
    """A linear layer; on a GPU rows are filled up to 16 bytes with zeros: its matrix units are slow on others."""
    wide = wide_linear(items, matrix, bias)
    return wide if wide.shape[-1] == len(matrix) else wide[..., : len(matrix)]


def wide_linear(
    items: Float[Tensor, "... D"], matrix: Float[Tensor, "out D"], bias: Float[Tensor, "out"] | None = None
) -> Float[Tensor, "... wide"]:
    """The same with what was filled up: for kernels that read the first columns alone."""
    if not items.is_cuda:
        return linear(items, matrix, bias)
    spare, behind = (-count % _ALIGNED for count in (items.shape[-1], len(matrix)))
    if bias is not None and behind:
        bias = pad(bias, (0, behind))
    matrix = pad(matrix, (0, spare, 0, behind)) if spare or behind else matrix
    return linear(pad(items, (0, spare)) if spare else items, matrix, bias)


def split_heads(values: Float[Tensor, "... hd"], count: int) -> Float[Tensor, "... h d"]:
    """The last axis as so many equal parts."""
    return values.reshape(*values.shape[:-1], count, values.shape[-1] // count)


def dot(items: Float[Tensor, "... D"], direction: Float[Tensor, "*#F D"]) -> Float[Tensor, "..."]:
    """The inner product of each item with one vector, on a GPU in float32 whatever the items are."""
    if items.is_cuda:  # a compiler joins this to what made the items, which are then never written
        return (items * direction).sum(-1, dtype=torch.promote_types(items.dtype, torch.float32))
    return items @ direction if direction.dim() == 1 else torch.einsum("...fd,fd->...f", items, direction)


def inner_products(one: Float[Tensor, "B C D"], other: Float[Tensor, "B F D"]) -> Float[Tensor, "B C F"]:
    """Of all pairs, never in less than float32: scores that are told apart must not be rounded together."""
    with torch.autocast(one.device.type, enabled=False):
        wide = torch.promote_types(one.dtype, torch.float32)
        return one.to(wide) @ other.to(wide).transpose(-1, -2)


def weighted_sum(weights: Float[Tensor, "B H"], values: Float[Tensor, "B H D"] | TableRows) -> Float[Tensor, "B D"]:
    """The sum of the values, each by its weight."""
    if isinstance(values, TableRows):
        return weighted_rows(values, weights)
    if values.is_cuda:  # one pass over the values; as a product of matrices with one row it takes three times as long
        return (
            (weights.unsqueeze(-1) * values)
            .sum(1, dtype=torch.promote_types(values.dtype, torch.float32))
            .to(values.dtype)
        )
    return torch.einsum("bh,bhd->bd", weights, values)


def concat_sequences(parts: Sequence[Float[Tensor, "B ?S D"] | TableRows]) -> Float[Tensor, "B all D"] | TableRows:
    """Sequences joined to one; of those in a table, it is the same for all."""
    placed = [part for part in parts if isinstance(part, TableRows)]
    if placed:
        return TableRows(placed[0].table, torch.cat([part.positions for part in placed], dim=1))
    return torch.cat([part for part in parts if isinstance(part, Tensor)], dim=1)


def where_present(
    values: Float[Tensor, "... D"], there: Bool[Tensor, "..."], instead: Float[Tensor, "D"]
) -> Float[Tensor, "... D"]:
    """The values where there is something, a learned vector where there is nothing."""
    return torch.where(there.unsqueeze(-1), values, instead.to(values.dtype))


def self_attention(
    qkv: Float[Tensor, "B S all"] | TableRows, mask: Bool[Tensor, "B S"], heads: int, size: int
) -> Float[Tensor, "B S D"]:
    """Every item of a sequence reads all of it, head by head.

    `qkv` has queries, keys and values of `size` side by side, and whatever stands behind them is not read.
    """
    if isinstance(qkv, TableRows):
        found: Tensor = _ShortAttention.apply(qkv.table, qkv.positions, heads, size)  # type: ignore[no-untyped-call]
        return found
    if fits_kernels(qkv, mask.shape[1]) and size // heads <= SHORT:
        in_order = qkv.flatten(0, 1)
        return _ShortAttention.apply(in_order, mask, heads, size)  # type: ignore[no-any-return, no-untyped-call]
    return plain_self_attention(qkv[..., : 3 * size], mask, heads)


def fits_kernels(values: Tensor, longest: int) -> bool:
    """Whether sequences so long can be read by the kernels for short ones."""
    return values.is_cuda and values.dtype != torch.float64 and longest <= SHORT


def read_in_tables(projected: Tensor, longest: int) -> bool:
    """Whether kernels read sequences so long in the table of projections.

    In float32 the kernels for long ones would take minutes to compile.
    """
    return fits_kernels(projected, longest) and (projected.element_size() <= 2 or longest <= SHORT // 2)


def in_place(
    table: Float[Tensor, "U D"], positions: Int[Tensor, "B S"], *, head: int
) -> Float[Tensor, "B S D"] | TableRows:
    """The rows of sequences, gathered only where no kernel can read them in the table; `head` is a head's size."""
    fits = fits_kernels(table, max(positions.shape[1], head))
    return TableRows(table, positions) if fits else rows(table, positions)


def plain_self_attention(
    qkv: Float[Tensor, "B S QKV"], mask: Bool[Tensor, "B S"], heads: int
) -> Float[Tensor, "B S D"]:
    """What the kernel must give: its tested reference."""
    query, key, value = (split_heads(part, heads).transpose(1, 2) for part in qkv.chunk(3, dim=-1))  # (B h S d)
    # a sequence with nothing in it may read its padding: no softmax over nothing, and nobody looks at the result
    allowed = mask | ~mask.any(-1, keepdim=True)  # (B S)
    read = scaled_dot_product_attention(query, key, value, attn_mask=allowed[:, None, None, :])
    return read.transpose(1, 2).flatten(-2)


class _ShortAttention(torch.autograd.Function):
    """Of sequences at positions of a table, or, where a mask is given, of a table that holds one after the other."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, marks: Tensor, heads: int, size: int) -> Tensor:
        from drpn.layers.kernels.attention import short_attention  # Triton comes with torch on GPU machines alone

        table = table if table.stride(-1) == 1 else table.contiguous()
        ctx.save_for_backward(table, marks)
        ctx.heads, ctx.size = heads, size
        found: Tensor = short_attention(table, marks, heads, size)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        from drpn.layers.kernels.attention import short_attention_backward

        table, marks = ctx.saved_tensors
        of_places = short_attention_backward(table, marks, gradient, ctx.heads, ctx.size)
        if marks.dtype == torch.bool:
            return of_places, None, None, None
        return segment_sum(of_places, *sort_positions(marks), len(table)).to(table.dtype), None, None, None


class MultiHeadAttention(nn.Module):
    """Eq. 2: [head_1; ...; head_h] W^I with head_i = Attn(Q W^Q_i, K W^K_i, V W^V_i), of a sequence with itself.

    A head is a part of `size` where no `head_size` is given; without `join` there is no W^I.
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
        """What each item brings, whatever sequence it stands in: query, key and value side by side, more on a GPU."""
        return wide_linear(items, torch.cat([weight.matrix for weight in self.weights()]))

    def forward(
        self, projected: Float[Tensor, "B S QKV"] | TableRows, mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        """Every item of the sequence reads all of it."""
        read = self_attention(projected, mask, self.heads, self.width)
        return aligned_linear(read, self.join.weight) if isinstance(self.join, nn.Linear) else read


class GatedAggregate(nn.Module):
    """Eq. 3: softmax(tanh(T W_a + b_a) W_g)^T T."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(size, hidden)
        self.gate = nn.Linear(hidden, 1, bias=False)

    def logits(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """tanh(T W_a + b_a) W_g: how much each item matters, before the softmax."""
        return dot(torch.tanh(aligned_linear(items, self.hidden.weight, self.hidden.bias)), self.gate.weight[0])

    def forward(self, items: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> "Aggregated":
        """The weighted sum of the items, and the weights; zero where there is none."""
        return aggregate(self.logits(items), items, mask)


class Aggregated(NamedTuple):
    """A sequence as one vector, and how much each item counted."""

    vector: Float[Tensor, "B D"]
    weight: Float[Tensor, "B S"]


def aggregate(
    logits: Float[Tensor, "B S"], items: Float[Tensor, "B S D"] | TableRows, mask: Bool[Tensor, "B S"]
) -> Aggregated:
    """The sum of the items by the softmax of their logits."""
    weight = masked_softmax(logits, mask)
    return Aggregated(weighted_sum(weight, items), weight)

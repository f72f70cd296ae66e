"""Attention over what is really there."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention


def rows(table: Float[Tensor, "U D"], positions: Int[Tensor, "..."]) -> Float[Tensor, "... D"]:
    """The rows of a table at some positions; its gradient is summed by rows, much faster than that of indexing."""
    return embedding(positions, table)


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


def in_parts(values: Float[Tensor, "... hd"], count: int) -> Float[Tensor, "... h d"]:
    """The last axis as so many equal parts."""
    return values.reshape(*values.shape[:-1], count, values.shape[-1] // count)


def weighted_sum(weights: Float[Tensor, "B H"], values: Float[Tensor, "B H D"]) -> Float[Tensor, "B D"]:
    """The sum of the values, each by its weight."""
    return torch.einsum("bh,bhd->bd", weights, values)


def or_else(
    values: Float[Tensor, "... D"], there: Bool[Tensor, "..."], instead: Float[Tensor, "D"]
) -> Float[Tensor, "... D"]:
    """The values where there is something, a learned vector where there is nothing."""
    return torch.where(there.unsqueeze(-1), values, instead.to(values.dtype))


class QueryKeyValue(NamedTuple):
    """The three projections of an attention."""

    query: Float[Tensor, "... D"]
    key: Float[Tensor, "... D"]
    value: Float[Tensor, "... D"]


class MultiHeadAttention(nn.Module):
    """Eq. 2: [head_1; ...; head_h] W^I with head_i = Attn(Q W^Q_i, K W^K_i, V W^V_i), of a sequence with itself."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        if size % heads:
            raise ValueError(f"heads is {heads}; it takes a divisor of size, which is {size}")
        self.heads = heads
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, size, bias=False)
        self.value = nn.Linear(size, size, bias=False)
        self.join = nn.Linear(size, size, bias=False)

    def project(self, items: Float[Tensor, "... D"]) -> QueryKeyValue:
        """What each item brings, whatever sequence it stands in."""
        return QueryKeyValue(self.query(items), self.key(items), self.value(items))

    def forward(self, projected: QueryKeyValue, mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Every item of the sequence reads all of it."""
        query, key, value = (in_parts(part, self.heads).transpose(1, 2) for part in projected)  # (B h S d)
        # a sequence with nothing in it may read its padding: no softmax over nothing, and nobody looks at the result
        allowed = mask | ~mask.any(-1, keepdim=True)  # (B S)
        heads = scaled_dot_product_attention(query, key, value, attn_mask=allowed[:, None, None, :])
        joined: Tensor = self.join(heads.transpose(1, 2).flatten(-2))
        return joined


class GatedAggregate(nn.Module):
    """Eq. 3: softmax(tanh(T W_a + b_a) W_g)^T T."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(size, hidden)
        self.gate = nn.Linear(hidden, 1, bias=False)

    def logits(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """tanh(T W_a + b_a) W_g: how much each item matters, before the softmax."""
        gates: Tensor = self.gate(torch.tanh(self.hidden(items)))
        return gates.squeeze(-1)

    def forward(self, items: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> "Aggregated":
        """The weighted sum of the items, and the weights; zero where there is none."""
        return aggregate(self.logits(items), items, mask)


class Aggregated(NamedTuple):
    """A sequence as one vector, and how much each item counted."""

    vector: Float[Tensor, "B D"]
    weight: Float[Tensor, "B S"]


def aggregate(logits: Float[Tensor, "B S"], items: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Aggregated:
    """The sum of the items by the softmax of their logits."""
    weight = masked_softmax(logits, mask)
    return Aggregated(weighted_sum(weight, items), weight)

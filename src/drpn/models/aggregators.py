"""How DRPN makes one vector of several news: of a sequence (section 4.3), and of a news and its neighbours (4.4)."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from drpn.layers.attention import (
    Aggregated,
    GatedAggregate,
    MultiHeadAttention,
    Weight,
    aggregate,
    aligned_linear,
    attend,
    dot,
    joint_linear,
    masked_softmax,
    split_heads,
    weighted_sum,
    where_present,
)
from drpn.layers.denoising import similarities
from drpn.layers.gather import TableRows


class GraphNetwork(nn.Module):
    """Section 4.4: every news reads its neighbours, and a gate fuses what it read with what it is."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(size, size, bias=False)  # W^g_{m,1}, all heads
        self.key = nn.Linear(size, size, bias=False)  # W^g_{m,2}
        self.value = nn.Linear(size, size, bias=False)  # W^g_{m,3}
        self.lonely = nn.Parameter(torch.zeros(size))
        self.gate = nn.Linear(2 * size, size, bias=False)  # W^f_1
        self.content = nn.Linear(2 * size, size, bias=False)  # W^f_2

    def read_neighbours(
        self, own: Float[Tensor, "U D"], others: Float[Tensor, "U K D"], mask: Bool[Tensor, "U K"]
    ) -> Float[Tensor, "U D"]:
        """The unnumbered equation and Eq. 7: attention over the neighbours, head by head."""
        query = split_heads(aligned_linear(own, self.query.weight), self.heads)  # (U m d)
        projected = joint_linear(others, [Weight(self.key.weight), Weight(self.value.weight)])
        key, value = (split_heads(part, self.heads) for part in projected.chunk(2, dim=-1))  # (U K m d)
        # alpha^m_k = softmax((r W^g_{m,1}) (r_k W^g_{m,2})^T / sqrt(d / l_h'))
        logits = torch.einsum("umd,ukmd->umk", query, key) / math.sqrt(query.shape[-1])
        weight = masked_softmax(logits, mask.unsqueeze(1))  # (U m K)
        # Eq. 7: the heads' sums of alpha^m_k r_k W^g_{m,3}, side by side
        return torch.einsum("umk,ukmd->umd", weight, value).flatten(-2)

    def forward(
        self, own: Float[Tensor, "U D"], others: Float[Tensor, "U K D"], mask: Bool[Tensor, "U K"]
    ) -> Float[Tensor, "U D"]:
        """The graph vector of each news."""
        read = where_present(self.read_neighbours(own, others, mask), mask.any(-1), self.lonely)
        both = torch.cat([own, read], dim=-1)
        # Eq. 8: sigma([r; r^] W^f_1) * tanh([r; r^] W^f_2)
        gate, content = joint_linear(both, [Weight(self.gate.weight), Weight(self.content.weight)]).chunk(2, dim=-1)
        return torch.sigmoid(gate) * torch.tanh(content)


class ContentAggregator(nn.Module):
    """Section 4.3.1: Aggregate(LN(P + MH(P, P, P))); in the collaborative encoder Aggregate(P) alone."""

    def __init__(self, size: int, heads: int, hidden: int, *, self_attention: bool) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, heads) if self_attention else None
        self.norm = nn.LayerNorm(size) if self_attention else None
        self.aggregate = GatedAggregate(size, hidden)
        self.nothing = nn.Parameter(torch.zeros(size))

    def weights(self) -> list[Weight]:
        """What a news brings: query, key and value of the self-attention, or nothing where there is none."""
        return [] if self.attention is None else self.attention.weights()

    def logits(self, news: Float[Tensor, "U D"]) -> Float[Tensor, "U"] | None:
        """How much a news matters; where there is self-attention, that depends on its sequence."""
        return self.aggregate.logits(news) if self.attention is None else None

    def forward(
        self,
        news: Float[Tensor, "B S D"] | TableRows,
        qkv: Float[Tensor, "B S QKV"] | TableRows,
        logits: Float[Tensor, "B S"] | None,
        mask: Bool[Tensor, "B S"],
    ) -> Aggregated:
        """p_s or n_s, from what `weights` and `logits` made of each news."""
        if self.attention is not None and self.norm is not None:
            news = news.rows() if isinstance(news, TableRows) else news
            found = self.aggregate(self.norm(news + self.attention(qkv, mask)), mask)
        else:
            assert logits is not None
            found = aggregate(logits, news, mask)
        return Aggregated(where_present(found.vector, mask.any(-1), self.nothing), found.weight)


class Similarity(nn.Module):
    """The two similarity heads of Eq. 6: tanh([a; b] W_1 + b_1) W_2 + b_2, with W_1 as its two halves."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.own = nn.Linear(size, size)  # the half of W_1 that reads the news itself, and b_1
        self.read = nn.Linear(size, size, bias=False)  # the half that reads the sequence
        self.out = nn.Linear(size, 1)  # W_2 and b_2

    def forward(self, own: Float[Tensor, "B S D"], read: Float[Tensor, "B S D"]) -> Float[Tensor, "B S"]:
        """From what `self.own` and `self.read` gave."""
        return dot(torch.tanh(own + read), self.out.weight[0]) + self.out.bias


class DenoisingAggregator(nn.Module):
    """Section 4.3.2: a news counts if it resembles the rest of its sequence, and less if it resembles the opposite."""

    def __init__(self, size: int, *, opposite: bool) -> None:
        super().__init__()
        self.query = nn.Linear(size, size, bias=False)  # W^h_q
        self.key = nn.Linear(size, size, bias=False)  # W^h_k
        self.value = nn.Linear(size, size, bias=False)  # W^h_v
        self.similar = Similarity(size)  # W^u_1, b^u_1, W^u_2, b^u_2
        self.nothing = nn.Parameter(torch.zeros(size))
        self.opposite = opposite
        if opposite:
            self.opposite_key = nn.Linear(size, size, bias=False)  # W^h'_k
            self.opposite_value = nn.Linear(size, size, bias=False)  # W^h'_v
            self.contrary = Similarity(size)  # W^u_3, b^u_3, W^u_4, b^u_4
            self.unopposed = nn.Parameter(torch.zeros(size))
            self.gamma = nn.Parameter(torch.tensor(0.5))

    def weights(self) -> list[Weight]:
        """What a news brings to its own sequence: W^h_v is taken together with the half of W^u_1 that reads it."""
        weights = [
            Weight(self.query.weight),
            Weight(self.key.weight),
            Weight(self.similar.read.weight @ self.value.weight),
            Weight.of(self.similar.own),
        ]
        return [*weights, Weight.of(self.contrary.own)] if self.opposite else weights

    def weights_opposite(self) -> list[Weight]:
        """What a news brings to the opposite sequence: W^h'_v is taken together with its half of W^u_3."""
        return [Weight(self.opposite_key.weight), Weight(self.contrary.read.weight @ self.opposite_value.weight)]

    def forward(
        self,
        news: Float[Tensor, "B S D"] | TableRows,
        own: Float[Tensor, "B S all"] | TableRows,
        mask: Bool[Tensor, "B S"],
        other: Float[Tensor, "B T all"] | TableRows | None,
        other_mask: Bool[Tensor, "B T"],
    ) -> Aggregated:
        """p_h or n_h, and the weight of each news, from what `weights` and `weights_opposite` made of each news."""
        # Eq. 6: s^p - ReLU(gamma) * s^n
        if isinstance(own, TableRows):
            assert not isinstance(other, Tensor)
            trust, contrary = self._similarities_in_place(own, other)  # (B S)
        else:
            assert not isinstance(other, TableRows)
            trust, contrary = self._similarities(own, mask, other, other_mask)
        if contrary is not None:
            trust = trust - torch.relu(self.gamma) * contrary
        weight = masked_softmax(trust, mask)
        return Aggregated(where_present(weighted_sum(weight, news), mask.any(-1), self.nothing), weight)

    def _similarities(
        self,
        own: Float[Tensor, "B S all"],
        mask: Bool[Tensor, "B S"],
        other: Float[Tensor, "B T all"] | None,
        other_mask: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"] | None]:
        """s^p and s^n."""
        query, key, value, own_similar, *own_contrary = own.chunk(5 if self.opposite else 4, dim=-1)  # (B S D)
        others = mask.unsqueeze(1) & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)  # (B S S)
        # Eq. 4, intra-attention: every news reads the rest of its own sequence, never itself; where there is no rest,
        # the only news has weight 1 whatever it reads
        same = attend(query, key, value, others)  # (B S D)
        similar = self.similar(own_similar, same)  # (B S)
        if other is None:
            return similar, None
        # Eq. 5, inter-attention: every news reads the opposite sequence
        other_key, other_value = other.chunk(2, dim=-1)
        opposite = attend(query, other_key, other_value, other_mask.unsqueeze(1))  # (B S D)
        there = other_mask.any(-1, keepdim=True).expand(mask.shape)
        opposite = where_present(opposite, there, self.contrary.read(self.unopposed))
        return similar, self.contrary(own_contrary[0], opposite)

    def _similarities_in_place(
        self, own: TableRows, other: TableRows | None
    ) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B S"] | None]:
        """The same by kernels that read the news in their tables."""
        to_similar, bias = self.similar.out.weight[0], self.similar.out.bias
        if other is None:
            return similarities(own, None, to_similar, None, None)[0] + bias, None
        to_contrary, unopposed = self.contrary.out.weight[0], self.contrary.read(self.unopposed)
        similar, contrary = similarities(own, other, to_similar, to_contrary, unopposed)
        return similar + bias, contrary + self.contrary.out.bias

"""A graph network: stories read their neighbours in a graph."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from drpn.layers.attention import masked_softmax, where_present
from drpn.layers.linear import Weight, aligned_linear, joint_linear, split_heads


class GraphNetwork(nn.Module):
    """Section 4.4 of DRPN's paper: a story reads its graph neighbours, and a gate fuses the result with its vector."""

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
        # Eq. 7: the heads' sums of alpha^m_k r_k W^g_{m,3}, concatenated
        return torch.einsum("umk,ukmd->umd", weight, value).flatten(-2)

    def forward(
        self, own: Float[Tensor, "U D"], others: Float[Tensor, "U K D"], mask: Bool[Tensor, "U K"]
    ) -> Float[Tensor, "U D"]:
        """The graph vector of each story."""
        read = where_present(self.read_neighbours(own, others, mask), mask.any(-1), self.lonely)
        both = torch.cat([own, read], dim=-1)
        # Eq. 8: sigma([r; r^] W^f_1) * tanh([r; r^] W^f_2)
        gate, content = joint_linear(both, [Weight(self.gate.weight), Weight(self.content.weight)]).chunk(2, dim=-1)
        return torch.sigmoid(gate) * torch.tanh(content)

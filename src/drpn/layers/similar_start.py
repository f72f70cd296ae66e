"""Starting weights with which the similarity heads of DRPN compare stories from the first step on."""

import math
from collections.abc import Sequence

import torch
from torch import nn


def start_as_similarity(
    heads: Sequence[tuple[nn.Linear, nn.Linear, nn.Linear]],
    *,
    values: Sequence[nn.Linear],
    keys: Sequence[nn.Linear],
    scale: float,
) -> None:
    """Draw weights with which each head, tanh([a; b] W_1 + b_1) W_2, grows with the inner product of a and b.

    Other random weights make it nearly the sum of a function of a and one of b, because tanh is close to linear. Such a
    sum does not compare a story with what it reads, and its gradient hardly leads to weights that do.

    A head is the two halves of W_1 and W_2. With the same rows p in both halves and a bias of 1 or -1,
    tanh(p.(a + b) - 1) - tanh(p.(a + b) + 1) grows with (p.(a + b))^2, so with (p.a)(p.b), and its sum over random p
    with a.b. Rows p have about the length `scale`, which makes up for small a and b. The projections `values` of b
    become the identity; those of queries and `keys` become equal.
    """
    with torch.no_grad():
        for own, read, out in heads:
            half, size = len(own.weight) // 2, own.weight.shape[1]
            rows, sign = scale * torch.randn(half, size) / math.sqrt(size), torch.ones(half)
            for part in (own, read):
                part.weight[: 2 * half] = torch.cat([rows, rows])
            own.bias[: 2 * half] = torch.cat([-sign, sign])
            out.weight[0, : 2 * half] = torch.cat([sign, -sign]) * 2 / math.sqrt(size)
        for layer in values:
            nn.init.eye_(layer.weight)
        turn = nn.init.orthogonal_(torch.empty_like(keys[0].weight))
        for layer in keys:
            layer.weight.copy_(turn)

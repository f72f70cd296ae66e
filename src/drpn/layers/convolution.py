"""Convolutions over the words of a text."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from drpn.layers.attention import DirectAggregate, GatedAggregate, where_present
from drpn.layers.linear import aligned_linear
from drpn.layers.news import Dropout


class WordConvolution(nn.Module):
    """ReLU(F [w_(i-a); ...; w_(i+b)] + f): filters over each word and its neighbours, a + 1 + b = `window`.

    In an even window the extra word is behind. Beyond the ends of a text, and at padding, words are zeros.
    """

    def __init__(self, size: int, filters: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.filters = nn.Linear(window * size, filters)

    def forward(self, words: Float[Tensor, "U W D"], mask: Bool[Tensor, "U W"]) -> Float[Tensor, "U W F"]:
        """The filters' output for each word; at padding it is meaningless."""
        around = windows(words * mask.unsqueeze(-1), self.window)
        return torch.relu(aligned_linear(around, self.filters.weight, self.filters.bias))


class ConvolvedText(nn.Module):
    """A convolution over words, then additive attention: a text as one vector.

    Without `hidden` the attention has no hidden layer.
    """

    def __init__(self, size: int, filters: int, window: int, hidden: int | None, dropout: float) -> None:
        super().__init__()
        self.convolution = WordConvolution(size, filters, window)
        self.aggregate = DirectAggregate(filters) if hidden is None else GatedAggregate(filters, hidden)
        self.dropout = Dropout(dropout)
        self.nothing = nn.Parameter(torch.zeros(filters))

    def forward(self, words: Float[Tensor, "U W D"], mask: Bool[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        """The vector of each text; a learned one for a text without words."""
        # c_i = ReLU(F [w_(i-a); ...; w_(i+b)] + f)
        context = self.dropout(self.convolution(self.dropout(words), mask))  # (U W F)
        # sum of alpha_i c_i with alpha_i = softmax over i of q^T tanh(V c_i + v), or of tanh(v^T c_i + b)
        return where_present(self.aggregate(context, mask).vector, mask.any(-1), self.nothing)


def windows(words: Float[Tensor, "U W D"], size: int) -> Float[Tensor, "U W sizeD"]:
    """Each word concatenated with its neighbours, `size` words in all; zeros beyond the ends."""
    if size == 1:
        return words
    count = words.shape[1]
    longer = pad(words, (0, 0, (size - 1) // 2, size // 2))
    return torch.cat([longer[:, first : first + count] for first in range(size)], dim=-1)


def masked_max(values: Float[Tensor, "U W F"], mask: Bool[Tensor, "U W"]) -> Float[Tensor, "U F"]:
    """The maximum of each column where `mask` is True; the smallest number of the type if it is True nowhere."""
    smallest = torch.finfo(values.dtype).min
    if not values.shape[1]:
        return values.new_full((len(values), values.shape[2]), smallest)
    return values.masked_fill(~mask.unsqueeze(-1), smallest).amax(1)

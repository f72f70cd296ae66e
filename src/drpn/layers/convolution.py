"""Words read together with those around them."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from drpn.layers.attention import aligned_linear


class WordConvolution(nn.Module):
    """ReLU(F [w_(i-a); ...; w_(i+b)] + f): filters over each word and those around it, a + 1 + b = `window`.

    In an even window the odd word out stands behind. Beyond the ends of a text, and where there is padding, words are
    zeros.
    """

    def __init__(self, size: int, filters: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.filters = nn.Linear(window * size, filters)

    def forward(self, words: Float[Tensor, "U W D"], mask: Bool[Tensor, "U W"]) -> Float[Tensor, "U W F"]:
        """What the filters make of each word; that of padding is for nobody to read."""
        around = windows(words * mask.unsqueeze(-1), self.window)
        return torch.relu(aligned_linear(around, self.filters.weight, self.filters.bias))


def windows(words: Float[Tensor, "U W D"], size: int) -> Float[Tensor, "U W sizeD"]:
    """Each word with those around it, so many in all, side by side; zeros beyond the ends."""
    if size == 1:
        return words
    count = words.shape[1]
    longer = pad(words, (0, 0, (size - 1) // 2, size // 2))
    return torch.cat([longer[:, first : first + count] for first in range(size)], dim=-1)


def masked_max(values: Float[Tensor, "U W F"], mask: Bool[Tensor, "U W"]) -> Float[Tensor, "U F"]:
    """The largest of each column where `mask` is True; of nothing, the smallest number there is."""
    smallest = torch.finfo(values.dtype).min
    if not values.shape[1]:
        return values.new_full((len(values), values.shape[2]), smallest)
    return values.masked_fill(~mask.unsqueeze(-1), smallest).amax(1)

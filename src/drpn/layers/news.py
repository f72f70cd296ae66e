"""News as vectors: words of a title, and ids; users as vectors: their ids."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from drpn.layers.attention import GatedAggregate, MultiHeadAttention, Weight, joint_linear, where_present
from drpn.layers.gather import rows

WORD_SPREAD = 0.1
"""Standard deviation of word vectors that no file gave."""
ID_SPREAD = 0.01
"""Standard deviation of id vectors: small, so that what is learnt of a news in few steps outweighs how it began."""
_AT_ONCE = 512
"""Titles encoded together on a CPU: as many as stay in its cache."""


class Dropout(nn.Dropout):
    """Dropout; on a CPU by random bytes, far quicker than torch's own draw, the share rounded to a 256th.

    A share that would be rounded to none or to all is drawn by torch.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The values, some of them zero, the others larger in proportion."""
        dropped = round(self.p * 256)
        if not self.training or dropped in (0, 256) or input.is_cuda:
            return super().forward(input)
        eights = torch.empty(-(-input.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = eights.view(torch.uint8)[: input.numel()].view(input.shape) >= dropped
        return input * kept.to(input.dtype).mul_(256 / (256 - dropped))


class WordVectors(nn.Module):
    """Vectors of words, from a file where it knows them, trained further; projected where the file's size differs."""

    def __init__(self, words: int, size: int, vectors: NDArray[np.float32] | None) -> None:
        super().__init__()
        width = size if vectors is None else vectors.shape[1]
        table = torch.randn(words, width) * WORD_SPREAD
        if vectors is not None:
            known = torch.from_numpy(np.array(vectors))
            table = torch.where(known.any(-1, keepdim=True), known, table)
        table[0] = 0
        self.table = nn.Embedding(words, width, padding_idx=0)
        self.table.weight.data.copy_(table)
        self.project = nn.Identity() if width == size else nn.Linear(width, size, bias=False)

    def forward(self, words: Int[Tensor, "..."]) -> Float[Tensor, "... D"]:
        """The vector of each word."""
        vectors: Tensor = self.project(rows(self.table.weight, words))
        return vectors

    def projected(self, words: Int[Tensor, "U W"], weights: Sequence[Weight]) -> Float[Tensor, "U W all"]:
        """What linear layers make of each word; on a CPU once per distinct word, of which titles have few."""
        if words.is_cuda:
            return joint_linear(self(words), weights)
        distinct, places = torch.unique(words, return_inverse=True)
        return joint_linear(self(distinct), weights).index_select(0, places.flatten()).view(*words.shape, -1)


def encode_by_length(
    encode: Callable[[Int[Tensor, "V L"]], Float[Tensor, "V D"]], words: Int[Tensor, "U W"]
) -> Float[Tensor, "U D"]:
    """What `encode` makes of titles; on a CPU some at a time, those of like length, without padding that none needs."""
    if words.is_cuda:
        return encode(words)
    order = (words != 0).sum(1).argsort(stable=True)
    parts = [encode(trim_padding(some)) for some in torch.split(words[order], _AT_ONCE)]
    return torch.cat(parts).index_select(0, order.argsort())


def trim_padding(words: Int[Tensor, "U W"]) -> Int[Tensor, "U L"]:
    """Without the columns behind the last word of any title; one stays."""
    longest = int((words != 0).any(0).nonzero().amax()) + 1 if words.any() else 1
    return words[:, :longest]


class TitleEncoder(nn.Module):
    """LN(T + MH(T, T, T)), then Aggregate: the words of a title as one vector (section 4.2)."""

    def __init__(
        self, words: int, size: int, heads: int, hidden: int, dropout: float, vectors: NDArray[np.float32] | None
    ) -> None:
        super().__init__()
        self.words = WordVectors(words, size, vectors)
        self.attention = MultiHeadAttention(size, heads)
        self.norm = nn.LayerNorm(size)
        self.aggregate = GatedAggregate(size, hidden)
        self.dropout = Dropout(dropout)
        self.untitled = nn.Parameter(torch.zeros(size))

    def forward(self, words: Int[Tensor, "U W"]) -> Float[Tensor, "U D"]:
        """The vector of each title; a learned one where there is no word."""
        return encode_by_length(self._encode, words)

    def _encode(self, words: Int[Tensor, "U W"]) -> Float[Tensor, "U D"]:
        mask = words != 0  # (U W)
        title = self.dropout(self.words(words))  # (U W D)
        if self.training:
            projected = self.attention.project(title)
        else:
            projected = self.words.projected(words, self.attention.weights())
        context = self.dropout(self.attention(projected, mask))
        vector = self.aggregate(self.norm(title + context), mask).vector
        return where_present(vector, mask.any(-1), self.untitled)


class IdVectors(nn.Module):
    """E_O: a vector for each news seen in training, and one learned vector for all that were not.

    Departs from the paper: news that training never saw share the "unknown" vector, which is trained by giving it, at
    every step, to a share of the others.
    """

    def __init__(self, news: int, size: int, dropped: float) -> None:
        super().__init__()
        self.table = nn.Embedding(news, size, padding_idx=0)
        nn.init.normal_(self.table.weight, std=ID_SPREAD)
        with torch.no_grad():
            self.table.weight[0] = 0
        self.unknown = nn.Parameter(torch.zeros(size))
        self.dropped = dropped

    def forward(self, news: Int[Tensor, "U"], seen: Bool[Tensor, "U"]) -> Float[Tensor, "U D"]:
        """The vector of each news."""
        if self.training and self.dropped:
            seen = seen & (torch.rand(news.shape, device=news.device) >= self.dropped)
        return where_present(rows(self.table.weight, news), seen, self.unknown)

    def of_neighbours(self, news: Int[Tensor, "U K"]) -> Float[Tensor, "U K D"]:
        """The vectors of graph neighbours, which training saw, all of them."""
        return rows(self.table.weight, news)


class UserVectors(nn.Module):
    """A vector for each user of the training samples, and one learned vector for everybody else, who is row 0."""

    def __init__(self, users: int, size: int, dropped: float) -> None:
        super().__init__()
        self.ids = IdVectors(users, size, dropped)

    def forward(self, users: Int[Tensor, "B"]) -> Float[Tensor, "B D"]:
        """The vector of each user; in training a share `dropped` of them is given that of everybody else."""
        vectors: Tensor = self.ids(users, users != 0)
        return vectors

    def of_neighbours(self, users: Int[Tensor, "B M"]) -> Float[Tensor, "B M D"]:
        """The vectors of `Batch.neighbours`; here row 0 is padding."""
        return self.ids.of_neighbours(users)

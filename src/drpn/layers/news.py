"""Vectors of stories and users: words of a title, and ids."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from drpn.layers.attention import GatedAggregate, MultiHeadAttention, where_present
from drpn.layers.gather import gather_rows
from drpn.layers.linear import Weight, joint_linear

WORD_SPREAD = 0.1
"""Standard deviation of the first word vectors, for words that no file gives."""
ID_SPREAD = 0.01
"""Standard deviation of the first id vectors: small, so that a few training steps outweigh it."""
_TITLES_PER_STEP = 512
"""Titles that a CPU encodes together: as many as stay in its cache."""


def draw_vectors(table: nn.Embedding, spread: float) -> None:
    """Draw the vectors of a table from a normal distribution; the padding row is zero."""
    nn.init.normal_(table.weight, std=spread)
    with torch.no_grad():
        table.weight[0] = 0


def embedding_table(count: int, size: int, spread: float) -> nn.Embedding:
    """A table of random vectors; the padding row is zero."""
    table = nn.Embedding(count, size, padding_idx=0)
    draw_vectors(table, spread)
    return table


class Dropout(nn.Dropout):
    """Dropout; on a CPU drawn from random bytes, which is much faster, with the share rounded to 1/256.

    A share that would round to 0 or 1 is left to torch.
    """

    def forward(self, input: Tensor) -> Tensor:
        """The values, a share of them set to zero, the others scaled up."""
        dropped = round(self.p * 256)
        if not self.training or dropped in (0, 256) or input.is_cuda:
            return super().forward(input)
        draws = torch.empty(-(-input.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = draws.view(torch.uint8)[: input.numel()].view(input.shape) >= dropped
        return input * kept.to(input.dtype).mul_(256 / (256 - dropped))


class WordVectors(nn.Module):
    """Word vectors, from a file for the words it knows, and trained further; projected if the file's size differs."""

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
        vectors: Tensor = self.project(gather_rows(self.table.weight, words))
        return vectors

    def projected(self, words: Int[Tensor, "U W"], weights: Sequence[Weight]) -> Float[Tensor, "U W all"]:
        """Linear layers applied to each word vector; on a CPU once per distinct word."""
        if words.is_cuda:
            return joint_linear(self(words), weights)
        distinct, index = torch.unique(words, return_inverse=True)
        return joint_linear(self(distinct), weights).index_select(0, index.flatten()).view(*words.shape, -1)


def encode_by_length(
    encode: Callable[..., Float[Tensor, "V D"]], words: Int[Tensor, "U W"], *features: Int[Tensor, "U W"]
) -> Float[Tensor, "U D"]:
    """`encode` applied to titles; on a CPU in groups of similar length, with padding trimmed from each group.

    `features` of the words are grouped and trimmed with them.
    """
    if words.is_cuda:
        return encode(words, *features)
    order = (words != 0).sum(1).argsort(stable=True)
    parts = []
    for group, *others in zip(
        *(torch.split(table[order], _TITLES_PER_STEP) for table in (words, *features)), strict=True
    ):
        trimmed = trim_padding(group)
        parts.append(encode(trimmed, *(other[:, : trimmed.shape[1]] for other in others)))
    return torch.cat(parts).index_select(0, order.argsort())


def trim_padding(words: Int[Tensor, "U W"]) -> Int[Tensor, "U L"]:
    """The titles without the columns after the last word of the longest; at least one column stays."""
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
        """The vector of each title; a learned one for a title without words."""
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
    """E_O: a vector for each story that training meets, and one learned vector for all others.

    Departs from the paper: stories that training never meets share the "unknown" vector, because their own would still
    be random. It is trained by giving it, at every step, to a share of the other stories.
    """

    met: Bool[Tensor, "news"]
    """Which stories had their own vector in a training batch; all of them in a model that was never trained."""

    def __init__(self, news: int, size: int, dropped: float, spread: float = ID_SPREAD) -> None:
        super().__init__()
        self.table = embedding_table(news, size, spread)
        self.unknown = nn.Parameter(torch.zeros(size))
        self.dropped = dropped
        self.register_buffer("met", torch.ones(news, dtype=torch.bool))

    def forward(self, news: Int[Tensor, "U"]) -> Float[Tensor, "U D"]:
        """The vector of each story; row 0 stands for padding and for stories that came after the dataset."""
        known = news != 0
        if self.training:
            if self.dropped:
                known = known & (torch.rand(news.shape, device=news.device) >= self.dropped)
            self._meet(torch.where(known, news, 0))
        else:
            known = known & self.met[news]
        return where_present(gather_rows(self.table.weight, news), known, self.unknown)

    def of_neighbours(self, news: Int[Tensor, "U K"]) -> Float[Tensor, "U K D"]:
        """The vectors of graph neighbours; zeros for padding."""
        vectors = gather_rows(self.table.weight, news)
        if self.training:
            self._meet(news)
            return vectors
        return where_present(vectors, self.met[news] | (news == 0), self.unknown)

    def _meet(self, news: Int[Tensor, "..."]) -> None:
        self.met.index_fill_(0, news.flatten().long(), True)  # not met[news] = True, which copies from the host


def forget_met(model: nn.Module) -> None:
    """Call before training: from now on a story counts as met once it was in a batch."""
    for module in model.modules():
        if isinstance(module, IdVectors):
            module.met.zero_()


class UserVectors(nn.Module):
    """A vector for each user with a training sample, and one learned vector for all others (row 0).

    The vectors start at small random numbers; with `zero`, at zero.
    """

    def __init__(self, users: int, size: int, dropped: float, *, zero: bool = False) -> None:
        super().__init__()
        self.ids = IdVectors(users, size, dropped, 0.0 if zero else ID_SPREAD)

    def forward(self, users: Int[Tensor, "B"]) -> Float[Tensor, "B D"]:
        """The vector of each user; in training a share `dropped` of them gets the vector of unknown users."""
        vectors: Tensor = self.ids(users)
        return vectors

    def of_neighbours(self, users: Int[Tensor, "B M"]) -> Float[Tensor, "B M D"]:
        """The vectors of neighbour users; row 0 is padding."""
        return self.ids.of_neighbours(users)

"""DFN: transformers over what was clicked and over what was skipped, the candidate in both, then wide, FM and deep.

Xie, Ling, Wang, Wang, Xia and Lin, "Deep Feedback Network for Recommendation", IJCAI 2020. Symbols are the paper's;
`docs/paper-map.md` lists its formulas with their tests. Where the paper does not say, its authors' program is followed.

    internal: f_c, f_u = the mean over t, x_1, ..., x_n of FFN(MultiHead(t, x_1, ..., x_n)), of clicks and of skips
    external: f_uc = the skips x_j, weighted by an attention that f_c instructs
    score = w^T [wide; FM(t, f_c, f_u, f_uc); deep(t, f_c, f_u, f_uc)]

With the candidate t in the sequence everything after it differs by candidate, but not all has to be computed again. Of
the softmax over (t, x_1, ..., x_n) the part without t is the user's: with what x_i reads there, own_i, and the log of
the sum it is divided by, L_i, x_i reads own_i + a (v_t - own_i), where a = sigmoid(q_i k_t - L_i). Projections of news
are computed once for each news, W [x; place] as two halves. The numbers are those of the plain formulation.

Departs from the paper: the log has no explicit feedback, and so neither the transformer over dislikes, f_d, nor the
attention that it instructs, f_ud, are there. Nor are features of users and of context: what is left are the title (the
mean of its words), id, category and subcategory of news. The score is not passed through a sigmoid; the loss is that of
all models here. Logits of a head are divided by the root of the size of a head. Biases that are added to all scores of
a user, or to all logits of a softmax, are left out. The mean is over what is there, padding left out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import MultiHeadAttention, masked_softmax, where_present
from drpn.layers.chunks import filled_columns, score_in_chunks
from drpn.layers.gather import gather_rows
from drpn.layers.linear import Weight, aligned_linear, dot, joint_linear, split_heads
from drpn.layers.news import WORD_SPREAD, Dropout
from drpn.layers.tables import gather_at, weighted_sum
from drpn.models.base import ClickModel, DataShape
from drpn.models.checks import check_positive, check_share
from drpn.models.fields import FIELDS, NewsFields


@dataclass(frozen=True, kw_only=True)
class DfnSettings:
    """DFN; the defaults are the paper's or, where it gives none, those of its authors' program."""

    size: int = 64
    """n_h: size of the vector of each feature; an item has four, side by side."""
    heads: int = 4
    """Heads of each transformer; divides four times `size`."""
    wider: int = 4
    """How many times wider than an item the hidden layer of a transformer's feed-forward network is."""
    places: int = 60
    """Places in a sequence that have a vector, the newest first; whatever is older has the last."""
    hidden: int = 32
    """Size of the hidden layer of the external attention."""
    deep: int = 32
    """Size of the first layer of the deep part."""
    deepest: int = 16
    """Size of its second layer."""
    dropout: float = 0.2
    """On the features of news (the paper names none; this is DRPN's)."""
    id_dropout: float = 0.1
    """Share of news that are given the "unknown" id vector at each step of training."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "heads", "wider", "places", "hidden", "deep", "deepest")
        check_share(self, "dropout", "id_dropout")
        width = FIELDS * self.size
        if width % self.heads:
            raise ValueError(f"heads is {self.heads}; it takes a divisor of {FIELDS} times size, which is {width}")


class Heads(NamedTuple):
    """What items ask for, answer to, and say, head by head; m heads of size d."""

    query: Float[Tensor, "B m S d"]
    key: Float[Tensor, "B m S d"]
    value: Float[Tensor, "B m S d"]

    @classmethod
    def of(cls, projected: Float[Tensor, "B S QKV"], heads: int) -> "Heads":
        """Those that are side by side."""
        return cls(*(split_heads(part, heads).transpose(1, 2) for part in projected.chunk(3, dim=-1)))


class OwnPart(NamedTuple):
    """Some sequences as far as they do not depend on a candidate."""

    heads: Heads
    read: Float[Tensor, "B S m d"]
    """own_i: what each item reads of its sequence."""
    log_sum: Float[Tensor, "B m S"]
    """L_i: the log of the sum of its exponentials."""
    mask: Bool[Tensor, "B S"]

    def cut(self, length: int) -> "OwnPart":
        """Without the places after so many."""
        heads = Heads(*(part[:, :, :length] for part in self.heads))
        return OwnPart(heads, self.read[:, :length], self.log_sum[..., :length], self.mask[:, :length])


class FeedbackTransformer(nn.Module):
    """Internal feedback interaction: one sequence with the candidate in it."""

    def __init__(self, settings: DfnSettings) -> None:
        super().__init__()
        width = FIELDS * settings.size
        # x = W [item; place]
        self.item = nn.Linear(width, width, bias=False)
        self.place = nn.Linear(settings.size, width, bias=False)
        self.places = nn.Embedding(settings.places + 1, settings.size, padding_idx=0)
        nn.init.normal_(self.places.weight, std=WORD_SPREAD)
        with torch.no_grad():
            self.places.weight[0] = 0
        # W^Q, W^K and W^V of all heads
        self.attention = MultiHeadAttention(width, settings.heads, join=False)
        self.widen = nn.Linear(width, settings.wider * width)
        self.narrow = nn.Linear(settings.wider * width, width)

    def placed(
        self, encoded: Float[Tensor, "U all"], positions: Int[Tensor, "B S"], brings: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B S all"]:
        """What each x brings, of what its item does (`encoded`) and what its place does; `brings` is linear.

        Places are counted from the newest item, padding left out.
        """
        mask = positions != 0
        place = mask.flip(1).cumsum(1).flip(1).clamp(max=self.places.num_embeddings - 1) * mask  # (B S)
        table = brings(aligned_linear(self.places.weight, self.place.weight))  # (places all)
        return gather_rows(encoded, positions) + gather_rows(table, place)

    def read(self, projected: Float[Tensor, "B S QKV"], mask: Bool[Tensor, "B S"]) -> OwnPart:
        """Every item of a sequence reads all of it."""
        heads = Heads.of(projected, self.attention.heads)
        logits = _logits(heads.query, heads.key).masked_fill(~mask[:, None, None], _least(heads.query))  # (B m S S)
        read = torch.softmax(logits, dim=-1).to(heads.value.dtype) @ heads.value  # (B m S d)
        return OwnPart(heads, read.transpose(1, 2).contiguous(), logits.logsumexp(-1), mask)

    def match(self, own: OwnPart, target: Float[Tensor, "B C QKV"]) -> Float[Tensor, "B C D"]:
        """The mean, over each candidate and the sequence, of what the transformer makes of them."""
        candidate = Heads.of(target, self.attention.heads)
        items = self._wide(self._items_read(own, candidate))  # (B C S F)
        itself = self._wide(self._candidate_reads(own, candidate))  # (B C F)
        there = own.mask.to(items.dtype).unsqueeze(1).expand(items.shape[:-1])  # (B C S)
        total = weighted_sum(there.flatten(0, 1), items.flatten(0, 1)).view_as(itself) + itself  # (B C F)
        # the second layer of the feed-forward network is linear: its mean is what it makes of the mean
        mean = total / (1 + own.mask.sum(-1))[:, None, None]
        return aligned_linear(mean, self.narrow.weight, self.narrow.bias)

    def _items_read(self, own: OwnPart, candidate: Heads) -> Float[Tensor, "B C S D"]:
        """What each item reads of the sequence with the candidate in it: own_i + a (v_t - own_i)."""
        # a: the share of t in the softmax
        share = torch.sigmoid(_logits(candidate.key, own.heads.query) - own.log_sum.unsqueeze(2))  # (B m C S)
        share = share.to(own.read.dtype).permute(0, 2, 3, 1).contiguous().unsqueeze(-1)  # (B C S m 1)
        read, value = own.read.unsqueeze(1), candidate.value.transpose(1, 2).unsqueeze(2)  # (B 1 S m d), (B C 1 m d)
        return (read + share * (value - read)).flatten(-2)

    def _candidate_reads(self, own: OwnPart, candidate: Heads) -> Float[Tensor, "B C D"]:
        """What the candidate reads of the sequence and of itself."""
        query, key, value = candidate  # (B m C d)
        others = _logits(query, own.heads.key).masked_fill(~own.mask[:, None, None], _least(query))  # (B m C S)
        itself = (query * key).sum(-1, keepdim=True, dtype=others.dtype) / math.sqrt(query.shape[-1])  # (B m C 1)
        weight = torch.softmax(torch.cat([others, itself], dim=-1), dim=-1).to(value.dtype)
        read = weight[..., :-1] @ own.heads.value + weight[..., -1:] * value  # (B m C d)
        return read.transpose(1, 2).flatten(-2)

    def _wide(self, read: Float[Tensor, "*any D"]) -> Float[Tensor, "*any F"]:
        """The first layer of the feed-forward network."""
        return aligned_linear(read, self.widen.weight, self.widen.bias).relu_()


class ExternalAttention(nn.Module):
    """External feedback interaction: what was skipped, seen by what was clicked."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        # W [f; x; f * x; f - x] + b
        self.hidden = nn.Linear(4 * width, hidden)
        self.gate = nn.Linear(hidden, 1, bias=False)
        self.nothing = nn.Parameter(torch.zeros(width))

    def weight(self) -> Weight:
        """What is applied to x alone."""
        _, item, _, difference = self.hidden.weight.chunk(4, dim=-1)
        return Weight(item - difference)

    def forward(
        self,
        feedback: Float[Tensor, "B C D"],
        items: Float[Tensor, "B S D"],
        halves: Float[Tensor, "B S h"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B C D"]:
        """The items by their weights, a learned vector where there is none; `halves` is what `weight` makes of them."""
        own, _, product, difference = self.hidden.weight.chunk(4, dim=-1)  # (h D)
        half = aligned_linear(feedback, own + difference, self.hidden.bias)  # (B C h)
        # W (f * x) = (W * f) x
        scaled = (feedback.unsqueeze(2) * product).flatten(1, 2)  # (B Ch D)
        both = split_heads(items @ scaled.to(items.dtype).transpose(1, 2), half.shape[1])  # (B S C h)
        hidden = torch.relu(both + half.unsqueeze(1) + halves.unsqueeze(2))
        logits = dot(hidden, self.gate.weight[0]).transpose(1, 2) / self.scale  # (B C S)
        found = masked_softmax(logits, mask.unsqueeze(1)).to(items.dtype) @ items  # (B C D)
        return where_present(found, mask.any(-1, keepdim=True), self.nothing)


class Target(NamedTuple):
    """What is known of some news as candidates."""

    item: Float[Tensor, "U D"]
    """Their features, side by side."""
    wide: Float[Tensor, "U"]
    """What their features are worth by themselves."""
    half: Float[Tensor, "U deep"]
    """What they bring to the first layer of the deep part."""
    clicked: Float[Tensor, "U QKV"]
    """Query, key and value in the transformer over clicks."""
    skipped: Float[Tensor, "U QKV"]


class DfnRows(NamedTuple):
    """What is known of some news before any user comes in."""

    target: Target
    clicked: Float[Tensor, "U QKV"]
    """What they bring to the transformer over clicks, as clicks."""
    skipped: Float[Tensor, "U all"]
    """The same of skips; and what they bring to the external attention, themselves and their half."""


class DfnReaders(NamedTuple):
    """What is known of some users before any candidate comes in."""

    clicked: OwnPart
    skipped: OwnPart
    items: Float[Tensor, "B N D"]
    """x_j: what was skipped."""
    halves: Float[Tensor, "B N h"]
    """What they bring to the external attention."""

    def trim(self) -> "DfnReaders":
        """Without the columns at the end that are all padding."""
        clicked, skipped = (filled_columns(own.mask) for own in (self.clicked, self.skipped))
        return DfnReaders(
            self.clicked.cut(clicked), self.skipped.cut(skipped), self.items[:, :skipped], self.halves[:, :skipped]
        )


class Dfn(ClickModel):
    """Reads what was clicked and what was skipped, both in their order."""

    def __init__(self, settings: DfnSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings = settings
        width = FIELDS * settings.size
        self.fields = NewsFields(settings.size, settings.id_dropout, shape, weighted=True)
        self.dropout = Dropout(settings.dropout)
        self.clicked = FeedbackTransformer(settings)
        self.skipped = FeedbackTransformer(settings)
        self.external = ExternalAttention(width, settings.hidden)
        # the first layer of the deep part, W [t; f_c; f_u; f_uc] + b
        self.deep_target = nn.Linear(width, settings.deep)
        self.deep_feedback = nn.Linear(3 * width, settings.deep, bias=False)
        self.deepest = nn.Linear(settings.deep, settings.deepest)
        # w of [wide; FM; deep]
        self.out_wide = nn.Linear(FIELDS, 1, bias=False)
        self.out = nn.Linear(settings.size + settings.deepest, 1, bias=False)

    def encode_news(self, news: NewsRows) -> DfnRows:
        """The features of each news, and every projection of them."""
        fields = self.fields(news)  # (U F 1+size)
        wide = dot(fields[..., 0], self.out_wide.weight[0])  # (U)
        item = self.dropout(fields[..., 1:].flatten(1))  # (U D)
        deep, width = Weight.from_layer(self.deep_target), item.shape[-1]
        weights = [
            deep,
            *self.clicked.attention.weights(),
            *self.skipped.attention.weights(),
            Weight(self.clicked.item.weight),
            Weight(self.skipped.item.weight),
        ]
        sizes = [len(deep.matrix), 3 * width, 3 * width, width, width]
        half, in_clicked, in_skipped, click, skip = torch.split(joint_linear(item, weights), sizes, dim=-1)
        target = Target(item, wide, half, in_clicked, in_skipped)
        return DfnRows(target, self._of_click(click), self._of_skip(skip))

    def read(self, encoded: DfnRows, profiles: Profiles) -> DfnReaders:
        """Both sequences as far as they do not depend on a candidate."""
        clicked = self.clicked.placed(encoded.clicked, profiles.clicked, self._of_click)
        skipped = self.skipped.placed(encoded.skipped, profiles.skipped, self._of_skip)
        width, hidden = self.deep_target.in_features, self.settings.hidden
        skipped, halves, items = torch.split(skipped, [3 * width, hidden, width], dim=-1)
        return DfnReaders(
            self.clicked.read(clicked, profiles.clicked_mask),
            self.skipped.read(skipped, profiles.skipped_mask),
            items,
            halves,
        )

    def match(
        self, encoded: DfnRows, readers: DfnReaders, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """w^T [wide; FM; deep]; without gradients for a few users at a time, because the widest layer is large."""
        longest = max(1, readers.clicked.mask.shape[1], readers.skipped.mask.shape[1])
        return score_in_chunks(
            lambda part, shown: self._match(encoded, part, shown),
            readers,
            candidates,
            numbers=candidates.shape[1] * longest * self.clicked.widen.out_features,
            trim=DfnReaders.trim,
        )

    def _match(self, encoded: DfnRows, readers: DfnReaders, candidates: Int[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        target: Target = gather_at(encoded.target, candidates)
        # f_c and f_u
        clicked = self.clicked.match(readers.clicked, target.clicked)  # (B C D)
        skipped = self.skipped.match(readers.skipped, target.skipped)
        # f_uc
        seen = self.external(clicked, readers.items, readers.halves, readers.skipped.mask)
        feedback = torch.cat([clicked, skipped, seen], dim=-1)  # (B C 3D)
        # never less than float32: these are added up to the score
        wide = torch.promote_types(feedback.dtype, torch.float32)
        vectors = split_heads(torch.cat([target.item, feedback], dim=-1).to(wide), 4 * FIELDS)  # (B C 16 D)
        # over i < j: sum of v_i * v_j = ((sum of v_i)^2 - sum of v_i^2) / 2
        pairs = (vectors.sum(-2).square() - vectors.square().sum(-2)) / 2  # (B C size)
        deep = torch.relu(target.half + aligned_linear(feedback, self.deep_feedback.weight))
        deep = torch.relu(aligned_linear(deep, self.deepest.weight, self.deepest.bias))
        return target.wide + dot(torch.cat([pairs, deep.to(wide)], dim=-1), self.out.weight[0])

    def _of_click(self, click: Float[Tensor, "... D"]) -> Float[Tensor, "... QKV"]:
        """What x brings to the transformer over clicks."""
        return joint_linear(click, self.clicked.attention.weights())

    def _of_skip(self, skip: Float[Tensor, "... D"]) -> Float[Tensor, "... all"]:
        """What x brings to the transformer over skips, to the hidden layer of the external attention, and itself."""
        projected = joint_linear(skip, [*self.skipped.attention.weights(), self.external.weight()])
        return torch.cat([projected, skip], dim=-1)


def _logits(query: Float[Tensor, "... Q d"], key: Float[Tensor, "... K d"]) -> Float[Tensor, "... Q K"]:
    """Q K^T / sqrt(d), never less than float32: what is made of them is added and taken away again."""
    wide = torch.promote_types(query.dtype, torch.float32)
    return (query @ key.transpose(-1, -2)).to(wide) / math.sqrt(query.shape[-1])


def _least(like: Tensor) -> float:
    """What stands for minus infinity among logits."""
    return torch.finfo(torch.promote_types(like.dtype, torch.float32)).min

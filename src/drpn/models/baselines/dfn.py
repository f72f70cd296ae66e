"""DFN: transformers over clicked and over skipped stories, both with the candidate, then wide, FM and deep parts.

Xie, Ling, Wang, Wang, Xia and Lin, "Deep Feedback Network for Recommendation", IJCAI 2020. Symbols are the paper's;
`docs/paper-map.md` lists its formulas with their tests. Where the paper is silent, the authors' program is followed.

    internal: f_c, f_u = the mean over t, x_1, ..., x_n of FFN(MultiHead(t, x_1, ..., x_n)), for clicks and for skips
    external: f_uc = the skipped stories x_j, weighted by an attention whose query is f_c
    score = w^T [wide; FM(t, f_c, f_u, f_uc); deep(t, f_c, f_u, f_uc)]

The sequence holds the candidate t, so everything after it depends on the candidate, but most of it need not be computed
again. The softmax over (x_1, ..., x_n) without t depends on the user alone. Let own_i be what x_i reads there, and L_i
the log of the sum of its exponentials. With t, x_i reads own_i + a (v_t - own_i) with a = sigmoid(q_i k_t - L_i).
Projections are computed once per story, W [x; place] as two halves. The results are exactly those of the plain
formulation.

Departs from the paper: there is no explicit feedback in the logs, hence no transformer over dislikes, f_d, and no
attention with it as the query, f_ud.
Departs from the paper: there are no features of users or context; the features of a story are title (the mean of its
words), id, category and subcategory.
Departs from the paper: the score does not pass through a sigmoid; all models here share one loss.
Departs from the paper: the logits of a head are divided by the square root of the size of a head.
Departs from the paper: no biases that are the same for all candidates of a user, or for all logits of a softmax.
Departs from the paper: the mean leaves out padding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import MultiHeadAttention, attention_logits, masked_softmax, where_present
from drpn.layers.chunks import filled_columns, score_in_chunks
from drpn.layers.gather import gather_rows
from drpn.layers.linear import (
    Weight,
    aligned_linear,
    at_least_float32,
    cast_like,
    dot,
    dot_rowwise,
    joint_linear,
    split_heads,
)
from drpn.layers.news import WORD_SPREAD, Dropout, embedding_table
from drpn.layers.tables import gather_at, masked_sum, weighted_sums
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share
from drpn.models.fields import FIELDS, NewsFields


@dataclass(frozen=True, kw_only=True)
class DfnSettings(ModelSettings):
    """DFN; the defaults are the paper's or, where it has none, those of the authors' program."""

    size: int = 64
    """n_h: size of the vector of each feature; a story has four, concatenated."""
    heads: int = 4
    """Heads of each transformer; divides four times `size`."""
    wider: int = 4
    """Size of the hidden layer of each feed-forward network, in multiples of the size of a story."""
    places: int = 60
    """Positions of a sequence with a vector, from the newest; all older ones share the last."""
    hidden: int = 32
    """Size of the hidden layer of the external attention."""
    deep: int = 32
    """Size of the first layer of the deep part."""
    deepest: int = 16
    """Size of its second layer."""
    dropout: float = 0.2
    """Dropout on the features of stories (the paper has none; this is DRPN's)."""
    id_dropout: float = 0.1
    """Share of stories that get the "unknown" id vector at each training step."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "heads", "wider", "places", "hidden", "deep", "deepest")
        check_share(self, "dropout", "id_dropout")
        width = FIELDS * self.size
        if width % self.heads:
            raise ValueError(f"heads is {self.heads}; it takes a divisor of {FIELDS} times size, which is {width}")


class Heads(NamedTuple):
    """Queries, keys and values of m heads of size d."""

    query: Float[Tensor, "B m S d"]
    key: Float[Tensor, "B m S d"]
    value: Float[Tensor, "B m S d"]

    @classmethod
    def split(cls, projected: Float[Tensor, "B S QKV"], heads: int) -> "Heads":
        """From queries, keys and values that are concatenated."""
        return cls(*(split_heads(part, heads).transpose(1, 2) for part in projected.chunk(3, dim=-1)))


class SequenceAttention(NamedTuple):
    """The self-attention of sequences without the candidate."""

    heads: Heads
    read: Float[Tensor, "B S m d"]
    """own_i: what each story reads of its sequence."""
    log_sum: Float[Tensor, "B m S"]
    """L_i: the log of the sum of exponentials in its softmax."""
    mask: Bool[Tensor, "B S"]

    def shorten(self, length: int) -> "SequenceAttention":
        """The first `length` columns."""
        heads = Heads(*(part[:, :, :length] for part in self.heads))
        return SequenceAttention(heads, self.read[:, :length], self.log_sum[..., :length], self.mask[:, :length])


class FeedbackTransformer(nn.Module):
    """Internal feedback interaction: a transformer over one sequence and the candidate."""

    def __init__(self, settings: DfnSettings) -> None:
        super().__init__()
        width = FIELDS * settings.size
        # x = W [story; place]
        self.item = nn.Linear(width, width, bias=False)
        self.place = nn.Linear(settings.size, width, bias=False)
        self.places = embedding_table(settings.places + 1, settings.size, WORD_SPREAD)
        # W^Q, W^K and W^V of all heads
        self.attention = MultiHeadAttention(width, settings.heads, join=False)
        self.widen = nn.Linear(width, settings.wider * width)
        self.narrow = nn.Linear(settings.wider * width, width)

    def add_places(
        self, encoded: Float[Tensor, "U all"], positions: Int[Tensor, "B S"], project: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B S all"]:
        """The linear function `project` of each x: the story's part, which is `encoded`, plus that of its place.

        Places are counted from the newest story, without padding.
        """
        mask = positions != 0
        place = mask.flip(1).cumsum(1).flip(1).clamp(max=self.places.num_embeddings - 1) * mask  # (B S)
        table = project(aligned_linear(self.places.weight, self.place.weight))  # (places all)
        return gather_rows(encoded, positions) + gather_rows(table, place)

    def read(self, projected: Float[Tensor, "B S QKV"], mask: Bool[Tensor, "B S"]) -> SequenceAttention:
        """Every story of a sequence reads the whole sequence."""
        heads = Heads.split(projected, self.attention.heads)
        logits = attention_logits(heads.query, heads.key, mask[:, None, None])  # (B m S S)
        read = weighted_sums(torch.softmax(logits, dim=-1), heads.value)  # (B m S d)
        return SequenceAttention(heads, read.transpose(1, 2).contiguous(), logits.logsumexp(-1), mask)

    def match(self, own: SequenceAttention, target: Float[Tensor, "B C QKV"]) -> Float[Tensor, "B C D"]:
        """The mean of the transformer's outputs over the candidate and the sequence, for each candidate."""
        candidate = Heads.split(target, self.attention.heads)
        stories = self._widen(self._stories_read(own, candidate))  # (B C S F)
        itself = self._widen(self._candidate_reads(own, candidate))  # (B C F)
        mask = own.mask.unsqueeze(1).expand(stories.shape[:-1])  # (B C S)
        total = masked_sum(stories.flatten(0, 1), mask.flatten(0, 1)).view_as(itself) + itself  # (B C F)
        # the second layer of the feed-forward network is linear: it can be applied to the mean
        mean = total / (1 + own.mask.sum(-1))[:, None, None]
        return aligned_linear(mean, self.narrow.weight, self.narrow.bias)

    def _stories_read(self, own: SequenceAttention, candidate: Heads) -> Float[Tensor, "B C S D"]:
        """The attention output of each story over the sequence and the candidate: own_i + a (v_t - own_i)."""
        # a: the share of t in the softmax
        share = torch.sigmoid(attention_logits(candidate.key, own.heads.query) - own.log_sum.unsqueeze(2))  # (B m C S)
        share = cast_like(share, own.read).permute(0, 2, 3, 1).contiguous().unsqueeze(-1)  # (B C S m 1)
        read, value = own.read.unsqueeze(1), candidate.value.transpose(1, 2).unsqueeze(2)  # (B 1 S m d), (B C 1 m d)
        return (read + share * (value - read)).flatten(-2)

    def _candidate_reads(self, own: SequenceAttention, candidate: Heads) -> Float[Tensor, "B C D"]:
        """The attention output of the candidate over the sequence and itself."""
        query, key, value = candidate  # (B m C d)
        others = attention_logits(query, own.heads.key, own.mask[:, None, None])  # (B m C S)
        itself = dot_rowwise(query, key).unsqueeze(-1) / math.sqrt(query.shape[-1])  # (B m C 1)
        weight = cast_like(torch.softmax(torch.cat([others, itself], dim=-1), dim=-1), value)  # (B m C S+1)
        read = weight[..., :-1] @ own.heads.value + weight[..., -1:] * value  # (B m C d)
        return read.transpose(1, 2).flatten(-2)

    def _widen(self, read: Float[Tensor, "*any D"]) -> Float[Tensor, "*any F"]:
        """The first layer of the feed-forward network."""
        return aligned_linear(read, self.widen.weight, self.widen.bias).relu_()


class ExternalAttention(nn.Module):
    """External feedback interaction: attention over skipped stories, with f_c as the query."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        # W [f; x; f * x; f - x] + b
        self.hidden = nn.Linear(4 * width, hidden)
        self.gate = nn.Linear(hidden, 1, bias=False)
        self.nothing = nn.Parameter(torch.zeros(width))

    def weight(self) -> Weight:
        """The part of W that is applied to x alone."""
        _, item, _, difference = self.hidden.weight.chunk(4, dim=-1)
        return Weight(item - difference)

    def forward(
        self,
        feedback: Float[Tensor, "B C D"],
        items: Float[Tensor, "B S D"],
        halves: Float[Tensor, "B S h"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B C D"]:
        """The weighted sum of the items, a learned vector without any; `halves` are their products with `weight`."""
        own, _, product, difference = self.hidden.weight.chunk(4, dim=-1)  # (h D)
        half = aligned_linear(feedback, own + difference, self.hidden.bias)  # (B C h)
        # W (f * x) = (W * f) x
        scaled = (feedback.unsqueeze(2) * product).flatten(1, 2)  # (B Ch D)
        both = split_heads(items @ cast_like(scaled, items).transpose(1, 2), half.shape[1])  # (B S C h)
        hidden = torch.relu(both + half.unsqueeze(1) + halves.unsqueeze(2))
        logits = dot(hidden, self.gate.weight[0]).transpose(1, 2) / self.scale  # (B C S)
        read = weighted_sums(masked_softmax(logits, mask.unsqueeze(1)), items)  # (B C D)
        return where_present(read, mask.any(-1, keepdim=True), self.nothing)


class Target(NamedTuple):
    """The stored values of each story as a candidate."""

    item: Float[Tensor, "U D"]
    """The features, concatenated."""
    wide: Float[Tensor, "U"]
    """The wide part of the score."""
    half: Float[Tensor, "U deep"]
    """The part of the first deep layer that reads t, and its bias."""
    clicked: Float[Tensor, "U QKV"]
    """Query, key and value in the transformer over clicked stories."""
    skipped: Float[Tensor, "U QKV"]


class DfnRows(NamedTuple):
    """The stored values of each story."""

    target: Target
    clicked: Float[Tensor, "U QKV"]
    """Query, key and value as a clicked story."""
    skipped: Float[Tensor, "U all"]
    """Query, key and value as a skipped story, then half and vector for the external attention."""


class DfnReaders(NamedTuple):
    """The stored values of each user."""

    clicked: SequenceAttention
    skipped: SequenceAttention
    items: Float[Tensor, "B N D"]
    """x_j: the skipped stories."""
    halves: Float[Tensor, "B N h"]
    """Their products with `ExternalAttention.weight`."""

    def trim(self) -> "DfnReaders":
        """The readers without columns at the end that are all padding."""
        clicked, skipped = (filled_columns(own.mask) for own in (self.clicked, self.skipped))
        return DfnReaders(
            self.clicked.shorten(clicked),
            self.skipped.shorten(skipped),
            self.items[:, :skipped],
            self.halves[:, :skipped],
        )


class Dfn(ClickModel[DfnRows, DfnReaders]):
    """Reads clicked and skipped stories, both in order."""

    def __init__(self, settings: DfnSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: DfnSettings = settings
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
        """The features of each story, and all projections of them."""
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
        return DfnRows(target, self._project_clicked(click), self._project_skipped(skip))

    def read(self, encoded: DfnRows, profiles: Profiles) -> DfnReaders:
        """The parts of both transformers that do not depend on the candidate."""
        clicked = self.clicked.add_places(encoded.clicked, profiles.clicked, self._project_clicked)
        skipped = self.skipped.add_places(encoded.skipped, profiles.skipped, self._project_skipped)
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
        external = self.external(clicked, readers.items, readers.halves, readers.skipped.mask)
        feedback = torch.cat([clicked, skipped, external], dim=-1)  # (B C 3D)
        vectors = split_heads(at_least_float32(torch.cat([target.item, feedback], dim=-1)), 4 * FIELDS)  # (B C 16 size)
        # over i < j: sum of v_i * v_j = ((sum of v_i)^2 - sum of v_i^2) / 2
        pairs = (vectors.sum(-2).square() - vectors.square().sum(-2)) / 2  # (B C size)
        deep = torch.relu(target.half + aligned_linear(feedback, self.deep_feedback.weight))
        deep = torch.relu(aligned_linear(deep, self.deepest.weight, self.deepest.bias))
        return target.wide + dot(torch.cat([pairs, at_least_float32(deep)], dim=-1), self.out.weight[0])

    def _project_clicked(self, click: Float[Tensor, "... D"]) -> Float[Tensor, "... QKV"]:
        """Query, key and value of x in the transformer over clicked stories."""
        return joint_linear(click, self.clicked.attention.weights())

    def _project_skipped(self, skip: Float[Tensor, "... D"]) -> Float[Tensor, "... all"]:
        """Query, key and value of x in the transformer over skipped stories, its half for the attention, and x."""
        projected = joint_linear(skip, [*self.skipped.attention.weights(), self.external.weight()])
        return torch.cat([projected, skip], dim=-1)

"""NRMS: self-attention over the words of a title, and over the titles that a user clicked.

Wu, Wu, Ge, Qi, Huang and Xie, "Neural News Recommendation with Multi-Head Self-Attention", EMNLP-IJCNLP 2019. Section
numbers and symbols are the paper's; `docs/paper-map.md` lists them with their tests.

Computed once per story: its vector, and the projections of it that the self-attention over clicked stories needs.
V (sum of alpha_i x_i) is computed as the sum of alpha_i (V x_i).

Departs from the paper: the matrix Q_k of each self-attention, e_i^T Q_k e_j, is a product of two matrices of
`head_size` columns divided by sqrt(`head_size`), W^Q_k (W^K_k)^T / sqrt(d). A logit is then a product of two
projections, which are computed once per story.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import Aggregated, GatedAggregate, MultiHeadAttention, where_present
from drpn.layers.gather import gather_rows
from drpn.layers.linear import dot_scores
from drpn.layers.news import Dropout, WordVectors, encode_by_length
from drpn.layers.tables import TableRows, rows_at
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share


@dataclass(frozen=True, kw_only=True)
class NrmsSettings(ModelSettings):
    """NRMS; the defaults are the paper's, except for `attention_dropout` (official code)."""

    size: int = 300
    """Size of word vectors."""
    heads: int = 16
    """h: heads of each self-attention."""
    head_size: int = 16
    """Size of the output of one head; story and user vectors are `heads` times as long."""
    hidden: int = 200
    """Size of the queries q_w and q_n of the additive attentions."""
    dropout: float = 0.2
    """Dropout on word vectors."""
    attention_dropout: bool = True
    """Apply `dropout` also after the self-attention over words, as the official code does; the paper does not."""
    former: ClassVar[dict[str, Any]] = ModelSettings.former | {"attention_dropout": False}

    def __post_init__(self) -> None:
        check_positive(self, "size", "heads", "head_size", "hidden")
        check_share(self, "dropout")


class SequenceEncoder(nn.Module):
    """Self-attention, then additive attention: words to a story (section 2.1), clicked stories to a user (2.2)."""

    def __init__(self, size: int, settings: NrmsSettings, *, dropout: bool = False) -> None:
        super().__init__()
        width = settings.heads * settings.head_size
        # W^Q_k and W^K_k, whose product is Q_k; V_k
        self.attention = MultiHeadAttention(size, settings.heads, head_size=settings.head_size, join=False)
        # V_w, v_w and q_w for words; V_n, v_n and q_n for stories
        self.aggregate = GatedAggregate(width, settings.hidden)
        self.dropout = Dropout(settings.dropout) if dropout else nn.Identity()
        self.nothing = nn.Parameter(torch.zeros(width))

    def project(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "... QKV"]:
        """Query, key and value of each item; they do not depend on the rest of its sequence."""
        return self.attention.project(items)

    def forward(self, items: Float[Tensor, "B S QKV"] | TableRows, mask: Bool[Tensor, "B S"]) -> Aggregated:
        """The vector of each sequence, a learned one if it is empty, and the weight of each item."""
        # h_{i,k} = V_k (sum over j of alpha^k_{i,j} e_j) with alpha^k_{i,j} = softmax over j of e_i^T Q_k e_j
        # h_i = [h_{i,1}; ...; h_{i,h}]
        context = self.dropout(self.attention(items, mask))  # (B S D)
        # sum of alpha_i h_i with alpha_i = softmax over i of q^T tanh(V h_i + v)
        result = self.aggregate(context, mask)
        return Aggregated(where_present(result.vector, mask.any(-1), self.nothing), result.weight)


class NrmsRows(NamedTuple):
    """The stored values of each story."""

    vector: Float[Tensor, "U D"]
    clicked: Float[Tensor, "U QKV"]
    """Projections for the self-attention over clicked stories."""


class Nrms(ClickModel[NrmsRows, Float[Tensor, "B D"]]):
    """Reads the titles of clicked stories, in any order; does not read skipped stories."""

    def __init__(self, settings: NrmsSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: NrmsSettings = settings
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        self.dropout = Dropout(settings.dropout)
        self.title = SequenceEncoder(settings.size, settings, dropout=settings.attention_dropout)
        self.user = SequenceEncoder(settings.heads * settings.head_size, settings)

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    def encode_news(self, news: NewsRows) -> NrmsRows:
        """Section 2.1: r, and its projections for section 2.2."""
        vector = encode_by_length(self._encode_title, news.words)  # (U D)
        return NrmsRows(vector, self.user.project(vector))

    def _encode_title(self, words: Int[Tensor, "U W"]) -> Float[Tensor, "U D"]:
        if self.training:
            projected = self.title.project(self.dropout(self.words(words)))  # (U W QKV)
        else:
            projected = self.words.projected(words, self.title.attention.weights())
        title: Aggregated = self.title(projected, words != 0)
        return title.vector

    def read(self, encoded: NrmsRows, profiles: Profiles) -> Float[Tensor, "B D"]:
        """Section 2.2: u."""
        clicked = rows_at(encoded.clicked, profiles.clicked)
        user: Aggregated = self.user(clicked, profiles.clicked_mask)
        return user.vector

    def match(
        self, encoded: NrmsRows, readers: Float[Tensor, "B D"], candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Section 2.3: u^T r."""
        return dot_scores(gather_rows(encoded.vector, candidates), readers)

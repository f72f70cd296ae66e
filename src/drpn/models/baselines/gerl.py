"""GERL: clicked stories, and neighbours at two hops in the graph of users and stories.

Ge, Wu, Wu, Qi and Huang, "Graph Enhanced Representation Learning for News Recommendation", WWW 2020. Parts and symbols
are named as in the paper: O is one hop, T two hops, t a text, e an id. `docs/paper-map.md` lists them with their tests.

Computed once per story: its vector, the attention over its neighbours' ids, and its logits in the two attentions that
read it. The vectors of its neighbours are rows of other stories, so they are read when the story is scored.

Departs from the paper: the matrix of each self-attention, e_i^T W_k e_j, is a product of two matrices of `head_size`
columns divided by sqrt(`head_size`). A logit is then a product of two projections, each computed once per word.
Departs from the paper: the vectors of user and story ids are as long as a story vector [v_t; v_p], so that the three
parts of a user and the three parts of a story have the same sizes.
Departs from the paper: users without a training sample share one vector. It is trained by giving it, at every step, to
a share of the other users.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import GatedAggregate, MultiHeadAttention, aggregate, where_present
from drpn.layers.gather import gather_rows
from drpn.layers.linear import cast_like, dot_scores
from drpn.layers.news import (
    ID_SPREAD,
    WORD_SPREAD,
    Dropout,
    UserVectors,
    WordVectors,
    embedding_table,
    encode_by_length,
)
from drpn.layers.tables import gather_at
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share


@dataclass(frozen=True, kw_only=True)
class GerlSettings(ModelSettings):
    """GERL; the defaults are the paper's, except for `id_dropout`, which is ours."""

    size: int = 300
    """Size of word vectors."""
    heads: int = 8
    """Heads of the self-attention over words."""
    head_size: int = 16
    """Size of the output of one head; a title vector is `heads` times as long."""
    topic_size: int = 128
    """Size of topic vectors; story, user and id vectors are as long as title and topic together."""
    hidden: int = 128
    """Size of the queries of the additive attentions."""
    dropout: float = 0.2
    """Dropout on word vectors and after the self-attention."""
    id_dropout: float = 0.1
    """Share of users that get the "unknown" vector at each training step."""
    max_neighbours: int | None = 15
    """Neighbours of a story, and of a user, that the model reads, the heaviest ones. None: all of the dataset."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "heads", "head_size", "topic_size", "hidden")
        check_share(self, "dropout", "id_dropout")


class NewsEncoder(nn.Module):
    """Transformer for context understanding: title and topic as one vector."""

    def __init__(self, settings: GerlSettings, shape: DataShape) -> None:
        super().__init__()
        width = settings.heads * settings.head_size
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        self.dropout = Dropout(settings.dropout)
        self.attention = MultiHeadAttention(settings.size, settings.heads, head_size=settings.head_size, join=False)
        self.aggregate = GatedAggregate(width, settings.hidden)
        self.untitled = nn.Parameter(torch.zeros(width))
        self.topics = embedding_table(shape.categories, settings.topic_size, WORD_SPREAD)

    def forward(self, words: Int[Tensor, "U W"], topics: Int[Tensor, "U"]) -> Float[Tensor, "U D"]:
        """v = [v_t; v_p]; v_t is a learned vector for a title without words, v_p is zero without a topic."""
        title = encode_by_length(self._encode_title, words)
        # v_p
        topic = gather_rows(self.topics.weight, topics)
        return torch.cat([title, cast_like(topic, title)], dim=-1)

    def _encode_title(self, words: Int[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        mask = words != 0  # (U W)
        if self.training:
            projected = self.attention.project(self.dropout(self.words(words)))  # (U W QKV)
        else:
            projected = self.words.projected(words, self.attention.weights())
        # h_{i,k} = V_k (sum over j of alpha^k_{i,j} e_j) with alpha^k_{i,j} = softmax over j of e_i^T W_k e_j
        context = self.dropout(self.attention(projected, mask))  # (U W D)
        # v_t = sum of beta_i h_i with beta_i = softmax over i of q_w^T tanh(U_w h_i + u_w)
        return where_present(self.aggregate(context, mask).vector, mask.any(-1), self.untitled)


class Attention(nn.Module):
    """sum of beta_i x_i with beta_i = softmax over i of q^T tanh(W x_i + w); a learned vector without items."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.gate = GatedAggregate(size, hidden)
        self.nothing = nn.Parameter(torch.zeros(size))

    def logits(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """q^T tanh(W x_i + w); it does not depend on the other items."""
        return self.gate.logits(items)

    def forward(
        self, items: Float[Tensor, "B S D"], logits: Float[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B D"]:
        """The vector of each sequence of items."""
        return where_present(aggregate(logits, items, mask).vector, mask.any(-1), self.nothing)


class GerlRows(NamedTuple):
    """The stored values of each story."""

    vector: Float[Tensor, "U D"]
    """n_t^O of a candidate, v_i of a clicked story or of a neighbour."""
    clicked_logit: Float[Tensor, "U"]
    """The logit among the stories that a user clicked."""
    neighbour_logit: Float[Tensor, "U"]
    """The logit among the neighbours of another story."""
    neighbour_ids: Float[Tensor, "U D"]
    """n_e^T."""
    neighbours: Int[Tensor, "U K"]
    """Positions of the neighbours among the encoded stories."""


class Gerl(ClickModel[GerlRows, Float[Tensor, "B parts"]]):
    """Reads clicked stories, and the neighbours of users and candidates; does not read skipped stories."""

    def __init__(self, settings: GerlSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: GerlSettings = settings
        size = settings.heads * settings.head_size + settings.topic_size
        self.news = NewsEncoder(settings, shape)
        self.users = UserVectors(shape.users, size, settings.id_dropout)
        self.news_ids = embedding_table(shape.news, size, ID_SPREAD)
        self.clicked = Attention(size, settings.hidden)
        self.neighbour_users = Attention(size, settings.hidden)
        self.neighbour_ids = Attention(size, settings.hidden)
        self.neighbour_news = Attention(size, settings.hidden)

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    @property
    def needs(self) -> tuple[str, ...]:
        """Both kinds of neighbours."""
        return ("user_neighbours", "news_neighbours")

    def encode_news(self, news: NewsRows) -> GerlRows:
        """n_t^O and n_e^T."""
        vector = self.news(news.words, news.category)
        # n_e^T: attention over the ids of neighbours, the stories that the same users clicked
        ids = gather_rows(self.news_ids.weight, news.neighbours)  # (U K D)
        neighbour_ids = self.neighbour_ids(ids, self.neighbour_ids.logits(ids), news.neighbours != 0)
        return GerlRows(
            vector,
            self.clicked.logits(vector),
            self.neighbour_news.logits(vector),
            cast_like(neighbour_ids, vector),
            news.neighbour_positions,
        )

    def read(self, encoded: GerlRows, profiles: Profiles) -> Float[Tensor, "B parts"]:
        """u = [u_t^O; u_e^O; u_e^T]."""
        # u_t^O: attention over the clicked stories
        vectors, logits = gather_at((encoded.vector, encoded.clicked_logit), profiles.clicked)
        semantic = self.clicked(vectors, logits, profiles.clicked_mask)
        # u_e^O
        own = self.users(profiles.users)
        # u_e^T: attention over the ids of neighbours, the users who clicked the same stories
        ids = self.users.of_neighbours(profiles.neighbours)  # (B M D)
        others = self.neighbour_users(ids, self.neighbour_users.logits(ids), profiles.neighbours != 0)
        return torch.cat([semantic, own, others], dim=-1)

    def match(
        self, encoded: GerlRows, readers: Float[Tensor, "B parts"], candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """u^T n with n = [n_t^O; n_t^T; n_e^T]."""
        semantic, ids = gather_at((encoded.vector, encoded.neighbour_ids), candidates)
        # n_t^T: attention over the vectors of neighbours
        positions = encoded.neighbours[candidates].flatten(0, 1)  # (BC K)
        vectors, logits = gather_at((encoded.vector, encoded.neighbour_logit), positions)
        neighbours = self.neighbour_news(vectors, logits, positions != 0).unflatten(0, candidates.shape)  # (B C D)
        return dot_scores(torch.cat([semantic, neighbours, ids], dim=-1), readers)

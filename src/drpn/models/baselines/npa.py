"""NPA: the user decides which words of a title matter, and which of the clicked stories.

Wu, Wu, An, Huang, Huang and Xie, "NPA: Neural News Recommendation with Personalized Attention", KDD 2019. Symbols
are the paper's; `docs/paper-map.md` lists its parts with their tests.

A story vector depends on the user, but its words do not. Computed once per story: the convolution c_i of each word.
Computed once per user: tanh(W_p q_w + w_p), whose product with c_i is the logit of the word. One inner product and one
weighted sum over words are left for each clicked story and each candidate.

The official code (microsoft/recommenders) computes logits in another way (`logits="code"`): there the tanh is over the
word instead of the user, and is computed once per story.

Departs from the paper: users that training never saw share a learned "unknown" vector. It is trained by giving it, at
every step, to a share of the other users.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import Aggregated, aggregate, where_present
from drpn.layers.convolution import WordConvolution
from drpn.layers.linear import aligned_linear, dot_per_user, dot_scores, split_heads
from drpn.layers.news import Dropout, UserVectors, WordVectors
from drpn.layers.tables import gather_at
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share


@dataclass(frozen=True, kw_only=True)
class NpaSettings(ModelSettings):
    """NPA; the defaults are the paper's, except for `id_dropout`, which is ours."""

    size: int = 300
    """Size of word vectors."""
    user_size: int = 50
    """Size of user id vectors."""
    filters: int = 400
    """Filters of the convolution over words; the size of story and user vectors."""
    window: int = 3
    """Words that a filter reads at once."""
    hidden: int = 200
    """Size of a user's queries for words and for stories."""
    logits: Literal["paper", "code"] = "paper"
    """Logits of both attentions: those of the paper (`PaperAttention`) or of the official code (`CodeAttention`)."""
    dropout: float = 0.2
    """Dropout on word vectors and on the output of the convolution."""
    pooled_dropout: bool = False
    """Apply `dropout` also to what each attention sums, as the official code does."""
    id_dropout: float = 0.1
    """Share of users that get the "unknown" vector at each training step."""
    zero_users: bool = False
    """User vectors start at zero, as in the official code."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "user_size", "filters", "window", "hidden")
        check_share(self, "dropout", "id_dropout")
        if self.logits not in ATTENTIONS:
            raise ValueError(f"logits is {self.logits!r}; it takes 'paper' or 'code'")


class PersonalAttention(nn.Module, ABC):
    """The sum of items, weighted by the softmax of the products of the user's query and each item's key."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(size))

    @abstractmethod
    def queries(self, users: Float[Tensor, "B E"]) -> Float[Tensor, "B h"]:
        """The query of each user."""

    @abstractmethod
    def keys(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "... h"]:
        """The key of each item; it does not depend on the user."""

    def forward(
        self,
        query: Float[Tensor, "B h"],
        keys: Float[Tensor, "B P S h"],
        items: Float[Tensor, "B P S D"],
        mask: Bool[Tensor, "B P S"],
    ) -> Aggregated:
        """The vector of each sequence of each user, a learned one if it is empty, and the weight of each item."""
        logits = dot_per_user(keys.flatten(1, 2), query).view(mask.shape)
        result = aggregate(*(tensor.flatten(0, 1) for tensor in (logits, items, mask)))
        vector = result.vector.view(*mask.shape[:2], items.shape[-1])
        return Aggregated(where_present(vector, mask.any(-1), self.nothing), result.weight.view(mask.shape))


class PaperAttention(PersonalAttention):
    """Logits i^T tanh(W q + w) of items i, with the preference q = ReLU(V e_u + v) of the user e_u."""

    def __init__(self, user_size: int, size: int, hidden: int) -> None:
        super().__init__(size)
        self.preference = nn.Linear(user_size, hidden)  # V and v
        self.query = nn.Linear(hidden, size)  # W and w

    def queries(self, users: Float[Tensor, "B E"]) -> Float[Tensor, "B D"]:
        """tanh(W q + w) of each user."""
        # q = ReLU(V e_u + v)
        preference = torch.relu(self.preference(users))
        return torch.tanh(self.query(preference))

    def keys(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """The items themselves."""
        return items


class CodeAttention(PersonalAttention):
    """Logits q^T tanh(W i + w) of items i, with q = V e_u + v for the user e_u, as in the official code."""

    def __init__(self, user_size: int, size: int, hidden: int) -> None:
        super().__init__(size)
        self.query = nn.Linear(user_size, hidden)  # V and v
        self.key = nn.Linear(size, hidden)  # W and w

    def queries(self, users: Float[Tensor, "B E"]) -> Float[Tensor, "B h"]:
        """V e_u + v of each user."""
        query: Tensor = self.query(users)
        return query

    def keys(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "... h"]:
        """tanh(W i + w) of each item."""
        return torch.tanh(aligned_linear(items, self.key.weight, self.key.bias))


ATTENTIONS = {"paper": PaperAttention, "code": CodeAttention}


class NpaRows(NamedTuple):
    """The stored values of each story; those of its words are concatenated."""

    words: Float[Tensor, "U WF"]
    keys: Float[Tensor, "U Wh"]
    """The same tensor as `words` if the keys of words are the words themselves."""
    mask: Bool[Tensor, "U W"]


class NpaReaders(NamedTuple):
    """The stored values of each user: the query for words, and the user vector."""

    query: Float[Tensor, "B h"]
    vector: Float[Tensor, "B F"]


class Npa(ClickModel[NpaRows, NpaReaders]):
    """Reads the user's id and the titles of clicked stories, in any order; does not read skipped stories."""

    def __init__(self, settings: NpaSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: NpaSettings = settings
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        self.convolution = WordConvolution(settings.size, settings.filters, settings.window)
        self.dropout = Dropout(settings.dropout)
        self.users = UserVectors(shape.users, settings.user_size, settings.id_dropout, zero=settings.zero_users)
        attention = ATTENTIONS[settings.logits]
        self.title = attention(settings.user_size, settings.filters, settings.hidden)
        self.clicks = attention(settings.user_size, settings.filters, settings.hidden)

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    def encode_news(self, news: NewsRows) -> NpaRows:
        """The part of the news encoder that does not depend on the user."""
        mask = news.words != 0  # (U W)
        # c_i = ReLU(F_w w_[i-K:i+K] + b_w)
        words = self.drop_pooled(self.dropout(self.convolution(self.dropout(self.words(news.words)), mask)))  # (U W F)
        keys = self.title.keys(words)
        flat = words.flatten(1)
        return NpaRows(flat, flat if keys is words else keys.flatten(1), mask)

    def drop_pooled(self, items: Float[Tensor, "... F"]) -> Float[Tensor, "... F"]:
        """Dropout on what an attention sums, if the settings ask for it."""
        return self.dropout(items) if self.settings.pooled_dropout else items

    def read_titles(self, encoded: NpaRows, query: Float[Tensor, "B h"], positions: Int[Tensor, "B P"]) -> Aggregated:
        """r of the stories at some positions, as their user reads them, and the weight of each word."""
        mask = encoded.mask[positions]  # (B P W)
        rows = gather_at((encoded.words, encoded.keys), positions)
        words, keys = (split_heads(values, mask.shape[-1]) for values in rows)  # (B P W F) (B P W h)
        # r = sum of alpha_i c_i with alpha_i = softmax over i of the logit of c_i for this user
        titles: Aggregated = self.title(query, keys, words, mask)
        return titles

    def read(self, encoded: NpaRows, profiles: Profiles) -> NpaReaders:
        """User encoder: q_w and u."""
        users = self.users(profiles.users)  # (B E)
        query = self.title.queries(users)
        clicked = self.drop_pooled(self.read_titles(encoded, query, profiles.clicked).vector.unsqueeze(1))  # (B 1 H F)
        # u = sum of alpha_i r_i with alpha_i = softmax over i of the logit of r_i for this user
        user: Aggregated = self.clicks(
            self.clicks.queries(users), self.clicks.keys(clicked), clicked, profiles.clicked_mask.unsqueeze(1)
        )
        return NpaReaders(query, user.vector.squeeze(1))

    def match(
        self, encoded: NpaRows, readers: NpaReaders, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Click predictor: u^T r."""
        return dot_scores(self.read_titles(encoded, readers.query, candidates).vector, readers.vector)

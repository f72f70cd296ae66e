"""NPA: the user decides which words of a title matter, and which of the news they clicked.

Wu, Wu, An, Huang, Huang and Xie, "NPA: Neural News Recommendation with Personalized Attention", KDD 2019. Symbols
are the paper's; `docs/paper-map.md` lists its parts with their tests.

A news vector depends on its reader, its words do not: the convolution c_i of each word, and tanh(W_p c_i + w_p), whose
product with the reader's query is the logit of the word, are computed once for each news. A reader then takes one
inner product and one weighted sum over the words of each news they clicked or are offered.

Departs from the paper: users that training never saw share a learned "unknown" vector, trained by giving it, at every
step, to a share of the others.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import Aggregated, aggregate, where_present
from drpn.layers.convolution import WordConvolution
from drpn.layers.gather import gather
from drpn.layers.linear import aligned_linear, dot_per_user, inner_products
from drpn.layers.news import Dropout, UserVectors, WordVectors
from drpn.models.base import ClickModel, DataShape
from drpn.models.checks import check_positive, check_share


@dataclass(frozen=True, kw_only=True)
class NpaSettings:
    """NPA; the defaults are the paper's, but for `id_dropout` (ours)."""

    size: int = 300
    """Size of word vectors."""
    user_size: int = 50
    """Size of the vectors of users."""
    filters: int = 400
    """Filters of the convolution over words: the size of news and user vectors."""
    window: int = 3
    """Words that a filter reads at once."""
    hidden: int = 200
    """Size of the queries that a user has for words and for news."""
    dropout: float = 0.2
    """On word vectors, and on what the convolution gives."""
    id_dropout: float = 0.1
    """Share of users given the "unknown" vector at each step of training."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "user_size", "filters", "window", "hidden")
        check_share(self, "dropout", "id_dropout")


class PersonalAttention(nn.Module):
    """The sum of items by the softmax of q^T tanh(W i + w), with q = ReLU(V e_u + v), where e_u is the user."""

    def __init__(self, user_size: int, size: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(user_size, hidden)  # V and v
        self.key = nn.Linear(size, hidden)  # W and w
        self.nothing = nn.Parameter(torch.zeros(size))

    def ask(self, users: Float[Tensor, "B E"]) -> Float[Tensor, "B h"]:
        """q: what each user looks for."""
        return torch.relu(self.query(users))

    def keys(self, items: Float[Tensor, "... D"]) -> Float[Tensor, "... h"]:
        """tanh(W i + w): what each item answers, whoever asks."""
        return torch.tanh(aligned_linear(items, self.key.weight, self.key.bias))

    def forward(
        self,
        query: Float[Tensor, "B h"],
        keys: Float[Tensor, "B P S h"],
        items: Float[Tensor, "B P S D"],
        mask: Bool[Tensor, "B P S"],
    ) -> Aggregated:
        """The vector of each sequence of each user, a learned one where it is empty; and how much each item counted."""
        logits = dot_per_user(keys.flatten(1, 2), query).view(mask.shape)
        found = aggregate(*(each.flatten(0, 1) for each in (logits, items, mask)))
        vector = found.vector.view(*mask.shape[:2], items.shape[-1])
        return Aggregated(where_present(vector, mask.any(-1), self.nothing), found.weight.view(mask.shape))


class NpaRows(NamedTuple):
    """What is known of some news before any user comes in."""

    words: Float[Tensor, "U W F"]
    keys: Float[Tensor, "U W h"]
    mask: Bool[Tensor, "U W"]


class NpaReaders(NamedTuple):
    """Some users: what they look for in a title, and what they like."""

    query: Float[Tensor, "B h"]
    vector: Float[Tensor, "B F"]


class Npa(ClickModel):
    """Reads the titles of what was clicked as their reader would; ignores what was skipped, and in which order."""

    def __init__(self, settings: NpaSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings = settings
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        self.convolution = WordConvolution(settings.size, settings.filters, settings.window)
        self.dropout = Dropout(settings.dropout)
        self.users = UserVectors(shape.users, settings.user_size, settings.id_dropout)
        self.title = PersonalAttention(settings.user_size, settings.filters, settings.hidden)
        self.clicks = PersonalAttention(settings.user_size, settings.filters, settings.hidden)

    def encode_news(self, news: NewsRows) -> NpaRows:
        """News encoder: the words of each title, up to what their readers make of them."""
        mask = news.words != 0  # (U W)
        # c_i = ReLU(F_w w_[i-K:i+K] + b_w)
        words = self.dropout(self.convolution(self.dropout(self.words(news.words)), mask))  # (U W F)
        return NpaRows(words, self.title.keys(words), mask)

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked news alone."""
        return ("clicked",)

    def news_of(self, encoded: NpaRows, query: Float[Tensor, "B h"], positions: Int[Tensor, "B P"]) -> Aggregated:
        """r: some news as their users read them, and how much each word counted for them."""
        words, keys = gather([encoded.words.flatten(1), encoded.keys.flatten(1)], positions)
        words = words.view(*positions.shape, *encoded.words.shape[1:])  # (B P W F)
        keys = keys.view(*positions.shape, *encoded.keys.shape[1:])  # (B P W h)
        # r = sum of alpha_i c_i with alpha_i = softmax over i of q_w^T tanh(W_p c_i + w_p)
        found: Aggregated = self.title(query, keys, words, encoded.mask[positions])
        return found

    def read(self, encoded: NpaRows, profiles: Profiles) -> NpaReaders:
        """User encoder: u; and q_w."""
        users = self.users(profiles.users)  # (B E)
        query = self.title.ask(users)
        clicked = self.news_of(encoded, query, profiles.clicked).vector  # (B H F)
        # u = sum of alpha_i r_i with alpha_i = softmax over i of q_d^T tanh(W_d r_i + w_d)
        found: Aggregated = self.clicks(
            self.clicks.ask(users),
            self.clicks.keys(clicked).unsqueeze(1),
            clicked.unsqueeze(1),
            profiles.clicked_mask.unsqueeze(1),
        )
        return NpaReaders(query, found.vector.squeeze(1))

    def match(
        self, encoded: NpaRows, readers: NpaReaders, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Click predictor: u^T r."""
        offered = self.news_of(encoded, readers.query, candidates).vector  # (B C F)
        return inner_products(offered, readers.vector.unsqueeze(1)).squeeze(-1)

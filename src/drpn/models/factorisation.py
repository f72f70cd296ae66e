"""News and users as features, and the factorisation machine that reads them.

A candidate has features of four fields: its id, category, subcategory, and the words of its title. A user has four too:
their row, and the categories, subcategories and words of what they clicked. A word of the candidate and the same word
of what was clicked are two features. Each feature i has a value x_i and a vector v_i, a candidate's also a weight w_i.

The values of a field add up to 1: that of a word is how often it stands in the title, divided by the number of words
there, and each clicked news counts as much as another. So the vector of a field, the sum of its x_i v_i, is a mean, and
for clicked news the mean of what each of them has once. A field without any feature is zero.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from drpn.batches.batch import NewsRows, Profiles
from drpn.layers.attention import where_present
from drpn.layers.gather import gather_rows
from drpn.layers.linear import inner_products, split_heads
from drpn.layers.news import IdVectors, UserVectors
from drpn.layers.tables import gather_at, weighted_sum
from drpn.models.base import DataShape

FIELDS = 4
"""Of a candidate: id, category, subcategory, words. Of a user: row, and the last three of what was clicked."""
SPREAD = 0.1
"""Standard deviation of the vectors of categories, subcategories and words at the start; libFM's."""


class Factors(NamedTuple):
    """What the factorisation machine keeps of some news."""

    own: Float[Tensor, "U"]
    """The weights of their features, and the pairs among them."""
    vector: Float[Tensor, "U D"]
    """The sum of x_i v_i over their features."""


class NewsFeatures(NamedTuple):
    """Some news as features."""

    factors: Factors
    fields: Float[Tensor, "U F D"]
    """The vector of each field of a candidate."""
    clicked: Float[Tensor, "U clicked"]
    """The vectors of the three fields that they give to a user who clicked them, side by side."""


class Features(nn.Module):
    """Weights and vectors of all features."""

    def __init__(self, size: int, id_dropout: float, shape: DataShape) -> None:
        super().__init__()
        self.size = size
        self.users = UserVectors(shape.users, size, id_dropout)
        # the weight in front of the vector
        self.ids = IdVectors(shape.news, 1 + size, id_dropout)
        # the weight, the vector as a feature of the candidate, the vector as one of the user who clicked it
        self.category = nn.Embedding(shape.categories, 1 + 2 * size, padding_idx=0)
        self.subcategory = nn.Embedding(shape.subcategories, 1 + 2 * size, padding_idx=0)
        self.words = nn.Embedding(shape.words, 1 + 2 * size, padding_idx=0)
        # features of a user who clicked nothing
        self.nothing = nn.Parameter(torch.zeros((FIELDS - 1) * size))
        with torch.no_grad():
            for table in (self.category, self.subcategory, self.words):
                table.weight.normal_(std=SPREAD)
                table.weight[0] = 0
            for table in (self.ids.table, self.category, self.subcategory, self.words):
                table.weight[:, 0] = 0

    def news_features(self, news: NewsRows) -> NewsFeatures:
        """What the features of each news come to, whoever reads it."""
        candidate, clicked = slice(1, 1 + self.size), slice(1 + self.size, None)
        words = gather_rows(self.words.weight, news.words)  # (U W 1+2D)
        share = _shares(news.words, words.dtype)  # (U W)
        found = [
            self.ids(news.rows, news.seen),  # (U 1+D)
            gather_rows(self.category.weight, news.category),  # (U 1+2D)
            gather_rows(self.subcategory.weight, news.subcategory),
            weighted_sum(share, words),
        ]
        # sum of w_i x_i
        weight = torch.stack([field[:, 0] for field in found]).sum(0)  # (U)
        fields = torch.stack([field[:, candidate] for field in found], dim=1)  # (U F D)
        vector = fields.sum(1)  # (U D)
        # sum of x_i^2 |v_i|^2; a word that stands twice in a title is one feature of twice the value
        often = (news.words.unsqueeze(-1) == news.words.unsqueeze(-2)).sum(-1)  # (U W)
        of_words = (often * share.square() * words[..., candidate].square().sum(-1)).sum(-1)
        squares = fields[:, :-1].square().sum((1, 2)) + of_words  # (U)
        # over all i < j: sum of <v_i, v_j> x_i x_j = (|sum of x_i v_i|^2 - sum of x_i^2 |v_i|^2) / 2
        pairs = (vector.square().sum(-1) - squares) / 2
        read = torch.cat([field[:, clicked] for field in found[1:]], dim=1)
        return NewsFeatures(Factors(weight + pairs, vector), fields, read)

    def user_features(self, clicked: Float[Tensor, "U clicked"], profiles: Profiles) -> Float[Tensor, "B F D"]:
        """The vector of each field; learned ones for what was clicked where nothing was."""
        read = weighted_sum(
            _shares(profiles.clicked, clicked.dtype), gather_rows(clicked, profiles.clicked)
        )  # (B clicked)
        read = where_present(read, profiles.clicked_mask.any(-1), self.nothing)
        return split_heads(torch.cat([self.users(profiles.users), read], dim=1), FIELDS)


def fm_scores(news: Factors, users: Float[Tensor, "B D"], candidates: Int[Tensor, "B C"]) -> Float[Tensor, "B C"]:
    """What the candidate's features come to, and their pairs with the user's; `users` are sums of x_i v_i."""
    found: Factors = gather_at(news, candidates)
    # over i of the user and j of the news: sum of <v_i, v_j> x_i x_j = <sum of x_i v_i, sum of x_j v_j>
    return found.own + inner_products(found.vector, users.unsqueeze(1)).squeeze(-1)


def _shares(items: Int[Tensor, "B S"], dtype: torch.dtype) -> Float[Tensor, "B S"]:
    """1 / how many there are, for each that is there; 0 for padding."""
    there = (items != 0).to(dtype)
    return there / there.sum(-1, keepdim=True).clamp(min=1)

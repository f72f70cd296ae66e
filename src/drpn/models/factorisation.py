"""Features of stories and users, and the factorisation machine over them.

A candidate has features in four fields: its id, category, subcategory, and the words of its title. A user has four
fields, too: the user's row, and the categories, subcategories and words of the clicked stories. A word of the candidate
and the same word of a clicked story are two features. Each feature i has a value x_i and a vector v_i; a feature of the
candidate also has a weight w_i.

The values of a field sum to 1: a word's value is its number of occurrences in the title divided by the length of the
title, and every clicked story counts the same. The vector of a field, the sum of its x_i v_i, is therefore a mean, and
for clicked stories it is the mean of vectors that are computed once per story. An empty field is zero.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from drpn.batches.batch import NewsRows, Profiles
from drpn.layers.attention import where_present
from drpn.layers.gather import gather_rows
from drpn.layers.linear import dot_scores, split_heads
from drpn.layers.news import IdVectors, UserVectors, draw_vectors
from drpn.layers.tables import equal_weights, gather_at, masked_mean, weighted_sum
from drpn.models.base import DataShape

FIELDS = 4
"""Of a candidate: id, category, subcategory, words. Of a user: row, and the last three of the clicked stories."""
SPREAD = 0.1
"""Standard deviation of the first vectors of categories, subcategories and words; libFM's."""


class Factors(NamedTuple):
    """The stored values of each story for the factorisation machine."""

    own_score: Float[Tensor, "U"]
    """The weights of the story's features, and the pairs among them; the same for every user."""
    vector: Float[Tensor, "U D"]
    """The sum of x_i v_i over the story's features."""


class NewsFeatures(NamedTuple):
    """The features of stories."""

    factors: Factors
    fields: Float[Tensor, "U F D"]
    """The vector of each field of a candidate."""
    clicked: Float[Tensor, "U clicked"]
    """The vectors of the three fields that the story adds to a user who clicked it, concatenated."""


class Features(nn.Module):
    """Weights and vectors of all features."""

    def __init__(self, size: int, id_dropout: float, shape: DataShape) -> None:
        super().__init__()
        self.size = size
        self.users = UserVectors(shape.users, size, id_dropout)
        # columns: the weight, then the vector
        self.ids = IdVectors(shape.news, 1 + size, id_dropout)
        # columns: the weight, the vector as a feature of the candidate, the vector as a feature of the user
        self.category = nn.Embedding(shape.categories, 1 + 2 * size, padding_idx=0)
        self.subcategory = nn.Embedding(shape.subcategories, 1 + 2 * size, padding_idx=0)
        self.words = nn.Embedding(shape.words, 1 + 2 * size, padding_idx=0)
        # features of a user who clicked nothing
        self.nothing = nn.Parameter(torch.zeros((FIELDS - 1) * size))
        for table in (self.category, self.subcategory, self.words):
            draw_vectors(table, SPREAD)
        with torch.no_grad():
            for table in (self.ids.table, self.category, self.subcategory, self.words):
                table.weight[:, 0] = 0

    def news_features(self, news: NewsRows) -> NewsFeatures:
        """The features of each story, which do not depend on the user."""
        candidate, clicked = slice(1, 1 + self.size), slice(1 + self.size, None)
        words = gather_rows(self.words.weight, news.words)  # (U W 1+2D)
        share = equal_weights(news.words != 0, words)  # (U W)
        rows = [
            self.ids(news.rows),  # (U 1+D)
            gather_rows(self.category.weight, news.category),  # (U 1+2D)
            gather_rows(self.subcategory.weight, news.subcategory),
            weighted_sum(share, words),
        ]
        # sum of w_i x_i
        weight = torch.stack([field[:, 0] for field in rows]).sum(0)  # (U)
        fields = torch.stack([field[:, candidate] for field in rows], dim=1)  # (U F D)
        vector = fields.sum(1)  # (U D)
        # sum of x_i^2 |v_i|^2; a word that occurs twice in a title is one feature of twice the value
        occurrences = (news.words.unsqueeze(-1) == news.words.unsqueeze(-2)).sum(-1)  # (U W)
        word_squares = (occurrences * share.square() * words[..., candidate].square().sum(-1)).sum(-1)
        squares = fields[:, :-1].square().sum((1, 2)) + word_squares  # (U)
        # over all i < j: sum of <v_i, v_j> x_i x_j = (|sum of x_i v_i|^2 - sum of x_i^2 |v_i|^2) / 2
        pairs = (vector.square().sum(-1) - squares) / 2
        read = torch.cat([field[:, clicked] for field in rows[1:]], dim=1)
        return NewsFeatures(Factors(weight + pairs, vector), fields, read)

    def user_features(self, clicked: Float[Tensor, "U clicked"], profiles: Profiles) -> Float[Tensor, "B F D"]:
        """The vector of each field of each user; learned vectors for a user who clicked nothing."""
        read = masked_mean(gather_rows(clicked, profiles.clicked), profiles.clicked_mask)  # (B clicked)
        read = where_present(read, profiles.clicked_mask.any(-1), self.nothing)
        return split_heads(torch.cat([self.users(profiles.users), read], dim=1), FIELDS)


def fm_scores(news: Factors, users: Float[Tensor, "B D"], candidates: Int[Tensor, "B C"]) -> Float[Tensor, "B C"]:
    """The candidate's own score, and the pairs of its features with the user's; `users` are sums of x_i v_i."""
    rows: Factors = gather_at(news, candidates)
    # over i of the user and j of the story: sum of <v_i, v_j> x_i x_j = <sum of x_i v_i, sum of x_j v_j>
    return rows.own_score + dot_scores(rows.vector, users)

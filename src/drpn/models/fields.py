"""A news as the four features that the methods of the paper's comparison are given, each a vector of the same size."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from drpn.batches.batch import NewsRows
from drpn.layers.attention import where_present
from drpn.layers.gather import gather_rows
from drpn.layers.news import WORD_SPREAD, IdVectors, WordVectors
from drpn.layers.tables import weighted_sum
from drpn.models.base import DataShape

FIELDS = 4
"""Title, id, category, subcategory."""


class NewsFields(nn.Module):
    """The vector of each feature; a title's is the mean of its words', a learned one where there is no word.

    Where they are `weighted`, a number for each feature stands in front of its vector; it begins at 0.
    """

    def __init__(self, size: int, id_dropout: float, shape: DataShape, *, weighted: bool = False) -> None:
        super().__init__()
        columns = 1 + size if weighted else size
        self.words = WordVectors(shape.words, size, shape.vectors)
        self.word_weights = nn.Embedding(shape.words, 1, padding_idx=0) if weighted else None
        self.untitled = nn.Parameter(torch.zeros(columns))
        self.ids = IdVectors(shape.news, columns, id_dropout)
        self.category = nn.Embedding(shape.categories, columns, padding_idx=0)
        self.subcategory = nn.Embedding(shape.subcategories, columns, padding_idx=0)
        with torch.no_grad():
            for table in (self.category, self.subcategory):
                table.weight.normal_(std=WORD_SPREAD)
                table.weight[0] = 0
            if self.word_weights is not None:
                self.word_weights.weight.zero_()
                for table in (self.ids.table, self.category, self.subcategory):
                    table.weight[:, 0] = 0

    def forward(self, news: NewsRows) -> Float[Tensor, "U F columns"]:
        """Title, id, category and subcategory of each news."""
        words = self.words(news.words)  # (U W D)
        if self.word_weights is not None:
            words = torch.cat([gather_rows(self.word_weights.weight, news.words), words], dim=-1)
        there = (news.words != 0).to(words.dtype)  # (U W)
        count = there.sum(-1, keepdim=True)  # (U 1)
        title = weighted_sum(there / count.clamp(min=1), words)  # (U D)
        found = [
            where_present(title, count.squeeze(-1) > 0, self.untitled),
            self.ids(news.rows, news.seen),
            gather_rows(self.category.weight, news.category),
            gather_rows(self.subcategory.weight, news.subcategory),
        ]
        return torch.stack(found, dim=1)

"""A story as four features, each a vector of the same size, for the models that read features and not words."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from drpn.batches.batch import NewsRows
from drpn.layers.attention import where_present
from drpn.layers.gather import gather_rows
from drpn.layers.news import WORD_SPREAD, IdVectors, WordVectors, draw_vectors
from drpn.layers.tables import masked_mean
from drpn.models.base import DataShape

FIELDS = 4
"""Title, id, category, subcategory."""


class NewsFields(nn.Module):
    """The vector of each feature; a title's is the mean of its word vectors, or a learned one without words.

    With `weighted`, the first column is a weight for each feature, which starts at 0.
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
        for table in (self.category, self.subcategory):
            draw_vectors(table, WORD_SPREAD)
        if self.word_weights is not None:
            with torch.no_grad():
                self.word_weights.weight.zero_()
                for table in (self.ids.table, self.category, self.subcategory):
                    table.weight[:, 0] = 0

    def forward(self, news: NewsRows) -> Float[Tensor, "U F columns"]:
        """Title, id, category and subcategory of each story."""
        words, mask = self.words(news.words), news.words != 0  # (U W D), (U W)
        if self.word_weights is not None:
            words = torch.cat([gather_rows(self.word_weights.weight, news.words), words], dim=-1)
        fields = [
            where_present(masked_mean(words, mask), mask.any(-1), self.untitled),
            self.ids(news.rows),
            gather_rows(self.category.weight, news.category),
            gather_rows(self.subcategory.weight, news.subcategory),
        ]
        return torch.stack(fields, dim=1)

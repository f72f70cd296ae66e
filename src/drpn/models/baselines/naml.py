"""NAML: attention over several views of a story: its title, its category and its subcategory.

Wu, Wu, An, Huang, Huang and Xie, "Neural News Recommendation with Attentive Multi-View Learning", IJCAI 2019. Section
numbers and symbols are the paper's; `docs/paper-map.md` lists them with their tests.

Computed once per story: its vector, and its logit in the attention over clicked stories, which does not depend on the
user.

Departs from the paper: the view of the body is optional (`abstract`), and reads the abstract.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import Aggregated, GatedAggregate, aggregate, where_present
from drpn.layers.convolution import ConvolvedText
from drpn.layers.gather import gather_rows
from drpn.layers.linear import aligned_linear, dot_scores
from drpn.layers.news import WORD_SPREAD, WordVectors, embedding_table, encode_by_length
from drpn.layers.tables import gather_at
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share


@dataclass(frozen=True, kw_only=True)
class NamlSettings(ModelSettings):
    """NAML; the defaults are the paper's."""

    size: int = 300
    """Size of word vectors."""
    filters: int = 400
    """N_f: filters over words; also the size of every view, and of story and user vectors."""
    window: int = 3
    """2K + 1: words that a filter reads at once."""
    category_size: int = 100
    """Size of the vectors of categories and subcategories."""
    hidden: int = 200
    """Size of the queries of the additive attentions."""
    dropout: float = 0.2
    """Dropout on word vectors and on the output of the filters."""
    abstract: bool = False
    """Read abstracts as another view; the dataset must be prepared with them."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "filters", "window", "category_size", "hidden")
        check_share(self, "dropout")


class LabelView(nn.Module):
    """ReLU(V_c e_c + v_c): a category or a subcategory as one vector (section 3.1)."""

    def __init__(self, labels: int, settings: NamlSettings) -> None:
        super().__init__()
        self.table = embedding_table(labels, settings.category_size, WORD_SPREAD)
        self.dense = nn.Linear(settings.category_size, settings.filters)

    def forward(self, labels: Int[Tensor, "U"]) -> Float[Tensor, "U F"]:
        """The vector of each label; ReLU(v_c) for a story without one."""
        vectors = gather_rows(self.table.weight, labels)
        return torch.relu(aligned_linear(vectors, self.dense.weight, self.dense.bias))


class NamlRows(NamedTuple):
    """The stored values of each story."""

    vector: Float[Tensor, "U F"]
    logit: Float[Tensor, "U"]
    """The weight among clicked stories, before the softmax."""


class Naml(ClickModel[NamlRows, Float[Tensor, "B F"]]):
    """Reads titles and categories of clicked stories, in any order; does not read skipped stories."""

    def __init__(self, settings: NamlSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: NamlSettings = settings
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        text = (settings.size, settings.filters, settings.window, settings.hidden, settings.dropout)
        self.title = ConvolvedText(*text)
        self.abstract = ConvolvedText(*text) if settings.abstract else None
        self.category = LabelView(shape.categories, settings)
        self.subcategory = LabelView(shape.subcategories, settings)
        self.views = GatedAggregate(settings.filters, settings.hidden)
        self.user = GatedAggregate(settings.filters, settings.hidden)
        self.nothing = nn.Parameter(torch.zeros(settings.filters))

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    @property
    def needs(self) -> tuple[str, ...]:
        """Abstracts, if they are a view."""
        return ("abstracts",) if self.settings.abstract else ()

    def encode_news(self, news: NewsRows) -> NamlRows:
        """Section 3.1: r, and its logit for section 3.2."""
        vector = self.combine_views(self.encode_views(news)).vector
        return NamlRows(vector, self.user.logits(vector))

    def encode_views(self, news: NewsRows) -> Float[Tensor, "U V F"]:
        """The views of each story: title, category, subcategory, and the abstract if the model reads it."""
        views = [
            encode_by_length(self._encode_title, news.words),
            self.category(news.category),
            self.subcategory(news.subcategory),
        ]
        if self.abstract is not None:
            views.append(self.abstract(self.words(news.abstract), news.abstract != 0))
        return torch.stack(views, dim=1)

    def _encode_title(self, words: Int[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        title: Tensor = self.title(self.words(words), words != 0)
        return title

    def combine_views(self, views: Float[Tensor, "U V F"]) -> Aggregated:
        """The views as one vector, and the weight of each."""
        # r = sum of alpha_v r^v with alpha_v = softmax over views of q_v^T tanh(U_v r^v + u_v)
        combined: Aggregated = self.views(views, torch.ones_like(views[..., 0], dtype=torch.bool))
        return combined

    def read(self, encoded: NamlRows, profiles: Profiles) -> Float[Tensor, "B F"]:
        """Section 3.2: u."""
        clicked = gather_at(encoded, profiles.clicked)
        # u = sum of alpha_i r_i with alpha_i = softmax over i of q_n^T tanh(W_n r_i + b_n)
        user = aggregate(clicked.logit, clicked.vector, profiles.clicked_mask).vector
        return where_present(user, profiles.clicked_mask.any(-1), self.nothing)

    def match(
        self, encoded: NamlRows, readers: Float[Tensor, "B F"], candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Section 3.3: u^T r."""
        return dot_scores(gather_rows(encoded.vector, candidates), readers)

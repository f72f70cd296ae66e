"""LSTUR: a long-term vector for each user, and a recurrent network over the clicked stories.

An, Wu, Wu, Zhang, Liu and Xie, "Neural News Recommendation with Long- and Short-term User Representations", ACL 2019.
Symbols are the paper's; `docs/paper-map.md` lists its parts with their tests.

Computed once per story: its vector, and the input projections of the recurrent network.

Departs from the paper: a logit of the attention over words is q^T tanh(V c_i + v), as in the official code
(microsoft/recommenders). The paper's is tanh(v c_i + v_b), without a hidden layer.
Departs from the paper: the reset gate of the recurrent network acts on U_n h, as in `torch.nn.GRU`, not on h.
Departs from the paper: a masked long-term vector is a learned one, not zero; users that training never saw share it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import where_present
from drpn.layers.convolution import ConvolvedText
from drpn.layers.gather import gather_rows
from drpn.layers.linear import dot_scores, joint_linear
from drpn.layers.news import WORD_SPREAD, UserVectors, WordVectors, embedding_table, encode_by_length
from drpn.layers.recurrent import Gru
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share


@dataclass(frozen=True, kw_only=True)
class LsturSettings(ModelSettings):
    """LSTUR; the defaults are the paper's, except for `hidden` (official code) and `category_size` (ours)."""

    size: int = 300
    """Size of word vectors."""
    filters: int = 300
    """Filters of the convolution over words; the size of a title vector."""
    window: int = 3
    """Words that a filter reads at once."""
    hidden: int = 200
    """Size of the query of the attention over words."""
    category_size: int = 100
    """Size of the vectors of categories and subcategories."""
    combine: Literal["ini", "con"] = "ini"
    """The long-term vector is the first state of the recurrent network (ini), or concatenated with its last (con)."""
    masking: float = 0.5
    """p: share of users whose long-term vector is masked; drawn again at each training step."""
    dropout: float = 0.2
    """Dropout on word vectors and on the output of the convolution."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "filters", "window", "hidden", "category_size")
        if self.combine not in ("ini", "con"):
            raise ValueError(f"combine is {self.combine!r}; it takes 'ini' or 'con'")
        check_share(self, "masking", "dropout")


class CategoryVectors(nn.Module):
    """Topic encoder: a vector for each category."""

    def __init__(self, categories: int, size: int) -> None:
        super().__init__()
        self.table = embedding_table(categories, size, WORD_SPREAD)

    def forward(self, categories: Int[Tensor, "U"]) -> Float[Tensor, "U D"]:
        """The vector of each category; zeros for a story without one."""
        return gather_rows(self.table.weight, categories) * (categories != 0).unsqueeze(-1)


class LsturRows(NamedTuple):
    """The stored values of each story."""

    vector: Float[Tensor, "U D"]
    clicked: Float[Tensor, "U RZN"]
    """Input projections for the gates of the recurrent network."""


class Lstur(ClickModel[LsturRows, Float[Tensor, "B D"]]):
    """Reads the user's id and the clicked stories, in order; does not read skipped stories."""

    def __init__(self, settings: LsturSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: LsturSettings = settings
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        self.title = ConvolvedText(settings.size, settings.filters, settings.window, settings.hidden, settings.dropout)
        self.category = CategoryVectors(shape.categories, settings.category_size)
        self.subcategory = CategoryVectors(shape.subcategories, settings.category_size)
        width = settings.filters + 2 * settings.category_size
        # u is as wide as a story vector: it is one state, or the concatenation of two vectors
        long = width if settings.combine == "ini" else width // 2
        short = width if settings.combine == "ini" else width - long
        self.users = UserVectors(shape.users, long, settings.masking)
        self.recent = Gru(width, short)
        if settings.combine == "con":
            self.nothing = nn.Parameter(torch.zeros(short))

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    def encode_news(self, news: NewsRows) -> LsturRows:
        """News encoder: e = [e_t; e_v; e_sv], and its projections for the gates."""
        title = encode_by_length(self._encode_title, news.words)  # e_t
        parts = title, self.category(news.category), self.subcategory(news.subcategory)
        vector = torch.cat(parts, dim=-1)  # (U D)
        return LsturRows(vector, joint_linear(vector, self.recent.weights()))

    def _encode_title(self, words: Int[Tensor, "U W"]) -> Float[Tensor, "U F"]:
        title: Tensor = self.title(self.words(words), words != 0)
        return title

    def read(self, encoded: LsturRows, profiles: Profiles) -> Float[Tensor, "B D"]:
        """User encoder: u."""
        clicked = gather_rows(encoded.clicked, profiles.clicked)
        return self.combine_interests(self.users(profiles.users), clicked, profiles.clicked_mask)

    def combine_interests(
        self, long: Float[Tensor, "B L"], clicked: Float[Tensor, "B H RZN"], mask: Bool[Tensor, "B H"]
    ) -> Float[Tensor, "B D"]:
        """Both interests as one vector; a user who clicked nothing keeps u_l (ini) or has a learned u_s (con)."""
        if self.settings.combine == "ini":
            # u = h_k with h_0 = u_l and h_t = GRU(h_{t-1}, e_t)
            state: Tensor = self.recent(clicked, mask, long)
            return state
        # u = [u_s; u_l] with u_s = h_k and h_0 = 0
        short = where_present(self.recent(clicked, mask), mask.any(-1), self.nothing)
        return torch.cat([short, long], dim=-1)

    def match(
        self, encoded: LsturRows, readers: Float[Tensor, "B D"], candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """u^T e."""
        return dot_scores(gather_rows(encoded.vector, candidates), readers)

"""LSTUR: a long-term vector for each user, and a recurrent network over the clicked stories.

An, Wu, Wu, Zhang, Liu and Xie, "Neural News Recommendation with Long- and Short-term User Representations", ACL 2019.
Symbols are the paper's; `docs/paper-map.md` lists its parts with their tests.

Computed once per story: its vector, and the input projections of the recurrent network.

The official code (microsoft/recommenders) differs: an attention over words with a hidden layer (`logits="code"`), no
categories, no masking, and user vectors that start at zero.

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
    """LSTUR; the defaults are the paper's, except for `category_size`, which is ours."""

    size: int = 300
    """Size of word vectors."""
    filters: int = 300
    """Filters of the convolution over words; the size of a title vector."""
    window: int = 3
    """Words that a filter reads at once."""
    logits: Literal["paper", "code"] = "paper"
    """Logits of the attention over words: tanh(v^T c + v_b) of the paper, or q^T tanh(V c + v) of the official code."""
    hidden: int = 200
    """Size of q in the logits of the official code; the paper's have none."""
    categories: bool = True
    """Read category and subcategory; the official code does not."""
    category_size: int = 100
    """Size of the vectors of categories and subcategories."""
    combine: Literal["ini", "con"] = "ini"
    """The long-term vector is the first state of the recurrent network (ini), or concatenated with its last (con)."""
    masking: float = 0.5
    """p: share of users whose long-term vector is masked; drawn again at each training step."""
    zero_users: bool = False
    """Long-term vectors start at zero, as in the official code."""
    dropout: float = 0.2
    """Dropout on word vectors and on the output of the convolution."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "filters", "window", "hidden", "category_size")
        if self.combine not in ("ini", "con"):
            raise ValueError(f"combine is {self.combine!r}; it takes 'ini' or 'con'")
        if self.logits not in ("paper", "code"):
            raise ValueError(f"logits is {self.logits!r}; it takes 'paper' or 'code'")
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
        hidden = settings.hidden if settings.logits == "code" else None
        self.title = ConvolvedText(settings.size, settings.filters, settings.window, hidden, settings.dropout)
        width = settings.filters
        if settings.categories:
            self.category = CategoryVectors(shape.categories, settings.category_size)
            self.subcategory = CategoryVectors(shape.subcategories, settings.category_size)
            width += 2 * settings.category_size
        # u is as wide as a story vector: it is one state, or the concatenation of two vectors
        long = width if settings.combine == "ini" else width // 2
        short = width if settings.combine == "ini" else width - long
        self.users = UserVectors(shape.users, long, settings.masking, zero=settings.zero_users)
        self.recent = Gru(width, short)
        if settings.combine == "con":
            self.nothing = nn.Parameter(torch.zeros(short))

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    def encode_news(self, news: NewsRows) -> LsturRows:
        """News encoder: e = [e_t; e_v; e_sv], without categories e_t, and its projections for the gates."""
        vector = encode_by_length(self._encode_title, news.words)  # e_t
        if self.settings.categories:
            vector = torch.cat([vector, self.category(news.category), self.subcategory(news.subcategory)], dim=-1)
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

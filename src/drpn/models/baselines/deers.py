"""DEERS: one recurrent network over clicked stories, one over skipped stories, each matched with the candidate.

Zhao, Zhang, Ding, Xia, Tang and Yin, "Recommendations with Negative Feedback via Pairwise Deep Reinforcement Learning",
KDD 2018. Symbols are the paper's; `docs/paper-map.md` lists its formulas with their tests.

    Q(s_+, s_-, a): the first layers read (s_+, a) and (s_-, a) separately, the last layers read both results

Computed once per story: the input projections of both recurrent networks, and the action's half of both first layers,
W [s; a] = W_s s + W_a a. The results are exactly those of the plain formulation.

Departs from the paper: Q is the score of a click model, as in the comparison of the DRPN paper. It is trained with the
loss of all models here, not on future reward: there is no discount and no next state.
Departs from the paper: no regularisation by a competitor, an item of the same category with the opposite feedback; the
loss compares each click with skipped stories of its impression.
Departs from the paper: an item is not one pre-trained vector but title (the mean of its words), id, category and
subcategory, concatenated.
Departs from the paper: the states read the whole profile, not the newest ten stories.
Departs from the paper: the reset gate is applied to U h, not to h.
Departs from the paper: a user who has clicked or skipped nothing has a learned state.
Departs from the paper: the last layer has no bias, which would be the same for all candidates.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.attention import where_present
from drpn.layers.gather import gather_rows
from drpn.layers.linear import Weight, aligned_linear, dot, joint_linear
from drpn.layers.news import Dropout
from drpn.layers.recurrent import Gru
from drpn.layers.tables import gather_at
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share
from drpn.models.fields import FIELDS, NewsFields


@dataclass(frozen=True, kw_only=True)
class DeersSettings(ModelSettings):
    """DEERS; the numbers of layers are the paper's. It has no sizes for stories; those are DRPN's or ours."""

    size: int = 300
    """Size of the vectors of a title, an id, a category and a subcategory."""
    hidden: int = 128
    """Size of the states and of each layer."""
    apart: int = 3
    """Layers that read one state with the candidate."""
    joined: int = 2
    """Layers that read the results of both sides, including the last, which gives Q."""
    dropout: float = 0.2
    """Dropout on the features of stories."""
    id_dropout: float = 0.1
    """Share of stories that get the "unknown" id vector at each training step."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "hidden", "apart", "joined")
        check_share(self, "dropout", "id_dropout")


class SideRows(NamedTuple):
    """The stored values of each story for one side."""

    item: Float[Tensor, "U 3h"]
    """Input projections for the recurrent network, as an item of the sequence."""
    action: Float[Tensor, "U h"]
    """W_a a: the half of the first layer, as the candidate."""


class DeersRows(NamedTuple):
    """The stored values of each story."""

    clicked: SideRows
    skipped: SideRows


class DeersReaders(NamedTuple):
    """The stored values of each user: W_s s + b of both first layers."""

    clicked: Float[Tensor, "B h"]
    skipped: Float[Tensor, "B h"]


class Side(nn.Module):
    """The state of one sequence, and the layers that read it with the candidate."""

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.gru = Gru(width, hidden)
        self.nothing = nn.Parameter(torch.zeros(hidden))
        # W = [W_s W_a] and b of the first layer
        self.state = nn.Linear(hidden, hidden)
        self.action = nn.Linear(width, hidden, bias=False)
        self.deeper = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))

    def encode(self, items: Float[Tensor, "U width"]) -> SideRows:
        """Projections of each story, as an item and as the candidate."""
        projected = joint_linear(items, [*self.gru.weights(), Weight.from_layer(self.action)])
        hidden = self.action.out_features
        return SideRows(*torch.split(projected, [3 * hidden, hidden], dim=-1))

    def read(self, items: Float[Tensor, "B S 3h"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B h"]:
        """W_s s + b: the half of the first layer that depends on the state."""
        # s: the state after the last item
        state = where_present(self.gru(items, mask), mask.any(-1), self.nothing)  # (B h)
        return aligned_linear(state, self.state.weight, self.state.bias)

    def match(self, state: Float[Tensor, "B h"], action: Float[Tensor, "B C h"]) -> Float[Tensor, "B C h"]:
        """The output of the layers of this side for each candidate."""
        hidden = torch.relu(state.unsqueeze(1) + action)  # (B C h)
        for layer in self.deeper:
            hidden = torch.relu(layer(hidden))
        return hidden


class Deers(ClickModel[DeersRows, DeersReaders]):
    """Reads clicked and skipped stories, both in order."""

    def __init__(self, settings: DeersSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: DeersSettings = settings
        self.fields = NewsFields(settings.size, settings.id_dropout, shape)
        self.dropout = Dropout(settings.dropout)
        width, hidden = FIELDS * settings.size, settings.hidden
        self.clicked = Side(width, hidden, settings.apart)
        self.skipped = Side(width, hidden, settings.apart)
        widths = [2 * hidden, *[hidden] * (settings.joined - 1)]
        self.joined = nn.ModuleList(nn.Linear(width, hidden) for width in widths[:-1])
        self.out = nn.Linear(widths[-1], 1, bias=False)

    def encode_news(self, news: NewsRows) -> DeersRows:
        """The projections of each story that each side needs."""
        items = self.dropout(self.fields(news).flatten(1))  # (U 4D)
        return DeersRows(self.clicked.encode(items), self.skipped.encode(items))

    def read(self, encoded: DeersRows, profiles: Profiles) -> DeersReaders:
        """W_s s + b for s_+ and s_-."""
        return DeersReaders(
            self.clicked.read(gather_rows(encoded.clicked.item, profiles.clicked), profiles.clicked_mask),
            self.skipped.read(gather_rows(encoded.skipped.item, profiles.skipped), profiles.skipped_mask),
        )

    def match(
        self, encoded: DeersRows, readers: DeersReaders, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """Q(s_+, s_-, a)."""
        liked, disliked = gather_at((encoded.clicked.action, encoded.skipped.action), candidates)
        sides = self.clicked.match(readers.clicked, liked), self.skipped.match(readers.skipped, disliked)
        hidden = torch.cat(sides, dim=-1)  # (B C 2h)
        for layer in self.joined:
            hidden = torch.relu(layer(hidden))
        return dot(hidden, self.out.weight[0])

"""DEERS: one recurrent network over what was clicked, another over what was skipped, each matched with the candidate.

Zhao, Zhang, Ding, Xia, Tang and Yin, "Recommendations with Negative Feedback via Pairwise Deep Reinforcement Learning",
KDD 2018. Symbols are the paper's; `docs/paper-map.md` lists its formulas with their tests.

    Q(s_+, s_-, a): the first layers read (s_+, a) apart from (s_-, a), the last ones join the two

What depends on a news alone is computed once for each news: the input weights of both recurrent networks, and the
action's half of both first layers, W [s; a] = W_s s + W_a a. The numbers are those of the plain formulation.

Departs from the paper: DRPN's compares it as a click model, and so it is one here: Q is a score, trained by the loss of
all models, and not the reward to come. There is no discount, no next state, and no regularisation by a competitor, an
item of the same category with the other feedback; the loss sets each click against skips of its impression. An item,
there one vector trained beforehand, is the title (the mean of its words), id, category and subcategory side by side.
The states are those of all models here, not the newest ten news. The reset gate is applied to U h, not to h. A user who
has clicked or skipped nothing has a learned state. The last layer has no bias: nothing could be learnt of it.
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
from drpn.models.base import ClickModel, DataShape
from drpn.models.checks import check_positive, check_share
from drpn.models.fields import FIELDS, NewsFields


@dataclass(frozen=True, kw_only=True)
class DeersSettings:
    """DEERS; the numbers of layers are the paper's, the sizes, which it does not give for such news, DRPN's or ours."""

    size: int = 300
    """Size of the vectors of a title, an id, a category and a subcategory."""
    hidden: int = 128
    """Size of the states and of each layer."""
    apart: int = 3
    """Layers that read one state with the candidate."""
    joined: int = 2
    """Layers that read what the others made of both states, the one that gives Q counted."""
    dropout: float = 0.2
    """On the features of news."""
    id_dropout: float = 0.1
    """Share of news that are given the "unknown" id vector at each step of training."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "hidden", "apart", "joined")
        check_share(self, "dropout", "id_dropout")


class SideRows(NamedTuple):
    """What some news bring to one side."""

    item: Float[Tensor, "U 3h"]
    """To its recurrent network, as an item of the sequence."""
    action: Float[Tensor, "U h"]
    """To its first layer, as the candidate: W_a a."""


class DeersRows(NamedTuple):
    """What is known of some news before any user comes in."""

    clicked: SideRows
    skipped: SideRows


class DeersReaders(NamedTuple):
    """What is known of some users before any candidate comes in: W_s s + b of both first layers."""

    clicked: Float[Tensor, "B h"]
    skipped: Float[Tensor, "B h"]


class Side(nn.Module):
    """One sequence as a state, and the layers that read this state with the candidate."""

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.gru = Gru(width, hidden)
        self.nothing = nn.Parameter(torch.zeros(hidden))
        # W = [W_s W_a] and b of the first layer
        self.state = nn.Linear(hidden, hidden)
        self.action = nn.Linear(width, hidden, bias=False)
        self.deeper = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers - 1))

    def encode(self, items: Float[Tensor, "U width"]) -> SideRows:
        """What each news brings, as an item and as the candidate."""
        projected = joint_linear(items, [*self.gru.weights(), Weight.from_layer(self.action)])
        hidden = self.action.out_features
        return SideRows(*torch.split(projected, [3 * hidden, hidden], dim=-1))

    def read(self, items: Float[Tensor, "B S 3h"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B h"]:
        """The state's half of the first layer."""
        # s: the state after the last item
        state = where_present(self.gru(items, mask), mask.any(-1), self.nothing)  # (B h)
        return aligned_linear(state, self.state.weight, self.state.bias)

    def match(self, state: Float[Tensor, "B h"], action: Float[Tensor, "B C h"]) -> Float[Tensor, "B C h"]:
        """What the layers of this side make of each candidate."""
        hidden = torch.relu(state.unsqueeze(1) + action)  # (B C h)
        for layer in self.deeper:
            hidden = torch.relu(layer(hidden))
        return hidden


class Deers(ClickModel):
    """Reads what was clicked and what was skipped, both in their order."""

    def __init__(self, settings: DeersSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings = settings
        self.fields = NewsFields(settings.size, settings.id_dropout, shape)
        self.dropout = Dropout(settings.dropout)
        width, hidden = FIELDS * settings.size, settings.hidden
        self.clicked = Side(width, hidden, settings.apart)
        self.skipped = Side(width, hidden, settings.apart)
        widths = [2 * hidden, *[hidden] * (settings.joined - 1)]
        self.joined = nn.ModuleList(nn.Linear(one, hidden) for one in widths[:-1])
        self.out = nn.Linear(widths[-1], 1, bias=False)

    def encode_news(self, news: NewsRows) -> DeersRows:
        """The features of each news, as either side needs them."""
        items = self.dropout(self.fields(news).flatten(1))  # (U 4D)
        return DeersRows(self.clicked.encode(items), self.skipped.encode(items))

    def read(self, encoded: DeersRows, profiles: Profiles) -> DeersReaders:
        """s_+ and s_-, as the first layers need them."""
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

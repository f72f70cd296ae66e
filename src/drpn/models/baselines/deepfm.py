"""DeepFM: a factorisation machine and a deep network that share the vectors of features.

Guo, Tang, Ye, Li and He, "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction", IJCAI 2017. Symbols
are the paper's; `docs/paper-map.md` lists its formulas with their tests. The features are LibFM's, in eight fields.

    y = y_FM + y_DNN
    a^(0) = [e_1; ...; e_m],  a^(l+1) = ReLU(W^(l) a^(l) + b^(l)),  y_DNN = W^(H+1) a^(H)

Only the first layer reads fields. W^(0) [user; story] is computed as W_u user + W_n story, one half once per user, the
other once per story. The results are exactly those of the plain formulation.

Departs from the paper: neither y nor y_DNN passes through a sigmoid; all models here share one loss, a softmax over
candidates.
Departs from the paper: terms that are the same for all candidates of a user are left out: those of y_FM that LibFM
leaves out, and the bias of y_DNN. Neither the order of candidates nor the loss depends on them.
Departs from the paper: stories and users that training never saw share a learned vector.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.layers.gather import gather_rows
from drpn.layers.linear import aligned_linear, dot
from drpn.layers.news import Dropout
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share
from drpn.models.factorisation import FIELDS, Factors, Features, fm_scores


@dataclass(frozen=True, kw_only=True)
class DeepFmSettings(ModelSettings):
    """DeepFM; the defaults are the paper's."""

    size: int = 10
    """k: size of the vectors of features."""
    hidden: int = 400
    """Size of each layer of the deep network."""
    layers: int = 3
    """H: hidden layers of the deep network."""
    dropout: float = 0.5
    """Dropout after each hidden layer."""
    id_dropout: float = 0.1
    """Share of stories and of users that get the "unknown" vector at each training step."""

    def __post_init__(self) -> None:
        check_positive(self, "size", "hidden", "layers")
        check_share(self, "dropout", "id_dropout")


class DeepFmRows(NamedTuple):
    """The stored values of each story."""

    factors: Factors
    half: Float[Tensor, "U hidden"]
    """W_n story: the half of the first layer that depends on the story."""
    clicked: Float[Tensor, "U clicked"]
    """The features that the story adds to a user who clicked it."""


class DeepFmReaders(NamedTuple):
    """The stored values of each user."""

    vector: Float[Tensor, "B D"]
    """The sum of x_i v_i over the user's features."""
    half: Float[Tensor, "B hidden"]
    """W_u user + b: the half of the first layer that depends on the user."""


class DeepNetwork(nn.Module):
    """y_DNN: hidden layers with ReLU over the fields of a user and a story."""

    def __init__(self, settings: DeepFmSettings) -> None:
        super().__init__()
        width = FIELDS * settings.size
        # W^(0) = [W_u W_n] and b^(0)
        self.user = nn.Linear(width, settings.hidden)
        self.news = nn.Linear(width, settings.hidden, bias=False)
        self.deeper = nn.ModuleList(nn.Linear(settings.hidden, settings.hidden) for _ in range(settings.layers - 1))
        self.out = nn.Linear(settings.hidden, 1, bias=False)
        self.dropout = Dropout(settings.dropout)

    def forward(self, users: Float[Tensor, "B 1 hidden"], stories: Float[Tensor, "B C hidden"]) -> Float[Tensor, "B C"]:
        """The score of each candidate, from the two halves of the first layer."""
        # a^(1) = ReLU(W^(0) a^(0) + b^(0))
        hidden = self.dropout(torch.relu(users + stories))  # (B C hidden)
        for layer in self.deeper:
            # a^(l+1) = ReLU(W^(l) a^(l) + b^(l))
            hidden = self.dropout(torch.relu(layer(hidden)))
        # W^(H+1) a^(H)
        return dot(hidden, self.out.weight[0])


class DeepFm(ClickModel[DeepFmRows, DeepFmReaders]):
    """Reads the user's id and the clicked stories, in any order; does not read skipped stories."""

    def __init__(self, settings: DeepFmSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: DeepFmSettings = settings
        self.features = Features(settings.size, settings.id_dropout, shape)
        self.deep = DeepNetwork(settings)

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    def encode_news(self, news: NewsRows) -> DeepFmRows:
        """The features of each story, and its half of the first layer."""
        features = self.features.news_features(news)
        half = aligned_linear(features.fields.flatten(1), self.deep.news.weight)
        return DeepFmRows(features.factors, half, features.clicked)

    def read(self, encoded: DeepFmRows, profiles: Profiles) -> DeepFmReaders:
        """The features of each user, and the user's half of the first layer."""
        fields = self.features.user_features(encoded.clicked, profiles)
        return DeepFmReaders(fields.sum(1), self.deep.user(fields.flatten(1)))

    def match(
        self, encoded: DeepFmRows, readers: DeepFmReaders, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """y_FM + y_DNN."""
        machine = fm_scores(encoded.factors, readers.vector, candidates)
        deep: Tensor = self.deep(readers.half.unsqueeze(1), gather_rows(encoded.half, candidates))
        return machine + deep

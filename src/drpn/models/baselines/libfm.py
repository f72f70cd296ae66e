"""LibFM: a factorisation machine over the features of a user and a story.

Rendle, "Factorization Machines with libFM", ACM Transactions on Intelligent Systems and Technology 3 (3), 2012. The
features are the usual ones in news recommendation (Wu et al., "MIND: A Large-scale Dataset for News Recommendation",
ACL 2020): the ids of user and story, the content of the story, and the content of the stories that the user clicked.
Content means category, subcategory and words of the title. `docs/paper-map.md` lists the formulas with their tests.

    y(x) = w_0 + sum over i of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j

Computed once per story: the terms that only hold its own features. Computed once per user: the sum of x_i v_i. One
inner product is left for each candidate.

Departs from the paper: w_0, the weights of a user's features and the pairs among them are left out. They are the same
for all candidates of a user, so neither the order nor the loss, a softmax over candidates, depends on them.
Departs from the paper: training is the same for all models here; libFM has SGD, ALS or MCMC on single candidates.
Departs from the paper: stories and users that training never saw share a learned vector; in libFM it is untrained.
"""

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.checks import check_positive, check_share
from drpn.models.factorisation import Factors, Features, fm_scores


@dataclass(frozen=True, kw_only=True)
class LibFmSettings(ModelSettings):
    """LibFM; the size is the default of the libFM program."""

    size: int = 8
    """k: size of the vectors v_i."""
    id_dropout: float = 0.1
    """Share of stories and of users that get the "unknown" vector at each training step."""

    def __post_init__(self) -> None:
        check_positive(self, "size")
        check_share(self, "id_dropout")


class LibFmRows(NamedTuple):
    """The stored values of each story."""

    factors: Factors
    clicked: Float[Tensor, "U clicked"]
    """The features that the story adds to a user who clicked it."""


class LibFm(ClickModel[LibFmRows, Float[Tensor, "B D"]]):
    """Reads the user's id and the clicked stories, in any order; does not read skipped stories."""

    def __init__(self, settings: LibFmSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: LibFmSettings = settings
        self.features = Features(settings.size, settings.id_dropout, shape)

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked stories only."""
        return ("clicked",)

    def encode_news(self, news: NewsRows) -> LibFmRows:
        """Weights, pairs and sum of the features of each story."""
        features = self.features.news_features(news)
        return LibFmRows(features.factors, features.clicked)

    def read(self, encoded: LibFmRows, profiles: Profiles) -> Float[Tensor, "B D"]:
        """The sum of x_i v_i over the features of each user."""
        return self.features.user_features(encoded.clicked, profiles).sum(1)

    def match(
        self, encoded: LibFmRows, readers: Float[Tensor, "B D"], candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """y(x) without the terms that only depend on the user."""
        return fm_scores(encoded.factors, readers, candidates)

"""LibFM: a factorisation machine on the features of a user and of a news.

Rendle, "Factorization Machines with libFM", ACM Transactions on Intelligent Systems and Technology 3 (3), 2012. The
features are those that news recommendation gives it (Wu et al., "MIND: A Large-scale Dataset for News Recommendation",
ACL 2020): the ids of user and news, the content of the news, and that of what the user clicked; content here is
category, subcategory and words of the title. `docs/paper-map.md` lists the formulas with their tests.

    y(x) = w_0 + sum over i of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j

What the features of a news come to by themselves is computed once for each news, the sum of a user's once for each
user; what is left for a candidate is one inner product.

Departs from the paper: w_0, the weights of a user's features and the pairs among them are left out. They are the same
for all candidates of a user: neither the order nor the loss, a softmax over candidates, depends on them, and nothing
would be learnt of them. Learning is that of all models here, where libFM has SGD, ALS or MCMC on one candidate at a
time. News and users that training never saw share a learned vector, where libFM would have an untrained one.
"""

from dataclasses import dataclass
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.models.base import ClickModel, DataShape
from drpn.models.checks import check_positive, check_share
from drpn.models.factorisation import Factors, Features, fm_scores


@dataclass(frozen=True, kw_only=True)
class LibFmSettings:
    """LibFM; the size is the default of its program."""

    size: int = 8
    """k: size of the vectors v_i."""
    id_dropout: float = 0.1
    """Share of news and of users that are given the "unknown" vector at each step of training."""

    def __post_init__(self) -> None:
        check_positive(self, "size")
        check_share(self, "id_dropout")


class LibFmRows(NamedTuple):
    """What is known of some news before any user comes in."""

    factors: Factors
    clicked: Float[Tensor, "U clicked"]
    """The features that they give to a user who clicked them."""


class LibFm(ClickModel):
    """Reads who the user is and what was clicked, as a bag; ignores what was skipped."""

    def __init__(self, settings: LibFmSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings = settings
        self.features = Features(settings.size, settings.id_dropout, shape)

    @property
    def reads(self) -> tuple[str, ...]:
        """Clicked news alone."""
        return ("clicked",)

    def encode_news(self, news: NewsRows) -> LibFmRows:
        """Weights, pairs and sum of the features of each news."""
        features = self.features.news_features(news)
        return LibFmRows(features.factors, features.clicked)

    def read(self, encoded: LibFmRows, profiles: Profiles) -> Float[Tensor, "B D"]:
        """The sum of x_i v_i over the features of each user."""
        return self.features.user_features(encoded.clicked, profiles).sum(1)

    def match(
        self, encoded: LibFmRows, readers: Float[Tensor, "B D"], candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """y(x), but for what is the user's alone."""
        return fm_scores(encoded.factors, readers, candidates)

"""The contract of a click model.

What depends on a story alone is computed once per story (`encode_news`), what depends on a user alone once per user
(`read`), and only the rest once per candidate (`match`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import TypeVar

from drpn.batches.batch import Batch, Context, NewsRows, Profiles
from drpn.dataset.folder import Dataset
from drpn.layers.calibration import Calibration
from drpn.layers.context import ContextView, LiveShape

Encoded = TypeVar("Encoded", default=Any)
"""Tables with a row for each story: a tensor, or nested tuples and dictionaries of them."""
Readers = TypeVar("Readers", default=Any)
"""Tensors with a row for each user, nested in the same way."""
Trust = dict[str, dict[str, Float[Tensor, "B S"]]]
"""How far each story of a profile is trusted, by view and sequence."""


@dataclass(frozen=True)
class DataShape:
    """Sizes of the tables of a dataset, in rows with padding, and its pre-trained vectors."""

    news: int
    words: int
    users: int
    categories: int
    subcategories: int
    vectors: NDArray[np.float32] | None = None
    """Pre-trained word vectors, one row per word; zeros for words without one."""
    entities: int = 0
    """0 if the dataset has no entities."""
    entity_vectors: NDArray[np.float32] | None = None
    """Pre-trained entity vectors, in the same form."""
    context_vectors: NDArray[np.float32] | None = None
    """Vectors of the contexts of entities, in the same form."""
    live: LiveShape | None = None
    """The columns of the live protocol; None with another protocol."""


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Settings of every model: how much it reads of a dataset that holds more."""

    former: ClassVar[dict[str, Any]] = {"max_neighbours": None}
    """Values that models of older versions had before a setting existed, where today's default differs."""
    max_words: int | None = None
    """Words of a title that the model reads, the first ones. None: all that the dataset holds, as for the next two."""
    max_clicked: int | None = None
    """Clicked stories of a profile that the model reads, the newest ones."""
    max_skipped: int | None = None
    """Skipped stories of a profile that the model reads, the newest ones."""
    max_neighbours: int | None = 5
    """Graph neighbours that a model with a graph reads of a story or a user, the heaviest ones. The default is that of
    DRPN's paper. None: all that the dataset holds."""
    context: bool = False
    """Add a score from the running counts of the live protocol: clicks and shows of the story, what the user was shown,
    the page, the hour."""
    list_attention: bool = False
    """With `context`: let every candidate read the others of its page. Only for callers that rank a whole page."""
    context_size: int = 256
    """With `context`: width of its layers."""
    context_blocks: int = 3
    """With `context`: number of its residual blocks."""
    context_dropout: float = 0.3
    """With `context`: dropout in its layers."""
    context_user: bool = True
    """With `context`: read the counts that know the user, and the user's columns."""
    context_text: bool = True
    """With `context`: read the counts that compare texts."""


class ClickModel(nn.Module, ABC, Generic[Encoded, Readers]):
    """Scores candidates for users."""

    settings: ModelSettings
    """The model's own settings."""
    score_weights: tuple[str, ...] = ()
    """How the names of weights end that the scores are proportional to, for models whose first scores are large."""

    def __init__(self) -> None:
        super().__init__()
        self.context: ContextView | None = None

    def add_context(self, shape: DataShape) -> None:
        """Add the context view, if the settings ask for it."""
        settings = self.settings
        if settings.context:
            self.context = ContextView(
                shape.live or LiveShape(),
                size=settings.context_size,
                blocks=settings.context_blocks,
                dropout=settings.context_dropout,
                attention=settings.list_attention,
                user=settings.context_user,
                text=settings.context_text,
            )

    def scale_scores(self, factor: float) -> None:
        """Multiply the scores of a model that was not trained yet; nothing happens without `score_weights`."""
        for name, weight in self.named_parameters():
            if name.endswith(self.score_weights):
                weight.data.mul_(factor)

    def limit(self, dataset: Dataset) -> Dataset:
        """The dataset with only the words, the stories of profiles and the neighbours that the model reads."""
        settings = self.settings
        return dataset.limited(
            words=settings.max_words,
            clicked=settings.max_clicked,
            skipped=settings.max_skipped,
            neighbours=settings.max_neighbours,
        )

    @property
    def reads(self) -> tuple[str, ...]:
        """The sequences of a profile that the model reads; the others may be empty."""
        return ("clicked", "skipped")

    @property
    def needs(self) -> tuple[str, ...]:
        """The optional data that the model needs, as keys of `dataset.requirements.REQUIREMENTS`.

        With "news_neighbours" the graph neighbours of candidates are part of every batch, and
        `NewsRows.neighbour_positions` points to them.
        """
        return ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """The optional data that the model needs, with the counts of the live protocol if its settings ask for them."""
        return (*self.needs, "counts") if self.settings.context else self.needs

    @property
    def denoises(self) -> bool:
        """Whether the model weighs the stories of a profile by how far it trusts them (see `trust`)."""
        return False

    @property
    def content(self) -> str:
        """The parts of titles that the model reads, if that depends on the dataset; tables add it to its name."""
        return ""

    @abstractmethod
    def encode_news(self, news: NewsRows) -> Encoded:
        """Encode stories; the result does not depend on users."""

    @abstractmethod
    def read(self, encoded: Encoded, profiles: Profiles) -> Readers:
        """Encode users, whose profiles hold positions into `encoded`; the result does not depend on candidates."""

    def trust(self, encoded: Encoded, profiles: Profiles, *, vectors: bool = True) -> Trust:
        """How far each story of a profile is trusted, by view and sequence; empty without denoising weights.

        Without `vectors`, gradients do not reach the vectors of stories.
        """
        return {}

    @property
    def compares_labels(self) -> bool:
        """Whether the trust in a story also depends on categories and subcategories."""
        return False

    def label_trust(self, news: NewsRows, profiles: Profiles) -> Trust:
        """The part of the trust in each story that comes from labels; empty if the model does not compare them."""
        return {}

    def calibrations(self) -> dict[str, dict[str, Calibration]]:
        """The calibration of each denoising aggregator, by view and sequence; empty if weights are no probabilities."""
        return {}

    @abstractmethod
    def match(
        self, encoded: Encoded, readers: Readers, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """The score of each candidate for its user; candidates are positions into `encoded`."""

    def rank(
        self, encoded: Encoded, readers: Readers, candidates: Int[Tensor, "B C"], context: Context
    ) -> Float[Tensor, "B C"]:
        """The score of each candidate, that of the context view included."""
        scores = self.match(encoded, readers, candidates, context)
        return (
            scores
            if self.context is None
            else scores + self.context(context.story, context.page, context.user, candidates != 0)
        )

    def score(self, encoded: Encoded, batch: Batch) -> Float[Tensor, "B C"]:
        """The score of each candidate of a batch."""
        return self.rank(encoded, self.read(encoded, batch.profiles), batch.candidates, batch.context)

"""What DRPN made of a user: the weight of each news in each aggregator, and where each candidate's score came from."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.batches.batch import all_stories, distinct_stories
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.errors import ExplainError
from drpn.explain.profiles import CAUSES
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn, ViewMatch
from drpn.models.encode import encode_all
from drpn.progress import Progress, Silent

Kind = Literal["content", "denoise"]
SideName = Literal["clicked", "skipped"]
USERS_AT_ONCE = 512


@dataclass(frozen=True)
class TracedStory:
    """A news of a profile, and how much it counted."""

    news_id: str
    topic: str
    """Its subcategory, or its category where it has none."""
    title: str
    opinion: int | None
    """What the user really thought of it, where that is known: 1 liked, 0 indifferent, -1 disliked."""
    cause: str
    """Why it was clicked or skipped, in a word of `profiles.CAUSES`; empty where that is not known."""
    weights: dict[str, float]
    """By aggregator, such as "semantic denoise"; empty where the model does not read this sequence."""


@dataclass(frozen=True)
class TracedCandidate:
    """A candidate, and where its score came from."""

    news_id: str
    topic: str
    title: str
    rank: int
    """1 for the highest score; of equal scores the one that was given first."""
    score: float
    parts: dict[str, float]
    """The score is the sum of its views' parts: "semantic" and, where the model has it, "collaborative"."""
    fusion: dict[str, dict[str, float]]
    """By view: beta, how much each interest counted, such as "clicked denoise"."""
    clicked: bool | None
    """Whether the user really clicked it, where that is known."""


@dataclass(frozen=True)
class Trace:
    """What DRPN made of a user."""

    user_id: str
    clicked: tuple[TracedStory, ...]
    """Oldest first, as in the dataset."""
    skipped: tuple[TracedStory, ...]
    candidates: tuple[TracedCandidate, ...]
    """In the order they were given."""
    aggregator: str
    """The one that shows what is trusted: "semantic denoise", or "semantic content" in a model without denoising."""

    def trust(self, news: TracedStory) -> float | None:
        """How much a news counted in that aggregator."""
        return news.weights.get(self.aggregator)

    def by_trust(self, side: SideName) -> list[TracedStory]:
        """A sequence, the most trusted news first; as it is where the model does not read it."""
        news: tuple[TracedStory, ...] = getattr(self, side)
        return sorted(news, key=lambda one: -(self.trust(one) or 0.0))

    def ranked(self) -> list[TracedCandidate]:
        """The candidates, best first."""
        return sorted(self.candidates, key=lambda one: one.rank)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data for JSON."""
        return dataclasses.asdict(self)


@torch.no_grad()
def trace(
    model: ClickModel,
    tables: Tables,
    dataset: Dataset,
    user: int,
    candidates: Sequence[int],
    clicked: Sequence[bool] | None = None,
) -> Trace:
    """What the model made of a user (a row of the dataset) and of candidates, some of which were really clicked."""
    model = require_drpn(model).eval()
    device = tables.clicked.device
    shown = torch.tensor([list(candidates)], dtype=tables.clicked.dtype, device=device).reshape(1, -1)
    rows, batch = distinct_stories(tables.batch(torch.tensor([user], device=device), shown), news=len(tables.news))
    views = model.views(model.encode_news(tables.news.select(rows)), batch)
    return Trace(
        user_id=dataset.user_ids[user],
        clicked=_profile(dataset, views, "clicked", user),
        skipped=_profile(dataset, views, "skipped", user),
        candidates=_candidates(dataset, model, views, candidates, clicked),
        aggregator=f"semantic {main_aggregator(model)}",
    )


@torch.no_grad()
def profile_weights(
    model: ClickModel,
    tables: Tables,
    users: Sequence[int] | NDArray[np.integer[Any]],
    kind: Kind = "denoise",
    progress: Progress | None = None,
    *,
    encoded: Any = None,
) -> dict[str, NDArray[np.float32]]:
    """The weights of many users' news in the semantic aggregators of one kind, by the name of the sequence.

    (users, slots) as in `dataset.clicked` and `dataset.skipped`, zeros at padding; nothing of an aggregator that the
    model does not have. All news are encoded once, or given as `encoded`.
    """
    model, progress = require_drpn(model).eval(), progress or Silent()
    sides = [name for name in model.semantic.sides if f"{name} {kind}" in model.semantic.interests]
    everyone = torch.as_tensor(np.asarray(users, dtype=np.int64), device=tables.clicked.device)
    found = {name: np.zeros((len(everyone), getattr(tables, name).shape[1]), dtype=np.float32) for name in sides}
    if not sides:
        return found
    if encoded is None:
        with progress.stage("encoding news"):
            encoded = encode_all(model, tables.news)
    with progress.stage("weighing profiles", len(everyone)) as advance:
        for start in range(0, len(everyone), USERS_AT_ONCE):
            some = everyone[start : start + USERS_AT_ONCE]
            profiles = all_stories(tables.profiles(some))
            weights = model.read({"semantic": encoded["semantic"]}, profiles)["semantic"].weights
            for name in sides:
                values = weights[f"{name} {kind}"].float().cpu().numpy()
                found[name][start : start + len(some), : values.shape[1]] = values
            advance(len(some))
    return found


def require_drpn(model: ClickModel) -> Drpn:
    """The model, if it is DRPN or one of its variants."""
    if not isinstance(model, Drpn):
        name = type(model).__name__
        raise ExplainError(f"{name} has no weights to show; choose a run of drpn or of one of its variants")
    return model


def main_aggregator(model: Drpn) -> Kind:
    """The kind of aggregator that shows what a model trusts."""
    return "denoise" if model.settings.denoise else "content"


def _profile(dataset: Dataset, views: dict[str, ViewMatch], side: SideName, user: int) -> tuple[TracedStory, ...]:
    rows = [row for row in dataset.arrays.array(f"users/{side}")[user].tolist() if row]
    truth = f"users/{side}_opinion"
    thought = dataset.arrays.array(truth)[user].tolist() if truth in dataset.arrays else [None] * len(rows)
    weights = {
        f"{view} {interest.removeprefix(side).strip()}": values[0].double().tolist()
        for view, viewed in views.items()
        for interest, values in viewed.weights.items()
        if interest.startswith(side)
    }
    return tuple(
        TracedStory(
            *_names(dataset, row),
            opinion=opinion if (side, opinion) in CAUSES else None,
            cause=CAUSES.get((side, opinion), ""),
            weights={name: values[slot] for name, values in weights.items()},
        )
        for slot, (row, opinion) in enumerate(zip(rows, thought, strict=False))  # padding has an opinion too
    )


def _candidates(
    dataset: Dataset,
    model: Drpn,
    views: dict[str, ViewMatch],
    candidates: Sequence[int],
    clicked: Sequence[bool] | None,
) -> tuple[TracedCandidate, ...]:
    parts = {view: viewed.score[0].double().tolist() for view, viewed in views.items()}
    fusion = {view: viewed.beta[0].double().tolist() for view, viewed in views.items()}
    interests = model.semantic.interests  # those of both views
    scores = [sum(part) for part in zip(*parts.values(), strict=True)]
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    ranks = {place: rank for rank, place in enumerate(order, start=1)}
    return tuple(
        TracedCandidate(
            *_names(dataset, row),
            rank=ranks[place],
            score=scores[place],
            parts={view: values[place] for view, values in parts.items()},
            fusion={view: dict(zip(interests, beta[place], strict=True)) for view, beta in fusion.items()},
            clicked=None if clicked is None else bool(clicked[place]),
        )
        for place, row in enumerate(candidates)
    )


def _names(dataset: Dataset, row: int) -> tuple[str, str, str]:
    """The id, the topic and the title of a news."""
    return dataset.news_ids[row], dataset.subcategory(row) or dataset.category(row), dataset.titles[row]

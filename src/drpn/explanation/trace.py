"""Traces: the weight of each story in each aggregator of DRPN, and the parts of each candidate's score."""

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
from drpn.explanation.profiles import CAUSES
from drpn.explanation.views import ViewMatch, match_views
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.models.encode import encode_all
from drpn.progress import Progress, Silent

Kind = Literal["content", "denoise"]
SideName = Literal["clicked", "skipped"]
USERS_AT_ONCE = 512


@dataclass(frozen=True)
class TracedStory:
    """A story of a profile and its weights."""

    news_id: str
    topic: str
    """The subcategory, or the category of a story without one."""
    title: str
    opinion: int | None
    """The user's true opinion: 1 liked, 0 indifferent, -1 disliked; None unless the logs are simulated."""
    cause: str
    """The reason for the click or skip, one of `profiles.CAUSES`; empty unless the logs are simulated."""
    weights: dict[str, float]
    """By aggregator, such as "semantic denoise"; empty if the model does not read this sequence."""


@dataclass(frozen=True)
class TracedCandidate:
    """A candidate and the parts of its score."""

    news_id: str
    topic: str
    title: str
    rank: int
    """1 for the highest score; equal scores keep the order of the candidates."""
    score: float
    parts: dict[str, float]
    """By view, "semantic" and, if the model has it, "collaborative"; the score is their sum."""
    fusion: dict[str, dict[str, float]]
    """By view: beta, the weight of each interest, such as "clicked denoise"."""
    clicked: bool | None
    """Whether the user clicked it; None if unknown."""


@dataclass(frozen=True)
class Trace:
    """The weights and scores that DRPN computes for one user."""

    user_id: str
    clicked: tuple[TracedStory, ...]
    """Oldest first, as in the dataset."""
    skipped: tuple[TracedStory, ...]
    candidates: tuple[TracedCandidate, ...]
    """In the order of the request."""
    aggregator: str
    """The aggregator whose weights count as trust: "semantic denoise", or "semantic content" without denoising."""

    def trust(self, story: TracedStory) -> float | None:
        """Return the weight of a story in `aggregator`; None if the model does not read its sequence."""
        return story.weights.get(self.aggregator)

    def by_trust(self, side: SideName) -> list[TracedStory]:
        """Return a sequence sorted by trust, highest first; unsorted if the model does not read it."""
        stories: tuple[TracedStory, ...] = getattr(self, side)
        return sorted(stories, key=lambda story: -(self.trust(story) or 0.0))

    def ranked(self) -> list[TracedCandidate]:
        """Return the candidates, best first."""
        return sorted(self.candidates, key=lambda candidate: candidate.rank)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
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
    """Return the trace of a user (a row of the dataset) and candidates (rows); `clicked` marks the clicked ones."""
    model = require_drpn(model).eval()
    device = tables.clicked.device
    shown = torch.tensor([list(candidates)], dtype=tables.clicked.dtype, device=device).reshape(1, -1)
    rows, batch = distinct_stories(tables.batch(torch.tensor([user], device=device), shown), news=len(tables.news))
    views = match_views(model, model.encode_news(tables.news.select(rows)), batch)
    return Trace(
        user_id=dataset.user_ids[user],
        clicked=_trace_sequence(dataset, views, "clicked", user),
        skipped=_trace_sequence(dataset, views, "skipped", user),
        candidates=_trace_candidates(dataset, model, views, candidates, clicked),
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
    """Return the weights of many users' stories in one view's aggregators of one kind, by name of the sequence.

    Each array is (users, slots) as in `dataset.clicked` and `dataset.skipped`, with zeros at padding. Sequences for
    which the model has no such aggregator are missing. `encoded` are all stories, if they are encoded already.
    """
    return aggregator_weights(model, tables, users, progress, views=("semantic",), encoded=encoded)[f"semantic {kind}"]


@torch.no_grad()
def aggregator_weights(
    model: ClickModel,
    tables: Tables,
    users: Sequence[int] | NDArray[np.integer[Any]],
    progress: Progress | None = None,
    *,
    views: Sequence[str] = ("semantic", "collaborative"),
    encoded: Any = None,
) -> dict[str, dict[str, NDArray[np.float32]]]:
    """Return the weights of many users' stories by aggregator, such as "semantic denoise", and name of the sequence.

    The arrays are those of `profile_weights`. An aggregator that the model does not have has none.
    """
    model, progress = require_drpn(model).eval(), progress or Silent()
    user_rows = torch.as_tensor(np.asarray(users, dtype=np.int64), device=tables.clicked.device)
    if encoded is None:
        with progress.stage("encoding stories"):
            encoded = encode_all(model, tables.news)
    present = {view: encoded[view] for view in views if view in encoded}
    kinds = ("content", "denoise")
    by_aggregator: dict[str, dict[str, NDArray[np.float32]]] = {
        f"{view} {kind}": {
            side: np.zeros((len(user_rows), getattr(tables, side).shape[1]), dtype=np.float32)
            for side in model.reads
            if view in present and f"{side} {kind}" in model.semantic.interests  # the same in both views
        }
        for view in views
        for kind in kinds
    }
    with progress.stage("computing profile weights", len(user_rows)) as advance:
        for start in range(0, len(user_rows), USERS_AT_ONCE):
            batch_rows = user_rows[start : start + USERS_AT_ONCE]
            for view, readers in model.read(present, all_stories(tables.profiles(batch_rows))).items():
                for interest, weight in readers.weights.items():
                    side, kind = interest.split(" ")
                    values = weight.float().cpu().numpy()
                    array = by_aggregator[f"{view} {kind}"][side]
                    array[start : start + len(batch_rows), : values.shape[1]] = values
            advance(len(batch_rows))
    return by_aggregator


def require_drpn(model: ClickModel) -> Drpn:
    """Return the model if it is DRPN or one of its variants; raise an ExplainError otherwise."""
    if not isinstance(model, Drpn):
        name = type(model).__name__
        raise ExplainError(f"{name} has no weights to show; choose a run of drpn or of one of its variants")
    return model


def main_aggregator(model: Drpn) -> Kind:
    """Return the kind of aggregator whose weights count as trust."""
    return "denoise" if model.settings.denoise else "content"


def _trace_sequence(
    dataset: Dataset, views: dict[str, ViewMatch], side: SideName, user: int
) -> tuple[TracedStory, ...]:
    rows = [row for row in getattr(dataset, side)[user].tolist() if row]
    truth = f"users/{side}_opinion"
    opinions = dataset.arrays.array(truth)[user].tolist() if truth in dataset.arrays else [None] * len(rows)
    weights = {
        f"{view} {interest.removeprefix(side).strip()}": values[0].double().tolist()
        for view, match in views.items()
        for interest, values in match.weights.items()
        if interest.startswith(side)
    }
    return tuple(
        TracedStory(
            *_id_topic_title(dataset, row),
            opinion=opinion if (side, opinion) in CAUSES else None,
            cause=CAUSES.get((side, opinion), ""),
            weights={name: values[slot] for name, values in weights.items()},
        )
        for slot, (row, opinion) in enumerate(zip(rows, opinions, strict=False))  # padding has opinions too
    )


def _trace_candidates(
    dataset: Dataset,
    model: Drpn,
    views: dict[str, ViewMatch],
    candidates: Sequence[int],
    clicked: Sequence[bool] | None,
) -> tuple[TracedCandidate, ...]:
    parts = {view: match.score[0].double().tolist() for view, match in views.items()}
    fusion = {view: match.beta[0].double().tolist() for view, match in views.items()}
    interests = model.semantic.interests  # the same in both views
    scores = [sum(part) for part in zip(*parts.values(), strict=True)]
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    ranks = {place: rank for rank, place in enumerate(order, start=1)}
    return tuple(
        TracedCandidate(
            *_id_topic_title(dataset, row),
            rank=ranks[place],
            score=scores[place],
            parts={view: values[place] for view, values in parts.items()},
            fusion={view: dict(zip(interests, beta[place], strict=True)) for view, beta in fusion.items()},
            clicked=None if clicked is None else bool(clicked[place]),
        )
        for place, row in enumerate(candidates)
    )


def _id_topic_title(dataset: Dataset, row: int) -> tuple[str, str, str]:
    return dataset.news_ids[row], dataset.subcategory(row) or dataset.category(row), dataset.titles[row]

"""A few stories and users with features of every kind, for models and for loops."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from batch_cases import leave_out_of_training, make_batch
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import ClickModel, DataShape
from drpn.models.factorisation import Features
from reference.drpn_loops import Weights
from reference.fm_loops import Story, User

WORDS, USERS, CATEGORIES, SUBCATEGORIES = 12, 4, 4, 5

NEWS = {
    "derby": Story(1, 1, 2, [3, 5, 7, 4]),
    "cup": Story(2, 1, 3, [3, 8, 6]),
    "storm": Story(3, 2, 1, [9, 2, 10, 2, 2, 9]),
    "bonds": Story(4, 3, 4, [11]),
    "vote": Story(5, 2, 0, [4, 6, 1, 5, 3], seen=False),
    "untitled": Story(6, 0, 2, []),
    "bare": Story(7, 0, 0, [], seen=False),
}
POSITION = {name: position for position, name in enumerate(NEWS, start=1)}
CANDIDATES = ["derby", "storm", "bonds", "vote", "untitled", "bare"]
SHAPE = DataShape(news=len(NEWS) + 1, words=WORDS, users=USERS, categories=CATEGORIES, subcategories=SUBCATEGORIES)

CLICKED = {
    "ordinary": (1, ["derby", "cup", "storm", "vote"]),
    "one click": (2, ["cup"]),
    "no clicks": (3, []),
    "unknown": (0, ["storm", "bonds"]),
    "unknown, no clicks": (0, []),
    "without features": (1, ["bare"]),
    "duplicates": (2, ["storm", "bonds", "storm", "storm", "untitled"]),
}
READERS = [User(row, [NEWS[name] for name in names]) for row, names in CLICKED.values()]


class Case(NamedTuple):
    """A model with random weights, and the same weights for the loops."""

    model: ClickModel
    weights: Weights


UNMET = [story.row for story in NEWS.values() if not story.seen]
"""Rows of the stories that training did not meet."""


def with_random_weights(model: ClickModel, features: Features, seed: int, *, unmet: Sequence[int] = UNMET) -> Case:
    """All weights are random, including those that start at zero; those of category 0 stay zero."""
    model = model.double().eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7, generator=random)
        for table in (features.category, features.subcategory):
            table.weight[0] = 0
    leave_out_of_training(model, unmet)
    return Case(model, {name: tensor.tolist() for name, tensor in model.state_dict().items()})


def padded(lists: list[list[int]], *, at_the_end: bool = True) -> Tensor:
    width = max(map(len, lists)) + 1
    return torch.tensor(
        [[*row, *[0] * (width - len(row))] if at_the_end else [*[0] * (width - len(row)), *row] for row in lists]
    )


def news_rows() -> NewsRows:
    """The padding row, with features that must not be read, and all stories."""
    news = [Story(0, 1, 1, [1, 2]), *NEWS.values()]
    return NewsRows(
        rows=torch.tensor([story.row for story in news]),
        words=padded([story.words for story in news]),
        neighbours=torch.zeros(len(news), 5, dtype=torch.long),
        category=torch.tensor([story.category for story in news]),
        subcategory=torch.tensor([story.subcategory for story in news]),
    )


def batch_of_all(skipped: list[str] | None = None) -> Batch:
    """All users, each with all candidates."""
    return make_batch(
        users=torch.tensor([row for row, _ in CLICKED.values()]),
        clicked=padded([[POSITION[name] for name in names] for _, names in CLICKED.values()], at_the_end=False),
        skipped=padded([[POSITION[name] for name in skipped or []]] * len(CLICKED)),
        candidates=torch.tensor([[POSITION[name] for name in CANDIDATES]] * len(CLICKED)),
    )


def scores(model: ClickModel, batch: Batch | None = None) -> Tensor:
    return model.score(model.encode_news(news_rows()), batch_of_all() if batch is None else batch)


def close(actual: Tensor, expected: object) -> None:
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-12)

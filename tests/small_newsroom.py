"""A few stories with all their features, and readers who clicked and skipped some of them."""

import torch
from torch import Tensor

from batch_cases import make_batch
from drpn.batches.batch import Batch, NewsRows
from drpn.models.base import ClickModel
from reference.fields_loops import Story

WORDS, CATEGORIES, SUBCATEGORIES = 12, 4, 5

NEWSROOM = {
    "derby": Story([3, 5, 7, 4], 1, 1, 2),
    "cup": Story([3, 8, 6], 2, 1, 3),
    "storm": Story([9, 2, 10, 2], 3, 2, 1),
    "bonds": Story([11], 4, 3, 4),
    "vote": Story([4, 6, 1, 5, 3], 5, 3, 1),
    "untitled": Story([], 6, 2, 2),
    "unseen": Story([5, 9], 7, 1, 2, seen=False),
}
POSITION = {name: position for position, name in enumerate(NEWSROOM, start=1)}
UNSEEN = [story.row for story in NEWSROOM.values() if not story.seen]
CANDIDATES = ["derby", "bonds", "unseen", "untitled"]

READERS = {
    "ordinary": (["derby", "cup", "storm", "vote"], ["bonds", "unseen", "derby"]),
    "one of each": (["cup"], ["bonds"]),
    "no clicks": ([], ["vote", "derby", "storm", "cup", "bonds"]),
    "no skips": (["untitled", "derby"], []),
    "nobody": ([], []),
    "duplicates": (["storm", "bonds", "storm", "storm"], ["unseen", "unseen"]),
}
"""The clicked and skipped stories of each reader, oldest first."""


def padded(lists: list[list[str]], *, at_the_end: bool) -> Tensor:
    """Positions of stories; padding is at the start or at the end."""
    rows = [[POSITION[name] for name in names] for names in lists]
    width = max(map(len, rows)) + 1
    return torch.tensor(
        [[*row, *[0] * (width - len(row))] if at_the_end else [*[0] * (width - len(row)), *row] for row in rows]
    )


def news_rows() -> NewsRows:
    """The padding row, with features that must not be read, and all stories."""
    every = [Story([1, 2], 0, 1, 1), *NEWSROOM.values()]
    width = max(len(story.words) for story in every) + 1
    return NewsRows(
        rows=torch.tensor([story.row for story in every]),
        words=torch.tensor([[*story.words, *[0] * (width - len(story.words))] for story in every]),
        neighbours=torch.zeros(len(every), 5, dtype=torch.long),
        category=torch.tensor([story.category for story in every]),
        subcategory=torch.tensor([story.subcategory for story in every]),
    )


def batch_of(readers: list[tuple[list[str], list[str]]]) -> Batch:
    """The readers, each with all candidates."""
    return make_batch(
        users=torch.ones(len(readers), dtype=torch.long),
        clicked=padded([clicked for clicked, _ in readers], at_the_end=False),
        skipped=padded([skipped for _, skipped in readers], at_the_end=True),
        candidates=torch.tensor([[POSITION[name] for name in CANDIDATES]] * len(readers)),
    )


def everybody() -> Batch:
    """All readers."""
    return batch_of(list(READERS.values()))


def scores(model: ClickModel, batch: Batch) -> Tensor:
    """The score of each candidate."""
    return model.score(model.encode_news(news_rows()), batch)

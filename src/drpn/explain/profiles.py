"""Users' profiles in words, as plain data."""

from dataclasses import dataclass

import numpy as np

from drpn.dataset.folder import Dataset

CAUSES = {
    ("clicked", 1): "interest",
    ("clicked", 0): "accident",
    ("clicked", -1): "accident",
    ("skipped", 1): "missed",
    ("skipped", 0): "indifferent",
    ("skipped", -1): "disliked",
}
"""Why a news was clicked or skipped, by what the user really thought of it."""


@dataclass(frozen=True)
class ProfileStory:
    """One news of a profile."""

    news_id: str
    topic: str
    """Its subcategory, or its category where it has none."""
    title: str
    cause: str = ""
    """Why it was clicked or skipped, where that is known: on simulated logs."""


@dataclass(frozen=True)
class Reader:
    """What a user clicked and skipped, newest first."""

    user_id: str
    clicked: tuple[ProfileStory, ...]
    skipped: tuple[ProfileStory, ...]


def typical_readers(dataset: Dataset, *, least_clicked: int = 4) -> list[int]:
    """Users one quarter, half and three quarters of the way from the shortest to the longest profile.

    Only those who clicked `least_clicked` news or more; where nobody did, those who clicked at all.
    """
    clicked = np.count_nonzero(dataset.clicked, axis=1)
    skipped = np.count_nonzero(dataset.skipped, axis=1)
    eligible = np.flatnonzero(clicked >= least_clicked)
    if not len(eligible):
        eligible = np.flatnonzero(clicked)
    ordered = eligible[np.lexsort((eligible, skipped[eligible], clicked[eligible]))]
    places = dict.fromkeys(len(ordered) * quarter // 4 for quarter in (1, 2, 3))
    return [int(ordered[place]) for place in places] if len(ordered) else []


def reader(dataset: Dataset, user: int) -> Reader:
    """The profile of a user in words."""
    return Reader(dataset.user_ids[user], _side(dataset, "clicked", user), _side(dataset, "skipped", user))


def _side(dataset: Dataset, name: str, user: int) -> tuple[ProfileStory, ...]:
    news = dataset.arrays.array(f"users/{name}")[user]
    truth = f"users/{name}_opinion"
    opinions = dataset.arrays.array(truth)[user].tolist() if truth in dataset.arrays else [None] * len(news)
    found = [
        ProfileStory(
            news_id=dataset.news_ids[row],
            topic=dataset.subcategory(row) or dataset.category(row),
            title=dataset.titles[row],
            cause=CAUSES.get((name, opinion), ""),
        )
        for row, opinion in zip(news.tolist(), opinions, strict=True)
        if row
    ]
    return tuple(reversed(found))

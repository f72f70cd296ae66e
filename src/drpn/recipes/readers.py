"""Users' profiles in words."""

from dataclasses import dataclass

import numpy as np

from drpn.dataset.folder import Dataset


@dataclass(frozen=True)
class ProfileNews:
    """One news of a profile."""

    news_id: str
    category: str
    title: str


@dataclass(frozen=True)
class Reader:
    """What a user clicked and skipped, newest first."""

    user_id: str
    clicked: tuple[ProfileNews, ...]
    skipped: tuple[ProfileNews, ...]


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
    return sorted({int(ordered[len(ordered) * quarter // 4]) for quarter in (1, 2, 3)}) if len(ordered) else []


def reader(dataset: Dataset, user: int) -> Reader:
    """The profile of a user in words."""
    sides = (
        tuple(_news(dataset, int(row)) for row in side[user][::-1] if row)
        for side in (dataset.clicked, dataset.skipped)
    )
    return Reader(dataset.user_ids[user], *sides)


def _news(dataset: Dataset, row: int) -> ProfileNews:
    return ProfileNews(dataset.news_ids[row], dataset.category(row), dataset.titles[row])

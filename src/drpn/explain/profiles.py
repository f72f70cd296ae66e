"""Users' profiles in words, as plain data."""

from dataclasses import dataclass, replace

import numpy as np

from drpn.dataset.folder import Dataset


@dataclass(frozen=True)
class ProfileNews:
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
    places = dict.fromkeys(len(ordered) * quarter // 4 for quarter in (1, 2, 3))
    return [int(ordered[place]) for place in places] if len(ordered) else []


def reader(dataset: Dataset, user: int) -> Reader:
    """The profile of a user in words."""
    sides = (
        tuple(_news(dataset, int(row)) for row in side[user][::-1] if row)
        for side in (dataset.clicked, dataset.skipped)
    )
    return Reader(dataset.user_ids[user], *sides)


def _news(dataset: Dataset, row: int) -> ProfileNews:
    topic = dataset.subcategory(row) or dataset.category(row)
    return ProfileNews(dataset.news_ids[row], topic, dataset.titles[row])


def with_causes(of: Reader, clicked: dict[str, str], skipped: dict[str, str]) -> Reader:
    """The same profile, saying why each news was clicked or skipped; both by news id."""
    return replace(
        of,
        clicked=tuple(replace(news, cause=clicked.get(news.news_id, "")) for news in of.clicked),
        skipped=tuple(replace(news, cause=skipped.get(news.news_id, "")) for news in of.skipped),
    )

"""User profiles as readable plain data: ids, topics and titles."""

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
"""The reason for a click or a skip, by sequence and true opinion."""


@dataclass(frozen=True)
class ProfileStory:
    """One story of a profile."""

    news_id: str
    topic: str
    """The subcategory, or the category of a story without one."""
    title: str
    cause: str = ""
    """The reason for the click or skip, one of `CAUSES`; empty unless the logs are simulated."""


@dataclass(frozen=True)
class Reader:
    """The stories that a user clicked and skipped, newest first."""

    user_id: str
    clicked: tuple[ProfileStory, ...]
    skipped: tuple[ProfileStory, ...]


def typical_readers(dataset: Dataset, *, least_clicked: int = 4) -> list[int]:
    """Return the users at the quartiles of profile length (clicks, then skips).

    Only users with at least `least_clicked` clicks count; if there are none, all users with a click.
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
    """Return the profile of a user (a row of the dataset)."""
    return Reader(dataset.user_ids[user], _side(dataset, "clicked", user), _side(dataset, "skipped", user))


def _side(dataset: Dataset, name: str, user: int) -> tuple[ProfileStory, ...]:
    rows = dataset.arrays.array(f"users/{name}")[user]
    truth = f"users/{name}_opinion"
    opinions = dataset.arrays.array(truth)[user].tolist() if truth in dataset.arrays else [None] * len(rows)
    stories = [
        ProfileStory(
            news_id=dataset.news_ids[row],
            topic=dataset.subcategory(row) or dataset.category(row),
            title=dataset.titles[row],
            cause=CAUSES.get((name, opinion), ""),
        )
        for row, opinion in zip(rows.tolist(), opinions, strict=True)
        if row
    ]
    return tuple(reversed(stories))

"""Profiles as a model reads them, from the ids of their stories."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from drpn.batches.batch import Profiles
from drpn.batches.tables import Tables
from drpn.bundle.catalogue import StoryCatalogue


class StoriesOfUser(Protocol):
    """The row of a user in the bundle (0 if unknown) and the ids of the user's stories, oldest first."""

    @property
    def row(self) -> int: ...
    @property
    def clicked(self) -> Sequence[str]: ...
    @property
    def skipped(self) -> Sequence[str]: ...


def read_profiles(users: Sequence[StoriesOfUser], tables: Tables, stories: StoryCatalogue) -> Profiles:
    """The profiles of some users; their stories are encoded if they are not yet, all together."""
    stories.positions([story for user in users for story in (*user.clicked, *user.skipped)])
    rows = tables.profiles(torch.tensor([user.row for user in users]))  # for the user rows and neighbours
    clicked, skipped = (
        _padded([stories.positions(sequence) for sequence in sequences])
        for sequences in ([user.clicked for user in users], [user.skipped for user in users])
    )
    return Profiles(rows.users, clicked, skipped, rows.neighbours)


def _padded(positions: Sequence[Sequence[int]]) -> Tensor:
    """Positions padded with 0 to at least one column."""
    width = max(1, *map(len, positions))
    return torch.tensor([[*places, *[0] * (width - len(places))] for places in positions], dtype=torch.int64)

"""Impressions to be ranked: batches of similar length, so that little is padding."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from drpn.batches.batch import Batch
from drpn.batches.tables import Tables
from drpn.dataset.folder import Impressions

_WIDER, _FEW = 1.25, 8
"""How much wider than its shortest impression a rectangle may be, in proportion and in candidates."""


class RankingBatch(NamedTuple):
    """Impressions of similar length, and where the scores of each belong among all candidates."""

    batch: Batch
    places: Int[Tensor, "B C"]
    """Index into the flat candidates; -1 at padding."""
    users: Int[Tensor, "B"]
    """Whose they are: rows of the dataset, also of users whom training does not know."""


class Pages(NamedTuple):
    """Impressions of similar length that some users were shown."""

    readers: Int[Tensor, "B"]
    """Which of those users, from 0."""
    candidates: Int[Tensor, "B C"]
    places: Int[Tensor, "B C"]
    """Index into the flat candidates; -1 at padding."""


def ranking_batches(impressions: Impressions, tables: Tables, *, candidates: int) -> Iterator[RankingBatch]:
    """Every impression once, shortest first; each batch holds at most so many candidates, padding counted."""
    device = tables.clicked.device
    shown = _Shown(impressions, device)
    users = torch.from_numpy(np.array(impressions.users)).to(device)
    for which in shown.stretches(np.arange(len(impressions)), candidates):
        rows, places = shown.at(which)
        own = users[torch.from_numpy(which).to(device)]
        yield RankingBatch(tables.batch(own, rows), places, own)


def user_pages(
    impressions: Impressions, device: torch.device, *, users: int, candidates: int
) -> Iterator[tuple[Int[Tensor, "users"], Iterator[Pages]]]:
    """So many users at a time, each user once, and all that they were shown, as pages of at most so many candidates."""
    shown = _Shown(impressions, device)
    everyone, reader = np.unique(np.asarray(impressions.users), return_inverse=True)
    by_user = np.argsort(reader, kind="stable")
    bounds = np.searchsorted(reader[by_user], np.arange(0, len(everyone) + users, users))
    for first, start, stop in zip(range(0, len(everyone), users), bounds[:-1], bounds[1:], strict=True):
        some = torch.from_numpy(everyone[first : first + users]).to(device)
        yield some, _pages(shown, by_user[start:stop], reader, first, candidates)


def _pages(
    shown: "_Shown", own: NDArray[np.int64], reader: NDArray[np.int64], first: int, candidates: int
) -> Iterator[Pages]:
    for which in shown.stretches(own, candidates):
        yield Pages(torch.from_numpy(reader[which] - first).to(shown.flat.device), *shown.at(which))


class _Shown:
    """The candidates of impressions, to be laid out as rectangles."""

    def __init__(self, impressions: Impressions, device: torch.device) -> None:
        self.offsets = np.asarray(impressions.offsets)
        self.sizes = np.diff(self.offsets)
        self.flat = torch.from_numpy(np.append(np.asarray(impressions.candidates), 0)).to(device)  # the last: padding

    def stretches(self, which: NDArray[np.int64], candidates: int) -> Iterator[NDArray[np.int64]]:
        """Some impressions, the shortest first, in rectangles of at most so many candidates."""
        order = which[np.argsort(self.sizes[which], kind="stable")]
        sizes = self.sizes[order]
        start = 0
        while start < len(order):
            # sizes rise along the order, so the last of a stretch is its widest; it has little padding in the others
            alike = int(np.searchsorted(sizes, sizes[start] * _WIDER + _FEW, side="right"))
            reach = min(start + 1 + candidates // max(sizes[start], 1), alike)
            area = np.arange(1, reach + 1 - start) * sizes[start:reach]
            stop = start + max(int(np.searchsorted(area, candidates, side="right")), 1)
            yield order[start:stop]
            start = stop

    def at(self, which: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The candidates of impressions of similar length, and their places."""
        slots = np.arange(max(int(self.sizes[which].max(initial=0)), 1))
        places = np.where(slots < self.sizes[which, None], self.offsets[which, None] + slots, -1)
        at = torch.from_numpy(places).to(self.flat.device)
        return self.flat[at], at

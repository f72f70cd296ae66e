"""Impressions to be ranked, in batches of similar length, so that there is little padding."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from drpn.batches.batch import RowBatch
from drpn.batches.tables import Tables, seconds
from drpn.dataset.folder import Impressions

_WIDER, _EXTRA = 1.25, 8
"""How much longer than the shortest the longest impression of a batch may be: a factor, and extra candidates."""


class RankingBatch(NamedTuple):
    """Impressions of similar length."""

    batch: RowBatch
    flat_index: Int[Tensor, "B C"]
    """Index of each candidate among all candidates of the split; -1 for padding."""
    users: Int[Tensor, "B"]
    """Rows of the users, including those without a training sample."""


class Pages(NamedTuple):
    """Impressions of similar length that were shown to some users."""

    readers: Int[Tensor, "B"]
    """Index of each impression's user among those users."""
    candidates: Int[Tensor, "B C"]
    flat_index: Int[Tensor, "B C"]
    """Index of each candidate among all candidates of the split; -1 for padding."""
    moments: Int[Tensor, "B"]


def ranking_batches(impressions: Impressions, tables: Tables, *, candidates: int) -> Iterator[RankingBatch]:
    """Every impression once, shortest first; a batch has at most `candidates` candidates, padding included."""
    device = tables.clicked.device
    shown = _Shown(impressions, device)
    users = torch.from_numpy(np.array(impressions.users)).to(device)
    for which in shown.batches(np.arange(len(impressions)), candidates):
        rows, index, moments = shown.at(which)
        batch_users = users[torch.from_numpy(which).to(device)]
        yield RankingBatch(tables.batch(batch_users, rows, moments), index, batch_users)


def user_pages(
    impressions: Impressions, device: torch.device, *, users: int, candidates: int
) -> Iterator[tuple[Int[Tensor, "users"], Iterator[Pages]]]:
    """Each user once, `users` at a time, with all their impressions in batches of at most `candidates` candidates."""
    shown = _Shown(impressions, device)
    everyone, reader = np.unique(np.asarray(impressions.users), return_inverse=True)
    by_user = np.argsort(reader, kind="stable")
    bounds = np.searchsorted(reader[by_user], np.arange(0, len(everyone) + users, users))
    for first, start, stop in zip(range(0, len(everyone), users), bounds[:-1], bounds[1:], strict=True):
        chunk = torch.from_numpy(everyone[first : first + users]).to(device)
        yield chunk, _pages(shown, by_user[start:stop], reader, first, candidates)


def _pages(
    shown: "_Shown", impressions: NDArray[np.int64], reader: NDArray[np.int64], first: int, candidates: int
) -> Iterator[Pages]:
    for which in shown.batches(impressions, candidates):
        yield Pages(torch.from_numpy(reader[which] - first).to(shown.flat.device), *shown.at(which))


class _Shown:
    """The candidates of impressions, to be laid out as rectangles."""

    def __init__(self, impressions: Impressions, device: torch.device) -> None:
        self.offsets = np.asarray(impressions.offsets)
        self.sizes = np.diff(self.offsets)
        self.flat = torch.from_numpy(np.append(np.asarray(impressions.candidates), 0)).to(device)  # last: padding
        self.moments = seconds(impressions.times).to(device)

    def batches(self, which: NDArray[np.int64], candidates: int) -> Iterator[NDArray[np.int64]]:
        """The impressions `which`, shortest first, in rectangles of at most `candidates` candidates."""
        order = which[np.argsort(self.sizes[which], kind="stable")]
        sizes = self.sizes[order]
        start = 0
        while start < len(order):
            # sizes rise along the order, so the last impression of a rectangle is its longest
            similar = int(np.searchsorted(sizes, sizes[start] * _WIDER + _EXTRA, side="right"))
            limit = min(start + 1 + candidates // max(sizes[start], 1), similar)
            area = np.arange(1, limit + 1 - start) * sizes[start:limit]
            stop = start + max(int(np.searchsorted(area, candidates, side="right")), 1)
            yield order[start:stop]
            start = stop

    def at(self, which: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """The candidates of impressions of similar length, their index among all candidates, and the moments."""
        slots = np.arange(max(int(self.sizes[which].max(initial=0)), 1))
        index = np.where(slots < self.sizes[which, None], self.offsets[which, None] + slots, -1)
        at = torch.from_numpy(index).to(self.flat.device)
        return self.flat[at], at, self.moments[torch.from_numpy(which).to(self.flat.device)]

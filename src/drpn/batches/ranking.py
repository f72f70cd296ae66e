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
    shown = _Shown(impressions, tables.clicked.device)
    for which, width in shown.rectangles(np.arange(len(impressions)), candidates):
        rows, index = shown.candidates(which, width)
        users = shown.users[which]
        yield RankingBatch(tables.batch(users, rows, shown.moments[which]), index, users)


def user_pages(
    impressions: Impressions, device: torch.device, *, users: int, candidates: int
) -> Iterator[tuple[Int[Tensor, "users"], Iterator[Pages]]]:
    """Each user once, `users` at a time, with all their impressions in batches of at most `candidates` candidates."""
    shown = _Shown(impressions, device)
    everyone, reader = np.unique(np.asarray(impressions.users), return_inverse=True)
    readers = torch.from_numpy(reader).to(device)
    by_user = np.argsort(reader, kind="stable")
    bounds = np.searchsorted(reader[by_user], np.arange(0, len(everyone) + users, users))
    for first, start, stop in zip(range(0, len(everyone), users), bounds[:-1], bounds[1:], strict=True):
        chunk = torch.from_numpy(everyone[first : first + users]).to(device)
        yield chunk, _pages(shown, by_user[start:stop], readers, first, candidates)


def _pages(
    shown: "_Shown", impressions: NDArray[np.int64], readers: Int[Tensor, "impressions"], first: int, candidates: int
) -> Iterator[Pages]:
    for which, width in shown.rectangles(impressions, candidates):
        yield Pages(readers[which] - first, *shown.candidates(which, width), shown.moments[which])


class _Shown:
    """The candidates of impressions, to be laid out as rectangles, whose impressions are chosen on the CPU."""

    def __init__(self, impressions: Impressions, device: torch.device) -> None:
        self.sizes = np.diff(np.asarray(impressions.offsets))
        self.users = torch.from_numpy(np.array(impressions.users)).to(device)
        self.moments = seconds(impressions.times).to(device)
        self._offsets = torch.from_numpy(np.array(impressions.offsets)).to(device)
        flat = np.append(np.asarray(impressions.candidates), 0)  # the last is padding
        self._flat = torch.from_numpy(flat).to(device)

    def rectangles(self, which: NDArray[np.int64], candidates: int) -> Iterator[tuple[Int[Tensor, "B"], int]]:
        """Some impressions, shortest first, in rectangles of at most `candidates` candidates, and the widths."""
        order = which[np.argsort(self.sizes[which], kind="stable")]
        sizes = self.sizes[order]
        ordered = torch.from_numpy(order).to(self._flat.device)
        start = 0
        while start < len(order):
            # sizes rise along the order, so the last impression of a rectangle is its longest
            similar = int(np.searchsorted(sizes, sizes[start] * _WIDER + _EXTRA, side="right"))
            limit = min(start + 1 + candidates // max(sizes[start], 1), similar)
            area = np.arange(1, limit + 1 - start) * sizes[start:limit]
            stop = start + max(int(np.searchsorted(area, candidates, side="right")), 1)
            yield ordered[start:stop], max(int(sizes[stop - 1]), 1)
            start = stop

    def candidates(self, which: Int[Tensor, "B"], width: int) -> tuple[Int[Tensor, "B C"], Int[Tensor, "B C"]]:
        """The candidates of a rectangle of impressions, and their index among all candidates; -1 for padding."""
        start, stop = self._offsets[which, None], self._offsets[which + 1, None]
        index = start + torch.arange(width, device=start.device)
        index = torch.where(index < stop, index, -1)
        return self._flat[index], index

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
    users = torch.from_numpy(np.array(impressions.users)).to(tables.clicked.device)
    readers = torch.from_numpy(impressions.readers).to(tables.clicked.device)
    shown = _Shown(impressions, tables.clicked.device)
    ordered, rectangles = shown.order(np.arange(len(impressions)), candidates)
    for rectangle in rectangles:
        rows, index, moments = ordered.layout(rectangle)
        which = ordered.which[rectangle.start : rectangle.stop]
        pairs = (index + impressions.first_pair).clamp_min(0)
        yield RankingBatch(tables.batch(readers[which], rows, moments, pairs), index, users[which])


def user_pages(
    impressions: Impressions, device: torch.device, *, users: int, candidates: int
) -> Iterator[tuple[Int[Tensor, "users"], Iterator[Pages]]]:
    """Each reader once, `users` at a time, with all their impressions in batches of at most `candidates` candidates."""
    shown = _Shown(impressions, device)
    everyone, reader = np.unique(impressions.readers, return_inverse=True)
    readers = torch.from_numpy(reader).to(device)
    by_user = np.argsort(reader, kind="stable")
    bounds = np.searchsorted(reader[by_user], np.arange(0, len(everyone) + users, users))
    for first, start, stop in zip(range(0, len(everyone), users), bounds[:-1], bounds[1:], strict=True):
        chunk = torch.from_numpy(everyone[first : first + users]).to(device)
        yield chunk, _pages(shown, by_user[start:stop], readers, first, candidates)


def _pages(
    shown: "_Shown", impressions: NDArray[np.int64], readers: Int[Tensor, "impressions"], first: int, candidates: int
) -> Iterator[Pages]:
    ordered, rectangles = shown.order(impressions, candidates)
    readers = readers[ordered.which] - first
    for rectangle in rectangles:
        yield Pages(readers[rectangle.start : rectangle.stop], *ordered.layout(rectangle))


class _Rectangle(NamedTuple):
    """Consecutive impressions of an order, which are padded to the same number of candidates."""

    start: int
    stop: int
    width: int


class _Ordered(NamedTuple):
    """Impressions by length, on the device of the data."""

    which: Int[Tensor, "impressions"]
    first: Int[Tensor, "impressions 1"]
    """Index of the first candidate of each impression among all candidates."""
    end: Int[Tensor, "impressions 1"]
    moments: Int[Tensor, "impressions"]
    candidates: Int[Tensor, "candidates"]
    """The candidates of all impressions, then one that is padding."""

    def layout(self, part: _Rectangle) -> tuple[Int[Tensor, "B C"], Int[Tensor, "B C"], Int[Tensor, "B"]]:
        """The candidates of a rectangle, their index among all candidates (-1 for padding), and the moments."""
        start, stop, width = part
        index = self.first[start:stop] + torch.arange(width, device=self.first.device)
        index = torch.where(index < self.end[start:stop], index, -1)
        return self.candidates[index], index, self.moments[start:stop]


class _Shown:
    """The candidates of impressions, which are laid out as rectangles of similar length."""

    def __init__(self, impressions: Impressions, device: torch.device) -> None:
        offsets = np.asarray(impressions.offsets)
        self._sizes: NDArray[np.int64] = offsets[1:] - offsets[:-1]
        self._offsets = torch.from_numpy(np.array(impressions.offsets)).to(device).unsqueeze(1)
        self._moments = seconds(impressions.times).to(device)
        self._candidates = torch.from_numpy(np.append(np.asarray(impressions.candidates), 0)).to(device)

    def order(self, which: NDArray[np.int64], candidates: int) -> tuple[_Ordered, list[_Rectangle]]:
        """Some impressions, shortest first, and rectangles of at most `candidates` candidates that cover them."""
        which = which[np.argsort(self._sizes[which], kind="stable")]
        at = torch.from_numpy(which).to(self._offsets.device)
        ordered = _Ordered(at, self._offsets[at], self._offsets[at + 1], self._moments[at], self._candidates)
        return ordered, list(_rectangles(self._sizes[which], candidates))


def _rectangles(sizes: NDArray[np.int64], candidates: int) -> Iterator[_Rectangle]:
    """Rectangles of impressions whose sizes rise, so that the last impression of each is its longest."""
    start = 0
    while start < len(sizes):
        similar = int(np.searchsorted(sizes, sizes[start] * _WIDER + _EXTRA, side="right"))
        limit = min(start + 1 + candidates // max(sizes[start], 1), similar)
        area = np.arange(1, limit + 1 - start) * sizes[start:limit]
        stop = start + max(int(np.searchsorted(area, candidates, side="right")), 1)
        yield _Rectangle(start, stop, max(int(sizes[stop - 1]), 1))
        start = stop

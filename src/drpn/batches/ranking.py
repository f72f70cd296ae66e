"""Impressions to be ranked: batches of similar length, so that little is padding."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.batches.batch import Batch
from drpn.batches.tables import Tables
from drpn.dataset.folder import Impressions


class RankingBatch(NamedTuple):
    """Impressions of similar length, and where the scores of each belong among all candidates."""

    batch: Batch
    places: torch.Tensor
    """(B, C): index into the flat candidates; -1 at padding."""


def ranking_batches(impressions: Impressions, tables: Tables, *, candidates: int) -> Iterator[RankingBatch]:
    """Every impression once, shortest first; each batch holds at most so many candidates, padding counted."""
    device = tables.clicked.device
    offsets = np.asarray(impressions.offsets)
    sizes = np.diff(offsets)
    order = np.argsort(sizes, kind="stable")
    flat = torch.from_numpy(np.array(impressions.candidates)).to(device)
    users = torch.from_numpy(np.array(impressions.users)).to(device)
    for which in _stretches(order, sizes, candidates):
        width = max(int(sizes[which[-1]]), 1)
        slots = np.arange(width)
        places = np.where(slots < sizes[which, None], offsets[which, None] + slots, -1)
        at = torch.from_numpy(places).to(device)
        shown = torch.where(at >= 0, flat[at.clamp(min=0)], 0) if len(flat) else torch.zeros_like(at)
        yield RankingBatch(tables.batch(users[torch.from_numpy(which).to(device)], shown), at)


def _stretches(order: NDArray[np.int64], sizes: NDArray[np.int64], candidates: int) -> Iterator[NDArray[np.int64]]:
    start = 0
    while start < len(order):
        # sizes rise along the order, so the last of a stretch is its widest
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * sizes[order[stop]] <= candidates:
            stop += 1
        yield order[start:stop]
        start = stop

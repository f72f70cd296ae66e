"""Samples to train on: each click with some of what was skipped in the same impression."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from drpn.batches.batch import Batch
from drpn.batches.tables import Tables
from drpn.dataset.folder import Impressions


@dataclass(frozen=True)
class Clicks:
    """Every click of a split, and where the skipped news of its impression stand."""

    users: Int[Tensor, "clicks"]
    news: Int[Tensor, "clicks"]
    first_skip: Int[Tensor, "clicks"]
    skips: Int[Tensor, "clicks"]
    skipped: Int[Tensor, "shown"]
    """The skipped news of all impressions, one impression after the other."""

    @classmethod
    def of(cls, impressions: Impressions, device: torch.device) -> "Clicks":
        """The clicks of impressions that have a skip too."""
        clicked, skipped = np.asarray(impressions.clicked), impressions.skipped
        sizes = np.diff(impressions.offsets)
        impression = np.repeat(np.arange(len(sizes)), sizes)
        skips = np.bincount(impression[skipped], minlength=len(sizes))
        first = np.concatenate([[0], np.cumsum(skips)[:-1]])
        of = impression[clicked]
        keep = skips[of] > 0
        of = of[keep]
        candidates = np.asarray(impressions.candidates)
        columns = (impressions.users[of], candidates[clicked][keep], first[of], skips[of], candidates[skipped])
        return cls(*(torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns))

    def __len__(self) -> int:
        return len(self.users)


class Plan(NamedTuple):
    """The samples of one pass in their order; the first candidate of each is the click."""

    users: Int[Tensor, "clicks"]
    candidates: Int[Tensor, "clicks C"]

    def batches(self, size: int, start: int = 0) -> Iterator[tuple[Int[Tensor, "B"], Int[Tensor, "B C"]]]:
        """So many samples at a time, from the `start`-th batch on; the last may be smaller."""
        for first in range(start * size, len(self.users), size):
            yield self.users[first : first + size], self.candidates[first : first + size]


@dataclass(frozen=True)
class Sampler:
    """Batches of samples in an order that seed and pass alone decide, so that a run can be taken up anywhere."""

    clicks: Clicks
    tables: Tables
    batch_size: int
    negatives: int
    seed: int

    def __len__(self) -> int:
        """Batches of one pass."""
        return -(-len(self.clicks) // self.batch_size)

    def plan(self, epoch: int) -> Plan:
        """Every click once, with skips of its impression drawn anew."""
        device = self.clicks.users.device
        chance = _generator(self.seed, epoch)  # of a CPU: the same on every device
        order = torch.randperm(len(self.clicks), generator=chance).to(device)
        uniform = torch.rand(len(order), self.negatives, generator=chance, dtype=torch.float64).to(device)
        candidates = torch.cat([self.clicks.news[order, None], self._skips(order, uniform)], dim=1)
        return Plan(self.clicks.users[order], candidates)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of a pass from the `start`-th on."""
        for users, candidates in self.plan(epoch).batches(self.batch_size, start):
            yield self.tables.batch(users, candidates)

    def _skips(self, which: Int[Tensor, "B"], uniform: Float[Tensor, "B K"]) -> Int[Tensor, "B K"]:
        """Different skips of each impression, 0 where it has too few (Floyd: a draw without replacement)."""
        counts = self.clicks.skips[which]
        drawn = torch.full((len(which), self.negatives), -1, dtype=torch.int64, device=which.device)
        for slot in range(self.negatives):
            last = counts - self.negatives + slot  # the largest place this slot may draw
            pick = (uniform[:, slot] * (last + 1)).long()
            pick = torch.where((drawn == pick[:, None]).any(1), last, pick)
            # with fewer skips than slots, the first slots stay empty and the others take what there is
            drawn[:, slot] = torch.where(last >= 0, pick, -1)
        places = self.clicks.first_skip[which, None] + drawn.clamp(min=0)
        return torch.where(drawn >= 0, self.clicks.skipped[places], 0)


def _generator(seed: int, epoch: int) -> torch.Generator:
    state = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> 1))

"""Training samples: each click with some skipped stories of the same impression."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from drpn.batches.batch import RowBatch
from drpn.batches.tables import Tables, seconds
from drpn.dataset.folder import Impressions


@dataclass(frozen=True)
class Clicks:
    """Every click of a split, and where the skipped stories of its impression are."""

    readers: Int[Tensor, "clicks"]
    """Rows of the profiles: those of users or, with the live protocol, of impressions."""
    news: Int[Tensor, "clicks"]
    first_skip: Int[Tensor, "clicks"]
    """Index into `skipped` of the first skip of the click's impression."""
    skips: Int[Tensor, "clicks"]
    """How many skips the impression has."""
    skipped: Int[Tensor, "shown"]
    """The skipped stories of all impressions, impression by impression."""
    moments: Int[Tensor, "clicks"]
    """Seconds since 1970."""
    pair: Int[Tensor, "clicks"]
    """Index of the click among the candidates of all impressions."""
    skipped_pairs: Int[Tensor, "shown"]
    """The same of each skipped story."""
    skip_readers: Int[Tensor, "shown"]
    """The reader of each skipped story."""

    @classmethod
    def from_impressions(cls, impressions: Impressions, device: torch.device) -> "Clicks":
        """The clicks of impressions that also have a skip."""
        clicked, skipped = np.asarray(impressions.clicked), impressions.skipped
        sizes = np.diff(impressions.offsets)
        impression = np.repeat(np.arange(len(sizes)), sizes)
        skips = np.bincount(impression[skipped], minlength=len(sizes))
        first = np.concatenate([[0], np.cumsum(skips)[:-1]])
        of_click = impression[clicked]
        keep = skips[of_click] > 0
        of_click = of_click[keep]
        candidates = np.asarray(impressions.candidates)
        columns = (
            impressions.readers[of_click],
            candidates[clicked][keep],
            first[of_click],
            skips[of_click],
            candidates[skipped],
        )
        tensors = [torch.from_numpy(np.ascontiguousarray(column)) for column in columns]
        tensors.append(seconds(impressions.times[of_click]))
        pairs = (np.flatnonzero(clicked)[keep], np.flatnonzero(skipped))
        tensors += [torch.from_numpy(impressions.first_pair + which) for which in pairs]
        tensors.append(torch.from_numpy(impressions.readers[impression[skipped]]))
        return cls(*(tensor.to(device) for tensor in tensors))

    @classmethod
    def join(cls, parts: "Sequence[Clicks]") -> "Clicks":
        """The clicks of several splits."""
        joined = {field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        shifts = np.cumsum([0, *(len(part.skipped) for part in parts[:-1])])
        joined["first_skip"] = torch.cat(
            [part.first_skip + int(shift) for part, shift in zip(parts, shifts, strict=True)]
        )
        return cls(**joined)

    def __len__(self) -> int:
        return len(self.readers)


class Plan(NamedTuple):
    """The samples of one epoch in their order; the first candidate of each is the click."""

    readers: Int[Tensor, "clicks"]
    candidates: Int[Tensor, "clicks C"]
    moments: Int[Tensor, "clicks"]
    pairs: Int[Tensor, "clicks C"]
    """Index of each candidate among the candidates of all impressions."""

    def batches(self, size: int, start: int = 0) -> Iterator["Plan"]:
        """The samples in batches of `size`, from batch number `start` on; the last may be smaller."""
        for first in range(start * size, len(self.readers), size):
            yield Plan(*(column[first : first + size] for column in self))


@dataclass(frozen=True)
class Sampler:
    """Batches of samples; seed and epoch alone decide their order, so that a run can be resumed at any step."""

    clicks: Clicks
    tables: Tables
    batch_size: int
    negatives: int
    seed: int

    def __len__(self) -> int:
        """Batches per epoch."""
        return -(-len(self.clicks) // self.batch_size)

    def plan(self, epoch: int) -> Plan:
        """Every click once, with skips of its impression drawn for this epoch."""
        device = self.clicks.readers.device
        generator = seeded(self.seed, epoch)  # on the CPU: the same draws for every device
        order = torch.randperm(len(self.clicks), generator=generator).to(device)
        uniform = torch.rand(len(order), self.negatives, generator=generator, dtype=torch.float64).to(device)
        drawn, index = self._draw_skips(order, uniform)
        skipped = torch.where(drawn, self.clicks.skipped[index], 0)
        candidates = torch.cat([self.clicks.news[order, None], skipped], dim=1)
        pairs = torch.cat([self.clicks.pair[order, None], self.clicks.skipped_pairs[index]], dim=1)
        return Plan(self.clicks.readers[order], candidates, self.clicks.moments[order], pairs)

    def batches(self, epoch: int, start: int = 0) -> Iterator[RowBatch]:
        """The batches of an epoch, from batch number `start` on."""
        for part in self.plan(epoch).batches(self.batch_size, start):
            yield self.tables.batch(*part)

    def _draw_skips(
        self, which: Int[Tensor, "B"], uniform: Float[Tensor, "B K"]
    ) -> tuple[Bool[Tensor, "B K"], Int[Tensor, "B K"]]:
        """Distinct skips of each impression (Floyd's draw without replacement): whether there is one, and its index."""
        counts = self.clicks.skips[which]
        drawn = torch.full((len(which), self.negatives), -1, dtype=torch.int64, device=which.device)
        for slot in range(self.negatives):
            last = counts - self.negatives + slot  # the largest index this slot may draw
            pick = (uniform[:, slot] * (last + 1)).long()
            pick = torch.where((drawn == pick[:, None]).any(1), last, pick)
            # with fewer skips than slots, the first slots stay empty and the others take all skips
            drawn[:, slot] = torch.where(last >= 0, pick, -1)
        index = self.clicks.first_skip[which, None] + drawn.clamp(min=0)
        return drawn >= 0, index


def seeded(*numbers: int) -> torch.Generator:
    """A generator on the CPU whose draws the numbers decide, such as a seed and an epoch."""
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> 1))

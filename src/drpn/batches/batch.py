"""What a model is given: some news, and impressions that point into them. Row and position 0 are padding."""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class NewsRows:
    """What is known of some news by themselves; the first is padding."""

    rows: Int[Tensor, "U"]
    """Their rows in the dataset; 0 for padding and for news that came after it."""
    words: Int[Tensor, "U W"]
    neighbours: Int[Tensor, "U K"]
    """Rows in the dataset of their graph neighbours."""
    category: Int[Tensor, "U"]
    subcategory: Int[Tensor, "U"]
    seen: Bool[Tensor, "U"]
    """Shown in the profile window or while training."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Int[Tensor, "V"] | slice) -> "NewsRows":
        return NewsRows(*(getattr(self, field.name)[which] for field in fields(self)))

    def to(self, device: torch.device) -> "NewsRows":
        """The same on another device."""
        return NewsRows(*(getattr(self, field.name).to(device) for field in fields(self)))


@dataclass(frozen=True)
class Batch:
    """Impressions; clicked, skipped and candidates are positions into the news that come with them."""

    users: Int[Tensor, "B"]
    clicked: Int[Tensor, "B H"]
    skipped: Int[Tensor, "B N"]
    candidates: Int[Tensor, "B C"]

    @property
    def clicked_mask(self) -> Bool[Tensor, "B H"]:
        """True where there is a clicked news."""
        return self.clicked != 0

    @property
    def skipped_mask(self) -> Bool[Tensor, "B N"]:
        """True where there is a skipped news."""
        return self.skipped != 0

    @property
    def candidate_mask(self) -> Bool[Tensor, "B C"]:
        """True where there is a candidate."""
        return self.candidates != 0

    def __len__(self) -> int:
        return len(self.users)

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(*(getattr(self, field.name).to(device) for field in fields(self)))


def distinct(batch: Batch, *, news: int, capacity: int | None = None) -> tuple[Int[Tensor, "U"], Batch]:
    """The distinct news of a batch whose positions are rows of the dataset, and the batch pointing into them.

    `news` is the number of rows that the dataset has. With a `capacity` there are always so many, padding behind those
    of the batch: nothing then waits for a count. It must be enough (`count_distinct`).
    """
    there = _there(batch, news)
    local = there.cumsum(0, dtype=torch.int32) - 1
    if capacity is None:
        rows = there.nonzero().squeeze(1)
    else:
        places = torch.where(there, local, capacity)  # one place more, for all that are not there
        rows = places.new_zeros(capacity + 1, dtype=torch.int64)
        rows = rows.scatter_(0, places.long(), torch.arange(news, device=rows.device))[:capacity]
    clicked, skipped, candidates = (local[part] for part in (batch.clicked, batch.skipped, batch.candidates))
    return rows, Batch(batch.users, clicked, skipped, candidates)


def count_distinct(batch: Batch, *, news: int) -> Int[Tensor, ""]:
    """How many distinct news a batch has, padding counted."""
    return _there(batch, news).sum()


def _there(batch: Batch, news: int) -> Bool[Tensor, "news"]:
    """Which rows of the dataset the batch holds; padding always."""
    there = torch.zeros(news, dtype=torch.bool, device=batch.candidates.device)
    there[:1] = True
    for part in (batch.clicked, batch.skipped, batch.candidates):
        there.index_fill_(0, part.flatten().long(), True)
    return there


Scores = Float[Tensor, "B C"]

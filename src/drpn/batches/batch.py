"""What a model is given: some news, and impressions that point into them. Row and position 0 are padding."""

from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_NOTHING = torch.zeros(0, 0, dtype=torch.int64)
"""In place of what is not given."""


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
    entities: Int[Tensor, "U E"] = _NOTHING
    """Entities of their titles; without a column where the dataset has none, as the two below."""
    abstract: Int[Tensor, "U A"] = _NOTHING
    """Words of their abstracts."""
    places: Int[Tensor, "U K"] = _NOTHING
    """Where their graph neighbours stand among the news that come along; 0 where they do not."""

    def __post_init__(self) -> None:
        _without_columns(self, "entities", "abstract", "places")

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: Int[Tensor, "V"] | slice) -> "NewsRows":
        """Some of them, with places among all."""
        return NewsRows(*(getattr(self, field.name)[which] for field in fields(self)))

    def __getitem__(self, which: Int[Tensor, "V"] | slice) -> "NewsRows":
        """Some of them: a stretch, with places among all, or those at some positions, with places among themselves."""
        some = self.part(which)
        if isinstance(which, slice) or not some.places.numel():
            return some
        among = self.places.new_zeros(len(self))
        among[which] = torch.arange(len(which), dtype=among.dtype, device=among.device)
        among[:1] = 0  # padding may stand at many positions
        return replace(some, places=among[some.places])

    def to(self, device: torch.device) -> "NewsRows":
        """The same on another device."""
        return NewsRows(*(getattr(self, field.name).to(device) for field in fields(self)))


@dataclass(frozen=True)
class Batch:
    """Impressions; clicked, skipped and candidates are positions into the news that come with them."""

    users: Int[Tensor, "B"]
    """Their rows in the dataset; 0 for users that no training sample has."""
    clicked: Int[Tensor, "B H"]
    skipped: Int[Tensor, "B N"]
    candidates: Int[Tensor, "B C"]
    neighbours: Int[Tensor, "B M"] = _NOTHING
    """Rows of the users who clicked the most of the same news; without a column where the dataset has none."""

    def __post_init__(self) -> None:
        _without_columns(self, "neighbours")

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


def distinct(
    batch: Batch, *, news: int, capacity: int | None = None, reach: Int[Tensor, "news K"] | None = None
) -> tuple[Int[Tensor, "U"], Batch]:
    """The distinct news of a batch whose positions are rows of the dataset, and the batch pointing into them.

    `news` is the number of rows that the dataset has. With a `capacity` there are always so many, padding behind those
    of the batch: nothing then waits for a count. It must be enough
    (`count_distinct_stories`). `reach` names for each news others that come along where it is a candidate.
    """
    there = _there(batch, news, reach)
    local = there.cumsum(0, dtype=torch.int32) - 1
    if capacity is None:
        rows = there.nonzero().squeeze(1)
    else:
        places = torch.where(there, local, capacity)  # one place more, for all that are not there
        rows = places.new_zeros(capacity + 1, dtype=torch.int64)
        rows = rows.scatter_(0, places.long(), torch.arange(news, device=rows.device))[:capacity]
    clicked, skipped, candidates = (local[part] for part in (batch.clicked, batch.skipped, batch.candidates))
    return rows, replace(batch, clicked=clicked, skipped=skipped, candidates=candidates)


def count_distinct_stories(batch: Batch, *, news: int, reach: Int[Tensor, "news K"] | None = None) -> Int[Tensor, ""]:
    """How many distinct news a batch has, padding and what it reaches counted."""
    return _there(batch, news, reach).sum()


def _there(batch: Batch, news: int, reach: Int[Tensor, "news K"] | None) -> Bool[Tensor, "news"]:
    """Which rows of the dataset the batch holds or reaches; padding always."""
    there = torch.zeros(news, dtype=torch.bool, device=batch.candidates.device)
    there[:1] = True
    for part in (batch.clicked, batch.skipped, batch.candidates):
        there.index_fill_(0, part.flatten().long(), True)
    if reach is not None and reach.shape[1]:
        there.index_fill_(0, reach[batch.candidates].flatten().long(), True)
    return there


def _without_columns(rows: NewsRows | Batch, *names: str) -> None:
    """What was not given is there, with no column."""
    for name in names:
        if getattr(rows, name) is _NOTHING:
            first: Tensor = getattr(rows, fields(rows)[0].name)
            object.__setattr__(rows, name, first.new_zeros(len(first), 0))


Scores = Float[Tensor, "B C"]

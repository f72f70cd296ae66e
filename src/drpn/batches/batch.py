"""The input of a model: stories, profiles of users, and candidates to score.

There are two kinds of batches. `RowBatch` and `ProfileRows` hold rows of the dataset. `Batch` and `Profiles` hold
positions into a table of encoded stories. `distinct_stories` turns the first into the second. Row 0 and position 0 are
padding everywhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_ABSENT = torch.zeros(0, 0, dtype=torch.int64)
"""Default of optional fields; replaced by a tensor without columns."""

Self = TypeVar("Self", bound="TensorFields")


class TensorFields:
    """Base of dataclasses whose fields are tensors, or dataclasses of this kind."""

    def map_tensors(self: Self, function: Callable[[Tensor], Tensor]) -> Self:
        """A copy with `function` applied to every tensor, in the order of the fields."""
        values = (getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]
        return type(self)(
            *(value.map_tensors(function) if isinstance(value, TensorFields) else function(value) for value in values)
        )

    def to(self: Self, device: torch.device) -> Self:
        """A copy on another device."""
        return self.map_tensors(lambda tensor: tensor.to(device))

    def _fill_absent(self, like: Tensor, *names: str) -> None:
        """Replace optional fields that were not given by tensors without columns."""
        for name in names:
            if getattr(self, name) is _ABSENT:
                object.__setattr__(self, name, like.new_zeros(len(like), 0))


@dataclass(frozen=True)
class NewsRows(TensorFields):
    """Features of stories, which do not depend on a user; the first story is padding."""

    rows: Int[Tensor, "U"]
    """Rows of the stories in the dataset; 0 for padding and for stories that came after it."""
    words: Int[Tensor, "U W"]
    neighbours: Int[Tensor, "U K"]
    """Rows in the dataset of their graph neighbours."""
    category: Int[Tensor, "U"]
    subcategory: Int[Tensor, "U"]
    entities: Int[Tensor, "U W"] = _ABSENT
    """The entity that each word names, 0 for none; no columns if the dataset has none, as for the next two."""
    abstract: Int[Tensor, "U A"] = _ABSENT
    """Words of the abstracts."""
    neighbour_positions: Int[Tensor, "U K"] = _ABSENT
    """Positions of the graph neighbours among these stories; 0 for a neighbour that is not one of them."""

    def __post_init__(self) -> None:
        self._fill_absent(self.rows, "entities", "abstract", "neighbour_positions")

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, which: Int[Tensor, "V"] | slice) -> "NewsRows":
        """Some of the stories; `neighbour_positions` still point into all of them."""
        return self.map_tensors(lambda tensor: tensor[which])

    def select(self, which: Int[Tensor, "V"]) -> "NewsRows":
        """Some of the stories; `neighbour_positions` point into the selection."""
        part = self.part(which)
        if not part.neighbour_positions.numel():
            return part
        position = self.neighbour_positions.new_zeros(len(self))
        position[which] = torch.arange(len(which), dtype=position.dtype, device=position.device)
        position[:1] = 0  # padding may be selected several times
        return replace(part, neighbour_positions=position[part.neighbour_positions])


@dataclass(frozen=True)
class _Sequences(TensorFields):
    users: Int[Tensor, "B"]
    """Rows of the users in the dataset; 0 for users without a training sample."""
    clicked: Int[Tensor, "B H"]
    skipped: Int[Tensor, "B N"]
    neighbours: Int[Tensor, "B M"] = _ABSENT
    """Rows of the users who clicked the most of the same stories; no columns if the dataset has none."""

    def __post_init__(self) -> None:
        self._fill_absent(self.users, "neighbours")

    @property
    def clicked_mask(self) -> Bool[Tensor, "B H"]:
        """True for a clicked story, False for padding."""
        return self.clicked != 0

    @property
    def skipped_mask(self) -> Bool[Tensor, "B N"]:
        """True for a skipped story, False for padding."""
        return self.skipped != 0

    def sequences(self, names: Sequence[str]) -> dict[str, Int[Tensor, "B S"]]:
        """Some of the sequences, by name."""
        return {name: getattr(self, name) for name in names}

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True)
class ProfileRows(_Sequences):
    """Profiles of users; `clicked` and `skipped` are rows of the dataset."""


@dataclass(frozen=True)
class Profiles(_Sequences):
    """Profiles of users; `clicked` and `skipped` are positions into encoded stories."""


@dataclass(frozen=True)
class Context(TensorFields):
    """Facts known at the time of ranking, besides the profile."""

    moment: Int[Tensor, "B"]
    """Seconds since 1970, UTC."""
    user: Int[Tensor, "B user"] = _ABSENT
    """Codes of what the log says of the user, such as the device; no columns without counts, as for the next two."""
    story: Float[Tensor, "B C story"] = _ABSENT
    """Counts for each candidate: the columns `state.count_columns.PAIR`."""
    page: Float[Tensor, "B page"] = _ABSENT
    """Counts for the user and the page: the columns `state.count_columns.PAGE`."""
    taught: Float[Tensor, "B C"] = _ABSENT
    """In training, what teachers score each candidate; no columns without teachers."""

    def __post_init__(self) -> None:
        self._fill_absent(self.moment, "user", "story", "page", "taught")

    def select(self, which: Int[Tensor, "V"] | slice) -> "Context":
        """The context of some of the users."""
        return self.map_tensors(lambda tensor: tensor[which])


@dataclass(frozen=True)
class RowBatch(TensorFields):
    """Impressions; stories are rows of the dataset."""

    profiles: ProfileRows
    candidates: Int[Tensor, "B C"]
    context: Context

    def __len__(self) -> int:
        return len(self.candidates)

    def of_all_stories(self) -> "Batch":
        """The same impressions where the whole dataset is encoded, so that positions are rows."""
        return Batch(all_stories(self.profiles), self.candidates, self.context)


@dataclass(frozen=True)
class Batch(TensorFields):
    """Impressions; stories are positions into encoded stories."""

    profiles: Profiles
    candidates: Int[Tensor, "B C"]
    context: Context

    @property
    def candidate_mask(self) -> Bool[Tensor, "B C"]:
        """True for a candidate, False for padding."""
        return self.candidates != 0

    def __len__(self) -> int:
        return len(self.candidates)


def all_stories(profiles: ProfileRows) -> Profiles:
    """The same profiles where the whole dataset is encoded, so that positions are rows."""
    return Profiles(*(getattr(profiles, field.name) for field in fields(profiles)))


def distinct_stories(
    batch: RowBatch, *, news: int, capacity: int | None = None, reach: Int[Tensor, "news K"] | None = None
) -> tuple[Int[Tensor, "U"], Batch]:
    """The rows of the distinct stories of a batch, and the batch with positions into them.

    `news` is the number of rows of the dataset. With a `capacity` the result always has that many rows, padded at the
    end, so that the host need not wait for a count; it must be at least `count_distinct_stories`. `reach` holds, for
    each story, other stories to include when it is a candidate.
    """
    present = _present(batch, news, reach)
    local = present.cumsum(0, dtype=torch.int32) - 1
    if capacity is None:
        rows = present.nonzero().squeeze(1)
    else:
        target = torch.where(present, local, capacity)  # absent stories all go to one extra place
        rows = target.new_zeros(capacity + 1, dtype=torch.int64)
        rows = rows.scatter_(0, target.long(), torch.arange(news, device=rows.device))[:capacity]
    profiles = batch.profiles
    return rows, Batch(
        Profiles(profiles.users, local[profiles.clicked], local[profiles.skipped], profiles.neighbours),
        local[batch.candidates],
        batch.context,
    )


def count_distinct_stories(batch: RowBatch, *, news: int, reach: Int[Tensor, "news K"] | None = None) -> Tensor:
    """The number of distinct stories of a batch, padding and reached stories included, as a tensor."""
    return _present(batch, news, reach).sum()


def _present(batch: RowBatch, news: int, reach: Int[Tensor, "news K"] | None) -> Bool[Tensor, "news"]:
    """Whether the batch holds or reaches each row of the dataset; always True for row 0."""
    present = torch.zeros(news, dtype=torch.bool, device=batch.candidates.device)
    present[:1] = True
    for stories in (batch.profiles.clicked, batch.profiles.skipped, batch.candidates):
        present.index_fill_(0, stories.flatten().long(), True)
    if reach is not None and reach.shape[1]:
        present.index_fill_(0, reach[batch.candidates].flatten().long(), True)
    return present

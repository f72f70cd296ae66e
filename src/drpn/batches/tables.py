"""The stories and profiles of a dataset folder as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from drpn.batches.batch import Context, NewsRows, ProfileRows, RowBatch
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset
from drpn.dataset.requirements import REQUIREMENTS


@dataclass(frozen=True)
class Tables:
    """Stories and profiles by row of the dataset, on one device.

    A profile is that of a user or, with the live protocol, that of the reader of one impression as of then.
    """

    news: NewsRows
    clicked: Int[Tensor, "readers H"]
    skipped: Int[Tensor, "readers N"]
    trained: Bool[Tensor, "users"] | None = None
    """Which users have a training sample; None means all of them."""
    neighbours: Int[Tensor, "users M"] | None = None
    """Users who clicked the most of the same stories, without those that training never meets."""
    users: Int[Tensor, "readers"] | None = None
    """The user of each reader; None: readers are users."""
    counts: "Counts | None" = None
    """With the live protocol, the counts as of each impression."""
    before_validation: int | None = None
    """The number of profiles, the first ones, without clicks of validation and test: with the live protocol those as of
    training's impressions. None: all of them."""

    @classmethod
    def from_dataset(
        cls,
        dataset: Dataset,
        device: torch.device,
        *,
        reads: Sequence[str] = ("clicked", "skipped"),
        needs: Sequence[str] = tuple(REQUIREMENTS),
        moving: bool = True,
    ) -> "Tables":
        """The tables of a dataset; sequences not in `reads` and features not in `needs` are left empty.

        With the live protocol they hold the profiles as of each impression, or those of users if not `moving`.
        """
        news = news_rows(dataset, needs)
        moving = moving and dataset.live
        sides = {
            name: _tensor(dataset.arrays.array(f"readers/{name}") if moving else getattr(dataset, name))
            for name in ("clicked", "skipped")
        }
        clicked, skipped = (
            side.to(device) if name in reads else torch.zeros(len(side), 1, dtype=side.dtype, device=device)
            for name, side in sides.items()
        )
        trained, neighbours = _tensor(dataset.trained_users), None
        array = REQUIREMENTS["user_neighbours"].array
        if "user_neighbours" in needs and array in dataset.arrays:
            neighbours = _known(_tensor(dataset.arrays.array(array)), trained).to(device)
        users = _tensor(dataset.arrays.array("readers/user")).to(device) if moving else None
        counts = Counts.from_dataset(dataset, device) if moving and "counts" in needs else None
        early = 1 + len(dataset.impressions("train").users) if moving else None
        return cls(news.to(device), clicked, skipped, trained.to(device), neighbours, users, counts, early)

    def profiles(self, readers: Int[Tensor, "B"], *, trim: bool | None = None) -> ProfileRows:
        """The profiles of some readers; users without a training sample become row 0.

        With `trim`, padding beyond the longest sequence is cut off. The default is not to trim on a GPU, because the
        host would have to wait for the length.
        """
        clicked, skipped = self.clicked[readers], self.skipped[readers]
        users = readers if self.users is None else self.users[readers]
        if not clicked.is_cuda if trim is None else trim:
            clicked, skipped = _trim(clicked), _trim(skipped)
        known = users if self.trained is None else torch.where(self.trained[users], users, 0)
        if self.neighbours is None:
            return ProfileRows(known, clicked, skipped)
        return ProfileRows(known, clicked, skipped, self.neighbours[users])

    def batch(
        self,
        readers: Int[Tensor, "B"],
        candidates: Int[Tensor, "B C"],
        moments: Int[Tensor, "B"] | None = None,
        pairs: Int[Tensor, "B C"] | None = None,
        *,
        trim: bool | None = None,
    ) -> RowBatch:
        """Impressions of some readers; without `moments` they all happen at 0, without `pairs` nothing is counted."""
        if moments is None:
            moments = torch.zeros_like(readers, dtype=torch.int64)
        return RowBatch(self.profiles(readers, trim=trim), candidates, self.context(readers, moments, pairs))

    def context(
        self, readers: Int[Tensor, "B"], moments: Int[Tensor, "B"], pairs: Int[Tensor, "B C"] | None
    ) -> Context:
        """The facts known at some impressions; `pairs` are rows of the candidates among all of the dataset."""
        if self.counts is None or pairs is None:
            return Context(moments)
        known = self.counts.columns[readers], self.counts.pairs[pairs], self.counts.page[readers]
        taught = () if self.counts.taught is None else (self.counts.taught[pairs],)
        return Context(moments, *known, *taught)


@dataclass(frozen=True)
class Counts:
    """The counts as of each impression of a dataset of the live protocol."""

    pairs: Float[Tensor, "pairs P"]
    """For each candidate of the splits."""
    page: Float[Tensor, "readers Q"]
    columns: Int[Tensor, "readers K"]
    taught: Float[Tensor, "pairs"] | None = None
    """What teachers score each candidate of training; None without teachers."""

    @classmethod
    def from_dataset(cls, dataset: Dataset, device: torch.device) -> "Counts":
        """The counts of all splits."""
        names = ("pairs/counts", "readers/page", "readers/columns")
        return cls(*(_tensor(dataset.arrays.array(name)).to(device) for name in names))


def news_rows(dataset: Dataset, needs: Sequence[str]) -> NewsRows:
    """The features of all stories of a dataset, on the CPU; optional features only if in `needs`."""
    arrays = dataset.arrays
    none = torch.zeros(len(dataset.news_ids), 0, dtype=torch.int32)

    def optional(need: str) -> Tensor:
        array = REQUIREMENTS[need].array
        return _tensor(arrays.array(array)) if need in needs and array in arrays else none

    return NewsRows(
        rows=torch.arange(len(dataset.news_ids), dtype=torch.int32),
        words=_tensor(dataset.news_words),
        neighbours=_tensor(dataset.neighbours),
        category=_tensor(arrays.array("news/category")),
        subcategory=_tensor(arrays.array("news/subcategory")),
        entities=optional("entities"),
        abstract=optional("abstracts"),
        neighbour_positions=optional("news_neighbours"),  # all stories are here, so positions are rows
    )


def seconds(times: Array) -> Tensor:
    """Moments of a log as seconds since 1970."""
    return torch.from_numpy(np.asarray(times).astype("datetime64[s]").astype(np.int64))


def _trim(sequences: Int[Tensor, "B S"]) -> Int[Tensor, "B L"]:
    """The sequences without trailing columns that are all padding; at least one column stays."""
    longest = int((sequences != 0).sum(1).max()) if len(sequences) else 0
    return sequences[:, : max(longest, 1)]


def _known(neighbours: Int[Tensor, "users M"], trained: Bool[Tensor, "users"]) -> Int[Tensor, "users M"]:
    """The neighbours that training meets as users or as neighbours of users; the others become padding."""
    met = trained.clone()
    met[neighbours[trained].flatten().long()] = True
    met[:1] = False
    return torch.where(met[neighbours.long()], neighbours, 0)


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values))  # a copy: memory maps are read-only

"""A dataset folder's news and profiles as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from drpn.batches.batch import Batch, NewsRows
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset

NEEDS = {
    "entities": "news/entities",
    "abstracts": "news/abstract_words",
    "user_neighbours": "users/neighbours",
    "news_neighbours": "news/neighbours",
}
"""What some models need and others do not, and the array of a dataset that holds it."""


@dataclass(frozen=True)
class Tables:
    """Everything a batch is looked up in, on one device."""

    news: NewsRows
    clicked: Int[Tensor, "users H"]
    skipped: Int[Tensor, "users N"]
    trained: Bool[Tensor, "users"] | None = None
    """Which users a training sample has; None: all of them."""
    neighbours: Int[Tensor, "users M"] | None = None
    """Users who clicked the most of the same news, those of whom training knows nothing left out."""

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        device: torch.device,
        *,
        reads: Sequence[str] = ("clicked", "skipped"),
        needs: Sequence[str] = tuple(NEEDS),
    ) -> "Tables":
        """The tables of a dataset; sequences that a model does not read are empty, as is what it does not need."""
        arrays = dataset.arrays
        extra = {need: _tensor(arrays.array(name)) for need, name in NEEDS.items() if need in needs and name in arrays}
        nothing = torch.zeros(len(dataset.news_ids), 0, dtype=torch.int32)
        news = NewsRows(
            rows=torch.arange(len(dataset.news_ids), dtype=torch.int32),
            words=_tensor(dataset.news_words),
            neighbours=_tensor(dataset.neighbours),
            category=_tensor(arrays.array("news/category")),
            subcategory=_tensor(arrays.array("news/subcategory")),
            seen=torch.from_numpy(arrays.array("news/times_shown") > 0),
            entities=extra.get("entities", nothing),
            abstract=extra.get("abstracts", nothing),
            places=extra.get("news_neighbours", nothing),  # all news come along
        )
        sides = {name: _tensor(getattr(dataset, name)) for name in ("clicked", "skipped")}
        clicked, skipped = (
            side.to(device) if name in reads else torch.zeros(len(side), 1, dtype=side.dtype, device=device)
            for name, side in sides.items()
        )
        trained = _tensor(dataset.trained_users)
        neighbours = extra.get("user_neighbours")
        if neighbours is not None:
            neighbours = _known(neighbours, trained).to(device)
        return cls(news.to(device), clicked, skipped, trained.to(device), neighbours)

    def batch(self, users: Int[Tensor, "B"], candidates: Int[Tensor, "B C"], *, cut: bool | None = None) -> Batch:
        """The impressions of some users, positions being rows of the dataset; a user whom no sample has becomes 0.

        Padding beyond the longest sequence is cut; by default not on a GPU, which would have to be waited for.
        """
        clicked, skipped = self.clicked[users], self.skipped[users]
        if not clicked.is_cuda if cut is None else cut:
            clicked, skipped = _cut(clicked), _cut(skipped)
        known = users if self.trained is None else torch.where(self.trained[users], users, 0)
        if self.neighbours is None:
            return Batch(known, clicked, skipped, candidates)
        return Batch(known, clicked, skipped, candidates, self.neighbours[users])


def _cut(sequences: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Padding stands at the end, so that columns without any news can go; one stays."""
    longest = int((sequences != 0).sum(1).max()) if len(sequences) else 0
    return sequences[:, : max(longest, 1)]


def _known(neighbours: Int[Tensor, "users M"], trained: Bool[Tensor, "users"]) -> Int[Tensor, "users M"]:
    """The neighbours that training meets, as users or as neighbours of users; the others become padding."""
    met = trained.clone()
    met[neighbours[trained].flatten().long()] = True
    met[:1] = False
    return torch.where(met[neighbours.long()], neighbours, 0)


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values))  # a copy: memory maps are read-only

"""A dataset folder's news and profiles as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from drpn.batches.batch import Batch, NewsRows
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset


@dataclass(frozen=True)
class Tables:
    """Everything a batch is looked up in, on one device."""

    news: NewsRows
    clicked: Int[Tensor, "users H"]
    skipped: Int[Tensor, "users N"]

    @classmethod
    def of(cls, dataset: Dataset, device: torch.device, *, reads: Sequence[str] = ("clicked", "skipped")) -> "Tables":
        """The tables of a dataset; sequences that a model does not read are empty."""
        arrays = dataset.arrays
        news = NewsRows(
            rows=torch.arange(len(dataset.news_ids), dtype=torch.int32),
            words=_tensor(dataset.news_words),
            neighbours=_tensor(dataset.neighbours),
            category=_tensor(arrays.array("news/category")),
            subcategory=_tensor(arrays.array("news/subcategory")),
            seen=torch.from_numpy(arrays.array("news/times_shown") > 0),
        )
        sides = (_tensor(getattr(dataset, side)) for side in ("clicked", "skipped"))
        read = [
            side if name in reads else side.new_zeros(len(side), 1)
            for name, side in zip(("clicked", "skipped"), sides, strict=True)
        ]
        return cls(news.to(device), *(side.to(device) for side in read))

    def batch(self, users: Int[Tensor, "B"], candidates: Int[Tensor, "B C"], *, cut: bool | None = None) -> Batch:
        """The impressions of some users, positions being rows of the dataset.

        Padding beyond the longest sequence is cut; by default not on a GPU, which would have to be waited for.
        """
        clicked, skipped = self.clicked[users], self.skipped[users]
        if not clicked.is_cuda if cut is None else cut:
            clicked, skipped = _cut(clicked), _cut(skipped)
        return Batch(users, clicked, skipped, candidates)


def _cut(sequences: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Padding stands at the end, so that columns without any news can go; one stays."""
    longest = int((sequences != 0).sum(1).max()) if len(sequences) else 0
    return sequences[:, : max(longest, 1)]


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values))  # a copy: memory maps are read-only

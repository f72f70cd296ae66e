"""A dataset folder's news and profiles as tensors."""

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
    def of(cls, dataset: Dataset, device: torch.device) -> "Tables":
        """The tables of a dataset."""
        arrays = dataset.arrays
        news = NewsRows(
            rows=torch.arange(len(dataset.news_ids), dtype=torch.int32),
            words=_tensor(dataset.news_words),
            neighbours=_tensor(dataset.neighbours),
            category=_tensor(arrays.array("news/category")),
            subcategory=_tensor(arrays.array("news/subcategory")),
            seen=torch.from_numpy(arrays.array("news/times_shown") > 0),
        )
        return cls(news.to(device), _tensor(dataset.clicked).to(device), _tensor(dataset.skipped).to(device))

    def batch(self, users: Int[Tensor, "B"], candidates: Int[Tensor, "B C"]) -> Batch:
        """The impressions of some users, positions being rows of the dataset; padding beyond the longest is cut."""
        return Batch(users, _cut(self.clicked[users]), _cut(self.skipped[users]), candidates)


def _cut(sequences: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Padding stands at the end, so that columns without any news can go; one stays."""
    longest = int((sequences != 0).sum(1).max()) if len(sequences) else 0
    return sequences[:, : max(longest, 1)]


def _tensor(values: Array) -> Tensor:
    return torch.from_numpy(np.array(values))  # a copy: memory maps are read-only

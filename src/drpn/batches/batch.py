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


def distinct(batch: Batch) -> tuple[Int[Tensor, "U"], Batch]:
    """The distinct news of a batch whose positions are rows of the dataset, and the batch pointing into them."""
    parts = [batch.clicked, batch.skipped, batch.candidates]
    padding = batch.users.new_zeros(1)
    rows, positions = torch.unique(torch.cat([padding, *(part.flatten() for part in parts)]), return_inverse=True)
    clicked, skipped, candidates = (
        flat.view(part.shape)
        for flat, part in zip(positions[1:].split([part.numel() for part in parts]), parts, strict=True)
    )
    return rows, Batch(batch.users, clicked, skipped, candidates)


Scores = Float[Tensor, "B C"]

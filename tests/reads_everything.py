"""A model that reads everything that a dataset can hold: if anything is lost on the way, its scores change."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from drpn.batches.batch import Context, NewsRows, Profiles
from drpn.dataset.requirements import REQUIREMENTS
from drpn.layers.gather import gather_rows
from drpn.layers.news import IdVectors, UserVectors, WordVectors
from drpn.models.base import ClickModel, DataShape, ModelSettings
from drpn.models.catalogue import CATALOGUE, Entry

NAME = "everything"


@dataclass(frozen=True, kw_only=True)
class EverythingSettings(ModelSettings):
    """Size, and the requirements of the model."""

    size: int = 6
    needs: str = " ".join(need for need in REQUIREMENTS if need != "counts")


class EverythingRows(NamedTuple):
    """The stored values of each story."""

    vector: Tensor
    neighbours: Tensor


class Everything(ClickModel):
    """The product of two sums: of a story and its neighbours, and of a user, their neighbours and their profile."""

    def __init__(self, settings: EverythingSettings, shape: DataShape) -> None:
        super().__init__()
        self.settings: EverythingSettings = settings
        self.words = WordVectors(shape.words, settings.size, shape.vectors)
        self.entities = WordVectors(max(shape.entities, 1), settings.size, shape.entity_vectors)
        self.contexts = WordVectors(max(shape.entities, 1), settings.size, shape.context_vectors)
        self.news = IdVectors(shape.news, settings.size, dropped=0.0)
        self.users = UserVectors(shape.users, settings.size, dropped=0.0)

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(self.settings.needs.split())

    def encode_news(self, news: NewsRows) -> EverythingRows:
        titles = self.words(news.words) * (news.words != 0).unsqueeze(-1)  # padding does not matter
        words = titles.sum(1) + 2 * self.words(news.abstract).sum(1)
        entities = (self.entities(news.entities) - self.contexts(news.entities)).sum(1)
        vector = words + entities + self.news(news.rows)
        return EverythingRows(vector, news.neighbour_positions)

    def read(self, encoded: EverythingRows, profiles: Profiles) -> Tensor:
        neighbours = self.users.of_neighbours(profiles.neighbours).sum(1)
        clicked, skipped = (
            (gather_rows(encoded.vector, side) * (side != 0).unsqueeze(-1)).sum(1)
            for side in (profiles.clicked, profiles.skipped)
        )
        return self.users(profiles.users) + 2 * neighbours + clicked - skipped

    def match(self, encoded: EverythingRows, readers: Tensor, candidates: Tensor, context: Context) -> Tensor:  # noqa: ARG002
        neighbours = encoded.neighbours[candidates]  # (B C K)
        stories = gather_rows(encoded.vector, candidates) + 3 * gather_rows(encoded.vector, neighbours).sum(2)
        return (stories * readers.unsqueeze(1)).sum(-1)


def enter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the model to the catalogue for a test."""
    monkeypatch.setitem(CATALOGUE, NAME, Entry(Everything, EverythingSettings(), "nowhere"))


def stirred(shape: DataShape) -> Everything:
    """The same model on every call, without zero parameters."""
    torch.manual_seed(3)
    model = Everything(EverythingSettings(), shape)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model

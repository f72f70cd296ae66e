"""Every model learns what it can see: readers have tastes, and popularity says nothing.

Each reader likes one of six topics, and dislikes another: clicks are of the one, skips of the other, but for accidents.
A page shows a story of the first, which is clicked, and four of the second. Test pages are of new readers and of new
stories, so that nothing can be known by heart.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from drpn.batches.batch import NewsRows
from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.models.base import DataShape
from drpn.models.catalogue import CATALOGUE
from drpn.progress import Silent
from drpn.training.loop import Loop
from drpn.training.settings import TrainingSettings
from small_training import small

TOPICS, STORIES, READERS, PAGES, SHOWN = 6, 240, 400, 4, 5
OLD = torch.arange(STORIES) < STORIES * 3 // 4
"""Those of training; the others are of the test pages."""


class Newsroom:
    """Who likes what, and which stories are about it; row 0 of both is padding."""

    def __init__(self) -> None:
        self.random = torch.Generator().manual_seed(5)
        self.topic = self.draw(TOPICS, STORIES)
        self.liked = self.draw(TOPICS, READERS)
        self.disliked = (self.liked + self.draw(TOPICS - 1, READERS) - 1) % TOPICS + 1
        self.topic[0] = self.liked[0] = self.disliked[0] = 0

    def draw(self, high: int, *shape: int) -> Tensor:
        return torch.randint(1, high + 1, shape, generator=self.random)

    def story(self, topics: Tensor, *, old: bool) -> Tensor:
        """A story of each topic."""
        fits = (self.topic == topics.clamp(min=1)[:, None]) & (old == OLD)
        return torch.multinomial(fits.float(), 1, generator=self.random).squeeze(1)

    def news(self) -> NewsRows:
        """Eight words of its own topic's ten, and two of anything; neighbours of the same topic."""
        own = self.topic[:, None] * 10 + self.draw(10, STORIES, 8) - 10
        words = torch.cat([own, self.draw(TOPICS * 10, STORIES, 2)], dim=1)
        around = torch.stack([self.story(self.topic, old=True) for _ in range(3)], dim=1)
        around[~OLD] = 0
        words[0] = around[0] = 0
        return NewsRows(torch.arange(STORIES), words, around, self.topic, self.topic, OLD, neighbour_positions=around)

    def tables(self) -> Tables:
        """Profiles of six clicked and nine skipped stories, one in six of them by accident."""
        sides = []
        for width, topics in ((6, self.liked), (9, self.disliked)):
            real = torch.stack([self.story(topics, old=True) for _ in range(width)], dim=1)
            accidents = torch.stack([self.story(self.draw(TOPICS, READERS), old=True) for _ in range(width)], dim=1)
            by_accident = torch.rand(real.shape, generator=self.random) < 1 / 6
            sides.append(torch.where(by_accident, accidents, real))
            sides[-1][0] = 0
        alike = torch.stack([self._like(self.liked) for _ in range(3)], dim=1)
        known = torch.arange(READERS) < READERS * 3 // 4
        return Tables(self.news(), *sides, known, torch.where(known[alike], alike, 0))

    def _like(self, liked: Tensor) -> Tensor:
        fits = self.liked == liked[:, None]
        return torch.multinomial(fits.float(), 1, generator=self.random).squeeze(1)

    def pages(self, readers: Tensor, *, old: bool) -> Tensor:
        """What each is shown, the story they like first."""
        others = [self.story(self.disliked[readers], old=old) for _ in range(SHOWN - 1)]
        return torch.stack([self.story(self.liked[readers], old=old), *others], dim=1)


def auc(scores: Tensor) -> float:
    """Mean over pages whose first candidate was clicked."""
    first, others = scores[:, :1], scores[:, 1:]
    return float(((first > others).double() + 0.5 * (first == others)).mean())


@pytest.mark.parametrize("name", CATALOGUE)
def test_learns_tastes(name: str, tmp_path: Path) -> None:
    room = Newsroom()
    tables = room.tables()
    known = torch.arange(1, READERS * 3 // 4).repeat(PAGES)
    pages = room.pages(known, old=True)
    places = torch.arange(len(known)) * (SHOWN - 1)
    clicks = Clicks(known, pages[:, 0], places, torch.full_like(places, SHOWN - 1), pages[:, 1:].flatten(), places)
    chosen = {"epochs": 4, "batch": 32, "rate": 5e-3, **CATALOGUE[name].training}
    settings = replace(TrainingSettings(**chosen), tce_steps=100)
    torch.manual_seed(0)
    count = TOPICS + 1
    shape = DataShape(news=STORIES, words=TOPICS * 10 + 1, users=READERS, categories=count, subcategories=count)
    model = CATALOGUE[name].model(small(name), shape)
    sampler = Sampler(clicks, tables, settings.batch, settings.negatives, settings.seed)
    later_is_better = itertools.count()
    Loop(model, tables, sampler, settings, tmp_path, Silent()).run(lambda _: next(later_is_better), resume=False)
    strangers = torch.arange(READERS * 3 // 4, READERS)
    batch = tables.batch(strangers, room.pages(strangers, old=False))
    assert not batch.profiles.users.any()
    model.eval()
    with torch.no_grad():
        found = auc(model.score(model.encode_news(tables.news), batch.of_all_stories()))
    assert found > 0.85, found  # popularity has 0.5: no story of the test pages was ever shown

"""Every model learns readers' tastes in a newsroom where popularity carries no information.

Each reader likes one of six topics and dislikes another: apart from accidents, clicks are on the first and skips on the
second. A page shows one story of the liked topic, which is clicked, and four of the disliked one. Test pages have new
readers and new stories, so that nothing can be memorised.
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
"""Stories of training; the others are on test pages."""
SLOW_TO_LEARN = ("dkn", "lstur", "npa", "naml", "nrms-tce")
"""They need four passes over the clicks; two are enough for the others."""


class Newsroom:
    """Readers with their liked and disliked topics, and stories with theirs; row 0 of both is padding."""

    def __init__(self) -> None:
        self.random = torch.Generator().manual_seed(5)
        self.topic = self.draw(TOPICS, STORIES)
        self.liked = self.draw(TOPICS, READERS)
        self.disliked = (self.liked + self.draw(TOPICS - 1, READERS) - 1) % TOPICS + 1
        self.topic[0] = self.liked[0] = self.disliked[0] = 0

    def draw(self, high: int, *shape: int) -> Tensor:
        return torch.randint(1, high + 1, shape, generator=self.random)

    def story(self, topics: Tensor, *, old: bool) -> Tensor:
        """Draw a story for each of the topics."""
        fits = (self.topic == topics.clamp(min=1)[:, None]) & (old == OLD)
        return torch.multinomial(fits.float(), 1, generator=self.random).squeeze(1)

    def news(self) -> NewsRows:
        """Titles of eight words from the ten of their topic and two random words; neighbours have the same topic."""
        topic_words = self.topic[:, None] * 10 + self.draw(10, STORIES, 8) - 10
        words = torch.cat([topic_words, self.draw(TOPICS * 10, STORIES, 2)], dim=1)
        neighbours = torch.stack([self.story(self.topic, old=True) for _ in range(3)], dim=1)
        neighbours[~OLD] = 0
        words[0] = neighbours[0] = 0
        return NewsRows(
            torch.arange(STORIES), words, neighbours, self.topic, self.topic, neighbour_positions=neighbours
        )

    def tables(self) -> Tables:
        """Profiles of six clicked and nine skipped stories; one in six is an accident."""
        sides = []
        for width, topics in ((6, self.liked), (9, self.disliked)):
            real = torch.stack([self.story(topics, old=True) for _ in range(width)], dim=1)
            accidents = torch.stack([self.story(self.draw(TOPICS, READERS), old=True) for _ in range(width)], dim=1)
            by_accident = torch.rand(real.shape, generator=self.random) < 1 / 6
            sides.append(torch.where(by_accident, accidents, real))
            sides[-1][0] = 0
        similar = torch.stack([self._readers_who_like(self.liked) for _ in range(3)], dim=1)
        known = torch.arange(READERS) < READERS * 3 // 4
        return Tables(self.news(), *sides, known, torch.where(known[similar], similar, 0))

    def _readers_who_like(self, liked: Tensor) -> Tensor:
        fits = self.liked == liked[:, None]
        return torch.multinomial(fits.float(), 1, generator=self.random).squeeze(1)

    def pages(self, readers: Tensor, *, old: bool) -> Tensor:
        """Draw a page for each reader, with the liked story first."""
        others = [self.story(self.disliked[readers], old=old) for _ in range(SHOWN - 1)]
        return torch.stack([self.story(self.liked[readers], old=old), *others], dim=1)


def auc(scores: Tensor) -> float:
    """Return the mean AUC of pages whose first candidate was clicked."""
    first, others = scores[:, :1], scores[:, 1:]
    return float(((first > others).double() + 0.5 * (first == others)).mean())


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if not entry.settings.context])
def test_every_model_learns_tastes(name: str, tmp_path: Path) -> None:
    """Models with a context view read counts, which this newsroom does not have."""
    room = Newsroom()
    tables = room.tables()
    known = torch.arange(1, READERS * 3 // 4).repeat(PAGES)
    pages = room.pages(known, old=True)
    places = torch.arange(len(known)) * (SHOWN - 1)
    skipped = pages[:, 1:].flatten()
    no_counts = (places, skipped, skipped)
    clicks = Clicks(known, pages[:, 0], places, torch.full_like(places, SHOWN - 1), skipped, places, *no_counts)
    epochs = 4 if name in SLOW_TO_LEARN else 2
    chosen = {"epochs": epochs, "batch": 32, "rate": 5e-3, **CATALOGUE[name].training}
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
        test_auc = auc(model.score(model.encode_news(tables.news), batch.of_all_stories()))
    assert test_auc > 0.85, test_auc  # popularity has 0.5, because no story of the test pages was shown before

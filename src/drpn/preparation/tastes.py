"""Taste vectors, learned from the clicks before training.

The vector of a story is the mean of the vectors of its words, plus those of its category and subcategory. That of a
user is the mean over the latest clicks. They are learned so that the product of both tells what the user clicked next
from what other users clicked at about the same time: those stories are as popular and as new, so that only taste can
tell them apart. A site has many more clicks from before its first recorded list than lists to train on.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding_bag, normalize

from drpn.dataset.taste_vectors import TasteVectors
from drpn.progress import Progress

SIZE = 64
_MOST_CLICKS = 300_000
"""Clicks to learn from: the latest ones."""
_PROFILE = 50
"""Latest clicks of a user that are compared with the next one."""
_FEWEST = 3
"""A user with fewer earlier clicks teaches nothing."""
_OTHERS, _NEARBY = 10, 200
"""How many clicks of others each click is compared with, and how far away these are at most, counted in clicks."""
_PASSES, _BATCH, _RATE, _DECAY, _DROPOUT = 4, 2_048, 6e-3, 0.05, 0.1
_PADDING = torch.zeros(1, dtype=torch.int64)
_SPREAD = 0.1
"""Standard deviation of the numbers of a vector at the start."""


class Clicks(NamedTuple):
    """Clicks in time order."""

    users: NDArray[np.int64]
    stories: NDArray[np.int64]


class Stories(NamedTuple):
    """The words and labels of all stories; row 0 is padding, and so is word and label 0."""

    words: NDArray[np.int32]
    category: NDArray[np.int32]
    subcategory: NDArray[np.int32]


def learn_tastes(
    clicks: Clicks,
    stories: Stories,
    start: NDArray[np.float32] | None,
    sizes: tuple[int, int, int],
    progress: Progress,
) -> TasteVectors:
    """Learn the vectors of words and labels.

    start: vectors of words to begin with, random ones without; sizes: of words, categories and subcategories
    """
    generator = torch.Generator().manual_seed(0)
    tables = _Tables(stories, start, sizes, generator)
    latest, chosen = profiles_before(clicks)
    if len(chosen):
        _learn(tables, torch.from_numpy(latest), chosen, clicks, generator, progress)
    return tables.vectors()


def profiles_before(clicks: Clicks) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """(chosen, profile): the latest stories that its user clicked before each chosen click, and the chosen clicks."""
    count = len(clicks.users)
    by_user = np.argsort(clicks.users, kind="stable")
    users = clicks.users[by_user]
    first = np.searchsorted(users, users)  # where the user of each sorted click begins
    number = np.arange(count) - first
    chosen = by_user[number >= _FEWEST]
    chosen = np.sort(chosen)[-_MOST_CLICKS:]
    place = np.empty(count, np.int64)
    place[by_user] = np.arange(count)
    earlier = place[chosen][:, None] - 1 - np.arange(_PROFILE)
    inside = earlier >= first[place[chosen]][:, None]
    latest = np.where(inside, clicks.stories[by_user[np.maximum(earlier, 0)]], 0)
    return latest.astype(np.int32), chosen


class _Tables(nn.Module):
    """The vectors that are learned."""

    def __init__(
        self,
        stories: Stories,
        start: NDArray[np.float32] | None,
        sizes: tuple[int, int, int],
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._read, self._category, self._subcategory = (torch.from_numpy(np.array(part)).long() for part in stories)
        size = SIZE if start is None else start.shape[1]
        self.words, self.categories, self.subcategories = (
            nn.Parameter(_SPREAD * torch.randn(rows, size, generator=generator)) for rows in sizes
        )
        if start is not None:
            self.words.data = _SPREAD * size**0.5 * normalize(torch.from_numpy(np.array(start, np.float32)), dim=1)
        for table in (self.words, self.categories, self.subcategories):
            table.data[0] = 0
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, rows: Tensor) -> Tensor:
        """(rows, size): the vectors of some stories; while learning, some numbers of their texts are left out."""
        texts = embedding_bag(self._read[rows], self.words, mode="mean", padding_idx=0)
        labels = (self.categories, self._category[rows]), (self.subcategories, self._subcategory[rows])
        stories: Tensor = dropout(texts, _DROPOUT, self.training)
        return stories + sum(table[which] * (which > 0)[:, None] for table, which in labels)

    def vectors(self) -> TasteVectors:
        """The tables, scaled so that products are scores."""
        scale = float(self.scale.detach().clamp_min(0)) ** 0.5
        tables = [scale * table.detach().numpy() for table in (self.words, self.categories, self.subcategories)]
        for table in tables:
            table[0] = 0
        return TasteVectors(*tables)


def _learn(
    tables: _Tables,
    latest: Tensor,
    chosen: NDArray[np.int64],
    clicks: Clicks,
    generator: torch.Generator,
    progress: Progress,
) -> None:
    users, stories = (torch.from_numpy(column[chosen]) for column in clicks)
    steps = _PASSES * -(-len(chosen) // _BATCH)
    optimiser = torch.optim.AdamW(tables.parameters(), lr=_RATE, weight_decay=_DECAY)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps + 1)
    with torch.random.fork_rng(devices=[]), progress.stage("tastes from earlier clicks", steps) as advance:
        torch.manual_seed(0)
        tables.train()
        for _ in range(_PASSES):
            for part in torch.split(torch.randperm(len(chosen), generator=generator), _BATCH):
                others = _others(part, len(chosen), generator)
                candidates = torch.cat([stories[part, None], stories[others]], dim=1)
                same = (candidates[:, 1:] == candidates[:, :1]) | (users[others] == users[part, None])
                both = torch.cat([latest[part], candidates], dim=1)
                rows, place = torch.unique(torch.cat([_PADDING, both.flatten()]), return_inverse=True)
                vectors, place = tables(rows), place[1:].view(both.shape)
                reader = embedding_bag(place[:, :_PROFILE], vectors, mode="mean", padding_idx=0)
                scores = tables.scale * torch.einsum("bd,bcd->bc", reader, vectors[place[:, _PROFILE:]])
                scores[:, 1:].masked_fill_(same, -1e4)
                loss = -scores.log_softmax(1)[:, 0].mean()
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                rate.step()
                advance(1)
    tables.eval()


def _others(part: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Clicks close in time to each click of a part."""
    distance = torch.randint(1, _NEARBY, (len(part), _OTHERS), generator=generator)
    sign = 2 * torch.randint(0, 2, distance.shape, generator=generator) - 1
    return (part[:, None] + sign * distance).clamp(0, count - 1)

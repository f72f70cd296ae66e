"""Ranks news for a user with a bundle."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from drpn.batches.batch import Batch, NewsRows, distinct
from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle, inference_device
from drpn.dataset.words import title_words


@dataclass(frozen=True)
class Ranked:
    """One news of a ranking."""

    rank: int
    news_id: str
    title: str
    score: float


@dataclass(frozen=True)
class Ranking:
    """News for a user, best first; `known` says whether the user has a profile."""

    user_id: str
    known: bool
    rows: tuple[Ranked, ...]


@dataclass(frozen=True)
class NewTitle:
    """A story that training never saw."""

    title: str
    category: str = ""
    subcategory: str = ""


@dataclass(frozen=True)
class Recommender:
    """A bundle that answers."""

    bundle: Bundle

    def rank(self, user_id: str, *, top: int = 10, new: Sequence[NewTitle] = ()) -> Ranking:
        """The best of the log's last day that the user has neither clicked nor skipped, and of the new titles."""
        row = self._user_rows.get(user_id, 0)
        profile = {int(news) for side in (self._tables.clicked, self._tables.skipped) for news in side[row]}
        recent = self.bundle.data.arrays.array("news/recent")
        old = [int(news) for news in np.flatnonzero(recent) if int(news) not in profile]
        scores = self._score(row, old, new)
        names = [(self.bundle.data.news_ids[news], self.bundle.data.titles[news]) for news in old]
        names += [("new", one.title) for one in new]
        best = sorted(range(len(names)), key=lambda place: (-scores[place], place))[:top]
        rows = tuple(Ranked(rank, *names[place], scores[place]) for rank, place in enumerate(best, start=1))
        return Ranking(user_id, len(profile - {0}) > 0, rows)

    @torch.no_grad()
    def _score(self, user: int, old: Sequence[int], new: Sequence[NewTitle]) -> list[float]:
        device = self._tables.clicked.device
        candidates = torch.tensor([old], dtype=torch.int32, device=device).reshape(1, -1)
        batch = self._tables.batch(torch.tensor([user], device=device), candidates)
        rows, local = distinct(batch)
        news = self._tables.news[rows]
        if new:
            news = _joined(news, self._new_rows(new, news))
            fresh = torch.arange(len(rows), len(news), device=device).reshape(1, -1).to(local.candidates.dtype)
            local = Batch(local.users, local.clicked, local.skipped, torch.cat([local.candidates, fresh], dim=1))
        model = self.bundle.model.to(device)
        scores: list[float] = model.score(model.encode_news(news), local)[0].float().tolist()
        return scores

    def _new_rows(self, new: Sequence[NewTitle], like: NewsRows) -> NewsRows:
        length = like.words.shape[1]
        vocabulary = self.bundle.data.vocabulary
        in_front = self.bundle.manifest["data"]["settings"]["category_words"]
        labels = [(one.category, one.subcategory) if in_front else () for one in new]
        texts = [title_words(one.title, names) for one, names in zip(new, labels, strict=True)]
        words = [vocabulary.encode(text, length) for text in texts]
        nothing = like.rows.new_zeros(len(new))
        return NewsRows(
            rows=nothing,
            words=torch.from_numpy(np.stack(words)).to(like.words.device),
            neighbours=like.neighbours.new_zeros(len(new), like.neighbours.shape[1]),
            category=nothing,
            subcategory=nothing,
            seen=nothing.bool(),
        )

    @cached_property
    def _tables(self) -> Tables:
        return Tables.of(self.bundle.data, inference_device())

    @cached_property
    def _user_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.bundle.data.user_ids) if row}


def _joined(first: NewsRows, second: NewsRows) -> NewsRows:
    return NewsRows(
        rows=torch.cat([first.rows, second.rows]),
        words=torch.cat([first.words, second.words]),
        neighbours=torch.cat([first.neighbours, second.neighbours]),
        category=torch.cat([first.category, second.category]),
        subcategory=torch.cat([first.subcategory, second.subcategory]),
        seen=torch.cat([first.seen, second.seen]),
    )

"""Ranks news for a user with a bundle."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from drpn.batches.batch import NewsRows, distinct
from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle, pick_device
from drpn.dataset.vocabulary import title_words
from drpn.errors import SettingsError


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
    notes: tuple[str, ...] = ()
    """What of the new titles could not be used, a line each."""


@dataclass(frozen=True)
class NewTitle:
    """A story that training never saw."""

    title: str
    category: str = ""
    subcategory: str = ""


def new_titles(
    titles: Sequence[str], categories: Sequence[str] = (), subcategories: Sequence[str] = ()
) -> list[NewTitle]:
    """The titles with their labels: one label for each title, in their order, or none at all."""
    for name, labels in (("category", categories), ("subcategory", subcategories)):
        if labels and len(labels) != len(titles):
            raise SettingsError(
                f"the number of {name} labels is {len(labels)}, of titles {len(titles)}; give one label for each "
                "title, in the same order ('' for none), or none at all",
                hint=f"repeat --{name} once for each --title",
            )
    nothing = [""] * len(titles)
    return [NewTitle(*one) for one in zip(titles, categories or nothing, subcategories or nothing, strict=True)]


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
        return Ranking(user_id, len(profile - {0}) > 0, rows, tuple(dict.fromkeys(self._notes(new))))

    @torch.no_grad()
    def _score(self, user: int, old: Sequence[int], new: Sequence[NewTitle]) -> list[float]:
        device = self._tables.clicked.device
        candidates = torch.tensor([old], dtype=torch.int32, device=device).reshape(1, -1)
        batch = self._tables.batch(torch.tensor([user], device=device), candidates)
        rows, local = distinct(batch, news=len(self._tables.news), reach=self._tables.news.places)
        news = self._tables.news[rows]
        if new:
            news = _joined(news, self.read(new))
            fresh = torch.arange(len(rows), len(news), device=device).reshape(1, -1).to(local.candidates.dtype)
            local = replace(local, candidates=torch.cat([local.candidates, fresh], dim=1))
        model = self.bundle.model.to(device)
        scores: list[float] = model.score(model.encode_news(news), local)[0].float().tolist()
        return scores

    def read(self, new: Sequence[NewTitle]) -> NewsRows:
        """What the model reads of new titles: their words, labels in front as in the log, and the labels' rows."""
        like, vocabulary = self._tables.news, self.bundle.data.vocabulary
        in_front = self.bundle.manifest["data"]["settings"]["category_words"]
        words, categories, subcategories = [], [], []
        for one in new:
            labels = [name if name in rows else "" for _, name, rows in self._labels(one)]  # unknown: as if none
            text = title_words(one.title, labels if in_front else ())
            words.append(vocabulary.encode(text, like.words.shape[1]))
            categories.append(self._category_rows.get(labels[0], 0))
            subcategories.append(self._subcategory_rows.get(labels[1], 0))
        nothing = NewsRows(*(_zeros_like(getattr(like, field.name), len(new)) for field in fields(like)))
        return replace(
            nothing,
            words=torch.from_numpy(np.stack(words)).to(like.words.device),
            category=like.category.new_tensor(categories),
            subcategory=like.subcategory.new_tensor(subcategories),
        )

    def _labels(self, one: NewTitle) -> tuple[tuple[str, str, dict[str, int]], ...]:
        return (
            ("category", one.category.strip(), self._category_rows),
            ("subcategory", one.subcategory.strip(), self._subcategory_rows),
        )

    def _notes(self, new: Sequence[NewTitle]) -> Iterator[str]:
        for kind, label, known in (part for one in new for part in self._labels(one)):
            if label and label not in known:
                near = difflib.get_close_matches(label, known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                yield f"no news of the log has the {kind} '{label}'; the title is ranked without it{hint}"

    @cached_property
    def _category_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.bundle.data.arrays.strings("categories/name")) if row}

    @cached_property
    def _subcategory_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.bundle.data.arrays.strings("subcategories/name")) if row}

    @cached_property
    def _tables(self) -> Tables:
        return Tables.of(self.bundle.data, pick_device(), needs=self.bundle.model.needs)

    @cached_property
    def _user_rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.bundle.data.user_ids) if row}


def _joined(first: NewsRows, second: NewsRows) -> NewsRows:
    return NewsRows(*(torch.cat([getattr(one, field.name) for one in (first, second)]) for field in fields(first)))


def _zeros_like(table: Tensor, rows: int) -> Tensor:
    return table.new_zeros(rows, *table.shape[1:])

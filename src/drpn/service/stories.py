"""The stories that may be ranked at a moment."""

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from drpn.bundle.recommender import Recommender
from drpn.bundle.stories import NewStory, as_utc
from drpn.dataset.mentions import mentions_in
from drpn.store.records import Story

_KEPT_EXPIRED = 2 * 24 * 3600.0
"""Seconds for which expired stories are still looked at: requests may be of an earlier moment."""
_UNKNOWN = np.iinfo(np.int64).min
_FEW = 1000
"""Up to this many stories are searched one by one."""


class StoryFacts(NamedTuple):
    """Facts about a story besides its text."""

    title: str
    category: str
    published: float
    """Seconds since 1970; infinity if unknown, which counts as new."""
    expires: float
    """Seconds since 1970; infinity for never."""


class _Slots:
    """Stories that were looked up: where each is and what is known of it, by a number that is never used again.

    Requests have many candidates, and read these columns instead of an object for each story.
    """

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.facts: list[StoryFacts] = []
        self._columns = np.zeros((2, 1024), np.int64)
        self._expires = np.zeros(1024)

    def add(self, news_id: str, position: int, row: int, facts: StoryFacts) -> None:
        """Add a story, or replace what is known of it."""
        number = self.number[news_id] = len(self.facts)
        self.facts.append(facts)
        if number == len(self._expires):
            self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
            self._expires = np.concatenate([self._expires, np.zeros_like(self._expires)])
        self._columns[:, number], self._expires[number] = (position, row), facts.expires

    def pool(self, news_ids: list[str], numbers: list[int], *, has_counts: bool) -> "Pool":
        """The stories of these numbers."""
        at = np.array(numbers, np.int64)
        positions, rows = self._columns[0, at], self._columns[1, at] if has_counts else None
        return Pool(news_ids, torch.from_numpy(positions), _FactsAt(self.facts, numbers), rows, self._expires[at])


class _FactsAt(Sequence[StoryFacts]):
    """The facts of some stories, looked up when they are read: most candidates are not listed."""

    def __init__(self, facts: list[StoryFacts], numbers: list[int]) -> None:
        self._facts, self._numbers = facts, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> StoryFacts: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[StoryFacts]: ...
    def __getitem__(self, place: int | slice) -> StoryFacts | Sequence[StoryFacts]:
        if isinstance(place, slice):
            return _FactsAt(self._facts, self._numbers[place])
        return self._facts[self._numbers[place]]


@dataclass(frozen=True)
class Pool:
    """Stories to choose from."""

    news_ids: list[str]
    positions: Tensor
    """In the tables of the model."""
    facts: Sequence[StoryFacts]
    rows: NDArray[np.int64] | None
    """In the counts of the bundle; None for models without counts."""
    expires: NDArray[np.float64]
    """When each story expires."""

    def __len__(self) -> int:
        return len(self.news_ids)

    def places(self, news_ids: Set[str]) -> list[int]:
        """Where those of some stories are that are in the pool."""
        if news_ids.isdisjoint(self.news_ids):
            return []
        if len(self) < _FEW:
            return [place for place, news_id in enumerate(self.news_ids) if news_id in news_ids]
        return [self.place[news_id] for news_id in news_ids if news_id in self.place]

    @cached_property
    def place(self) -> dict[str, int]:
        """Where each story is."""
        return {news_id: place for place, news_id in enumerate(self.news_ids)}

    @cached_property
    def published(self) -> NDArray[np.float64]:
        """When each story was published."""
        return np.array([fact.published for fact in self.facts], np.float64)

    @cached_property
    def categories(self) -> NDArray[np.int64]:
        """A number for the category of each story."""
        return np.array([self.category_codes[fact.category] for fact in self.facts], np.int64)

    @cached_property
    def category_codes(self) -> dict[str, int]:
        """The number of each category."""
        return {name: code for code, name in enumerate(dict.fromkeys(fact.category for fact in self.facts))}


class LiveStories:
    """The stories of one bundle and those that were put later, without those taken down."""

    def __init__(self, recommender: Recommender) -> None:
        self._recommender = recommender
        self._facts: dict[str, StoryFacts] = {}
        self._live = dict.fromkeys(recommender.live)
        self._down: set[str] = set()
        self._pool: Pool | None = None
        self._slots = _Slots()
        bundle = recommender.bundle
        has_times = "news/first_seen" in bundle.data.arrays
        self._first_seen = bundle.published(np.arange(len(bundle.data.news_ids))) if has_times else None
        self.version = 0
        """Rises when stories are put."""

    def __len__(self) -> int:
        return len(self._live)

    def put(self, stories: Sequence[Story]) -> bool:
        """Add or replace stories, which are encoded at once; returns whether the text of a known one changed.

        A story of the bundle with the same text stays as it is: the model may know it by its id, too.
        """
        changed = [story for story in stories if not self._same_text(story)]
        known = any(story.news_id in self._recommender.stories for story in changed)
        self._recommender.add([as_new_story(story) for story in changed])
        for story in stories:
            published, expires = (
                math.inf if moment is None else as_utc(moment).timestamp()
                for moment in (story.published, story.expires)
            )
            self._facts[story.news_id] = StoryFacts(story.title, story.category or "", published, expires)
            self._live[story.news_id] = None
            self._down.discard(story.news_id)
            self._slots.number.pop(story.news_id, None)
        self._pool = None
        self.version += 1
        return known

    def _same_text(self, story: Story) -> bool:
        row = self._recommender.stories.row(story.news_id)
        data = self._recommender.bundle.data
        labels = story.title, story.category or "", story.subcategory or ""
        if not row or labels != (data.titles[row], data.category(row), data.subcategory(row)):
            return False
        return self._recommender.reader.has_content(row, story.abstract, story.vector)

    def take_down(self, news_id: str) -> None:
        """No ranking has the story until it is put again; profiles still know it."""
        self._down.add(news_id)
        self._slots.number.pop(news_id, None)
        if self._live.pop(news_id, "absent") is None:
            self._pool = None

    def may_be_ranked(self, news_id: str, seconds: float) -> bool:
        """Whether a story is known, not taken down and not expired."""
        return (
            news_id not in self._down and news_id in self._recommender.stories and self.facts(news_id).expires > seconds
        )

    def known(self, news_id: str) -> bool:
        """Whether the model has the story's text."""
        return news_id in self._recommender.stories

    def facts(self, news_id: str) -> StoryFacts:
        """Facts about a story of the catalogue."""
        facts = self._facts.get(news_id)
        if facts is None:
            data, row = self._recommender.bundle.data, self._recommender.stories.row(news_id)
            seen = None if self._first_seen is None else int(self._first_seen[row])
            published = math.inf if seen is None or seen == _UNKNOWN else float(seen)
            facts = StoryFacts(data.titles[row], data.category(row), published, math.inf)
            self._facts[news_id] = facts
        return facts

    def live(self, seconds: float = 0.0) -> Pool:
        """All live stories; some of them may have expired in the last days before `seconds`."""
        if self._pool is None:
            for news_id in [one for one in self._live if self.facts(one).expires < seconds - _KEPT_EXPIRED]:
                del self._live[news_id]
            self._pool = self.pool(self._live)
        return self._pool

    def pool(self, news_ids: Iterable[str]) -> Pool:
        """Those of some stories that are in the catalogue and not taken down; they may have expired."""
        get = self._slots.number.get
        chosen = list(dict.fromkeys(news_ids))
        numbers = [get(news_id, -1) for news_id in chosen]
        if -1 in numbers:
            self._look_up([news_id for news_id, number in zip(chosen, numbers, strict=True) if number < 0])
            chosen = [news_id for news_id in chosen if news_id in self._slots.number]
            numbers = [self._slots.number[news_id] for news_id in chosen]
        return self._slots.pool(chosen, numbers, has_counts=self._recommender.counts is not None)

    def _look_up(self, news_ids: list[str]) -> None:
        """Find stories, which are encoded if they are not yet; those that may not be ranked are left out."""
        known = [news_id for news_id in news_ids if news_id not in self._down and self.known(news_id)]
        counts = self._recommender.counts
        rows = [0] * len(known) if counts is None else counts.rows(known).tolist()
        for news_id, position, row in zip(known, self._recommender.stories.positions(known), rows, strict=True):
            self._slots.add(news_id, position, row, self.facts(news_id))


def as_new_story(story: Story) -> NewStory:
    """A story of the store as a bundle takes it."""
    return NewStory(
        story.title,
        story.category or "",
        story.subcategory or "",
        story.news_id,
        story.published,
        mentions_in(story.entities) or (),
        story.abstract or "",
        story.vector,
    )

"""Facts about candidate stories that mixing reads: labels and titles, ages, clicks, and the user's categories."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drpn.bundle.files import Bundle
from drpn.bundle.mixing import Candidates, Mix
from drpn.bundle.stories import NewStory, StoryReader, as_utc
from drpn.dataset.contents import ContentReader, Contents

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KnownStory = int | NewStory
"""A story of the bundle by row, or one that came later."""


class StoryFacts:
    """Reads facts about the stories of a bundle and about stories that came later."""

    def __init__(self, bundle: Bundle, reader: StoryReader) -> None:
        self._bundle, self._reader = bundle, reader

    def contents(self, stories: Sequence[KnownStory]) -> Contents:
        """Return labels and titles."""
        rows = np.array([story if isinstance(story, int) else 0 for story in stories], dtype=np.int64)
        arrays, contents = self._bundle.data.arrays, self._contents
        columns = (contents.words, arrays.array("news/category"), arrays.array("news/subcategory"))
        words, category, subcategory = (np.array(array[rows]) for array in columns)
        later = {place: story for place, story in enumerate(stories) if isinstance(story, NewStory)}
        if later:
            places, read = list(later), self._reader.rows(list(later.values()))
            words[places] = [contents.title(story.title) for story in later.values()]
            category[places], subcategory[places] = read.category.numpy(), read.subcategory.numpy()
        return contents.read(words, category, subcategory)

    def published(self, rows: Ints, story: Callable[[int], KnownStory]) -> Ints:
        """Return the times of publication, seconds since 1970; the lowest number stands for an unknown time.

        `rows` are those of the stories in the bundle, 0 for later ones, which `story` returns by their place. A later
        story without a time counts as the newest.
        """
        result = self._bundle.published(rows)
        for place in np.flatnonzero(rows == 0).tolist():
            later = story(place)
            if isinstance(later, NewStory):
                known = later.published
                result[place] = np.iinfo(np.int64).max if known is None else int(as_utc(known).timestamp())
        return result

    def clicks(self, rows: Ints) -> Ints:
        """Return the clicks of the last 24 hours of the log, which are 0 for later stories (row 0)."""
        return self._bundle.recent_clicks(rows)

    def category_shares(self, clicked: Sequence[KnownStory]) -> Floats:
        """Return the share of each category in a user's clicks; without clicks, in the clicks of all users."""
        size = len(self._bundle.data.arrays.strings("categories/name"))
        counts = self._all_clicks
        if clicked:
            counts = np.bincount(self.contents(clicked).category, minlength=size).astype(np.float64)
        shares: Floats = counts / counts.sum()
        return shares

    @cached_property
    def _all_clicks(self) -> Floats:
        arrays = self._bundle.data.arrays
        category, clicks = arrays.array("news/category"), arrays.array("news/times_clicked")
        size = len(arrays.strings("categories/name"))
        counts = np.bincount(category, clicks, minlength=size).astype(np.float64)
        return counts if counts.any() else np.ones(size)

    @cached_property
    def _contents(self) -> ContentReader:
        return ContentReader.of(self._bundle.data)


class PoolFacts:
    """Facts about the stories that are ranked for several users."""

    def __init__(
        self, facts: StoryFacts, story: Callable[[int], KnownStory], rows: Callable[[], list[int]], mix: Mix
    ) -> None:
        """`story` returns a candidate by its place; `rows` those of all candidates in the bundle, 0 for later ones."""
        self._facts, self._story = facts, story
        every = np.array(rows() if mix.fresh or mix.popular else [], dtype=np.int64)
        self._published = facts.published(every, story) if mix.fresh else None
        self._clicks = facts.clicks(every) if mix.popular else None

    def ranked(self, order: Ints, scores: Floats, clicked: Sequence[KnownStory]) -> Candidates:
        """Return the stories in the order of one user, who clicked some stories."""
        published, clicks = (None if facts is None else facts[order] for facts in (self._published, self._clicks))
        return Candidates(
            scores=scores,
            published=published,
            clicks=clicks,
            contents=lambda places: self._facts.contents([self._story(index) for index in order[places].tolist()]),
            target=lambda: self._facts.category_shares(clicked),
        )

"""Facts about candidate stories that mixing reads: labels and titles, ages, clicks, and the user's categories."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drpn.batches.tables import news_rows
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

    def __init__(self, bundle: Bundle, category_words: bool) -> None:
        self._bundle, self._category_words = bundle, category_words

    def contents(self, stories: Sequence[KnownStory]) -> Contents:
        """Return labels and titles."""
        rows = _rows(stories)
        later = [(place, story) for place, story in enumerate(stories) if isinstance(story, NewStory)]
        arrays = self._bundle.data.arrays
        columns = [
            np.array(array[rows])
            for array in (
                self._bundle.data.news_words,
                arrays.array("news/category"),
                arrays.array("news/subcategory"),
            )
        ]
        if later:
            places, new = zip(*later, strict=True)
            read = self.reader.rows(new)
            for column, values in zip(columns, (read.words, read.category, read.subcategory), strict=True):
                column[list(places)] = values.numpy()
        return self._contents.read(*columns)

    def published(self, stories: Sequence[KnownStory]) -> Ints:
        """Return the times of publication, seconds since 1970; a later story without a time counts as the newest.

        The lowest number stands for an unknown time.
        """
        rows = _rows(stories)
        result = self._bundle.published(rows)
        for place in np.flatnonzero(rows == 0).tolist():
            story = stories[place]
            if isinstance(story, NewStory):
                known = story.published
                result[place] = np.iinfo(np.int64).max if known is None else int(as_utc(known).timestamp())
        return result

    def clicks(self, stories: Sequence[KnownStory]) -> Ints:
        """Return the clicks of the last 24 hours of the log, which are 0 for later stories."""
        return self._bundle.recent_clicks(_rows(stories))

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

    @cached_property
    def reader(self) -> StoryReader:
        """Reads titles as long as those of the dataset; the model may read fewer words."""
        like = news_rows(self._bundle.data, needs=()).part(slice(1))
        return StoryReader(self._bundle.data, like, self._category_words)


class PoolFacts:
    """Facts about the stories that are ranked for several users."""

    def __init__(self, facts: StoryFacts, pool: Sequence[KnownStory], mix: Mix) -> None:
        self._facts, self._pool = facts, pool
        self._published = facts.published(pool) if mix.fresh else None
        self._clicks = facts.clicks(pool) if mix.popular else None

    def ranked(self, order: Ints, scores: Floats, clicked: Sequence[KnownStory]) -> Candidates:
        """Return the stories in the order of one user, who clicked some stories."""
        published, clicks = (None if facts is None else facts[order] for facts in (self._published, self._clicks))
        return Candidates(
            scores=scores,
            published=published,
            clicks=clicks,
            contents=lambda places: self._facts.contents([self._pool[index] for index in order[places].tolist()]),
            target=lambda: self._facts.category_shares(clicked),
        )


def _rows(stories: Sequence[KnownStory]) -> Ints:
    """Return the rows of stories in the bundle; 0 for those that came later."""
    return np.array([story if isinstance(story, int) else 0 for story in stories], dtype=np.int64)

"""Which stories stand on a page: drawn by weight, none twice, and none that the user has clicked before."""

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.readers import Readers
from drpn.logs.simulate.stories import Stories, StorySampler

_MOST_ROUNDS, _WEIGHTED_ROUNDS = 60, 12
"""Rounds of replacing stories that may not be on the page; the first of them draw by weight."""
_PLANNED_ROUNDS, _MOST_DRAWS = 20, 40
"""Rounds for pages with a planned number of interesting stories, and draws in each round until a story fits."""


class ClickedPairs:
    """(user, story) pairs clicked so far: the site does not show such a story to the user again."""

    def __init__(self, stories: int) -> None:
        self._stories = stories
        self._keys: NDArray[np.int64] = np.array([-1])

    def contains(self, user: NDArray[np.int64], story: NDArray[np.int64]) -> NDArray[np.bool_]:
        key = user * self._stories + story
        index = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.asarray(self._keys[index] == key)

    def add(self, user: NDArray[np.int64], story: NDArray[np.int64]) -> None:
        new = np.unique(user * self._stories + story)
        self._keys = np.insert(self._keys, np.searchsorted(self._keys, new), new)


class PageFiller:
    """Fills the pages of the users."""

    def __init__(self, stories: Stories, readers: Readers, targeting: float) -> None:
        self._stories = stories
        self._readers = readers
        self._targeting = targeting
        self.clicked = ClickedPairs(len(stories))

    def fill(
        self,
        rng: np.random.Generator,
        users: NDArray[np.int64],
        length: NDArray[np.int64],
        sampler: StorySampler,
        interesting: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Page and story of every row, sorted by page; a page that cannot be filled is shorter.

        `interesting` is the number of stories of each page that interest the user; None: as the draws have it.
        """
        page = np.repeat(np.arange(len(users)), length)
        user = users[page]
        rows = np.arange(len(page))
        if interesting is None:
            wanted = None
            targeted = rng.random(len(page)) < self._targeting
            story = sampler.draw(rng, np.where(targeted, self._readers.draw_liked(rng, user), -1))
        else:
            wanted = _choose(rng, page, interesting)
            story = sampler.draw_any(rng, len(page))
            self._redraw(rng, user, story, wanted, rows, sampler)
        for number in range(_MOST_ROUNDS if wanted is None else _PLANNED_ROUNDS):
            rejected = rows[_is_repeat(page[rows] * len(self._stories) + story[rows])]
            rejected = np.union1d(rejected, rows[self.clicked.contains(user[rows], story[rows])])
            if wanted is not None:
                rejected = np.union1d(rejected, rows[self._interests(user[rows], story[rows]) != wanted[rows]])
            if not len(rejected):
                return page, story
            draw = sampler.draw_any if number < _WEIGHTED_ROUNDS else sampler.draw_uniformly
            story[rejected] = draw(rng, len(rejected))
            if wanted is not None:
                self._redraw(rng, user, story, wanted, rejected, sampler)
            changed = np.zeros(len(users), dtype=bool)
            changed[page[rejected]] = True
            rows = np.flatnonzero(changed[page])
        keep = np.ones(len(page), dtype=bool)
        keep[rejected] = False
        if wanted is not None:
            # a page that lacks interesting stories loses others, so that the share of interesting ones stays as planned
            lacking = 1 - _mean_per_page(page[wanted], keep[wanted], len(users))
            keep &= wanted | (rng.random(len(page)) >= lacking[page])
        return page[keep], story[keep]

    def _interests(self, user: NDArray[np.int64], story: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each story interests its user."""
        feeling = self._readers.expected_feeling(self._stories, user, story)
        return np.asarray(feeling + self._readers.mood(self._stories, user, story) > 0)

    def _redraw(
        self,
        rng: np.random.Generator,
        user: NDArray[np.int64],
        story: NDArray[np.int64],
        wanted: NDArray[np.bool_],
        rows: NDArray[np.int64],
        sampler: StorySampler,
    ) -> None:
        """Draw the stories of the rows again, by weight, until the interest of the user is as wanted."""
        for _ in range(_MOST_DRAWS):
            rows = rows[self._interests(user[rows], story[rows]) != wanted[rows]]
            if not len(rows):
                return
            story[rows] = sampler.draw_any(rng, len(rows))


def _choose(rng: np.random.Generator, page: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for `count` random rows of each page; rows are sorted by page."""
    chosen = np.zeros(len(page), dtype=bool)
    chosen[sample_per_page(rng, np.arange(len(page)), page, count)] = True
    return chosen


def sample_per_page(
    rng: np.random.Generator, rows: NDArray[np.int64], page: NDArray[np.int64], count: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`count` of the rows of each page, all equally likely."""
    rows = rows[np.argsort(page[rows] + rng.random(len(rows)), kind="stable")]
    row_page = page[rows]
    rank = np.arange(len(rows)) - np.searchsorted(row_page, row_page)
    return rows[rank < count[row_page]]


def _mean_per_page(page: NDArray[np.int64], flag: NDArray[np.bool_], pages: int) -> NDArray[np.float64]:
    """The share of the rows of each page that have the flag; 1 for a page without rows."""
    rows, flagged = np.bincount(page, minlength=pages), np.bincount(page, flag, minlength=pages)
    return np.divide(flagged, rows, out=np.ones(pages), where=rows > 0)


def _is_repeat(key: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True at every occurrence of a value after its first."""
    order = np.argsort(key, kind="stable")
    same = np.zeros(len(key), dtype=bool)
    same[order[1:]] = key[order[1:]] == key[order[:-1]]
    return same

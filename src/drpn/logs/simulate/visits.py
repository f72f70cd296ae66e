"""Visits: the stories on a page, how far the user looks, and which stories are clicked and why."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.readers import Readers, opinions
from drpn.logs.simulate.settings import SimulationSettings
from drpn.logs.simulate.stories import Stories, StorySampler

PAGE_LENGTHS = [2, 2, 4, 6, 7, 10, 12, 15, 18, 21, 24, 28, 32, 38, 44, 51, 62, 76, 93, 121, 172, 283]
PAGE_QUANTILES = [*np.arange(0, 0.96, 0.05), 0.99, 1.0]
"""Distribution of the number of stories on a page: quantiles with linear interpolation, as in MIND."""

READ_ON = 66.0
"""After a click on a page of n stories a user looks for another with probability n / (n + READ_ON / eagerness)."""

EAGERNESS_OF_VISITS = 0.35
"""Eagerness is visits^EAGERNESS_OF_VISITS, divided by its mean: frequent visitors click more."""

MOST_CLICKS = 18
"""Maximum number of clicks in one visit."""

BAIT_PART = 0.5
"""Share of the noise clicks that go to clickbait, if the page has any."""

CAUSES = ["interest", "accident", "clickbait", "missed", "disliked", "indifferent"]
"""Why a story was clicked (the first three) or skipped."""

_INTEREST, _ACCIDENT, _BAIT, _MISSED, _DISLIKED, _INDIFFERENT = range(6)
_MOST_PAGES = 40
"""Pages that a visit tries until one gets a click."""
_MOST_ROUNDS, _WEIGHTED_ROUNDS = 60, 12
"""Rounds of replacing stories that may not be on the page; the first of them draw by weight."""


@dataclass(frozen=True)
class Visits:
    """Visits of one hour, sorted by time."""

    user: NDArray[np.int64]
    second: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Shown:
    """Stories shown in visits, one row per visit and story."""

    visit: NDArray[np.int64]
    story: NDArray[np.int64]
    place: NDArray[np.int64]
    seen: NDArray[np.bool_]
    clicked: NDArray[np.bool_]
    opinion: NDArray[np.int8]
    cause: NDArray[np.int8]
    appeal: NDArray[np.float32]

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Shown":
        """The given rows."""
        return Shown(*(getattr(self, field.name)[rows] for field in fields(self)))

    @staticmethod
    def concatenate(parts: "list[Shown]") -> "Shown":
        """The rows of all parts."""
        return Shown(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Shown)))


@dataclass(frozen=True)
class VisitPlans:
    """Drawn before each visit: page length, maximum number of clicks, and the intended cause of each click."""

    length: NDArray[np.int64]
    clicks: NDArray[np.int64]
    cause: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "VisitPlans":
        """The plans of the given visits."""
        return VisitPlans(self.length[rows], self.clicks[rows], self.cause[rows])


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


class Site:
    """The front page and its users; visits are simulated hour by hour."""

    def __init__(self, stories: Stories, readers: Readers, settings: SimulationSettings) -> None:
        self._stories = stories
        self._readers = readers
        self._settings = settings
        self._clicked = ClickedPairs(len(stories))
        eagerness = readers.visits**EAGERNESS_OF_VISITS
        self._eagerness = eagerness / np.average(eagerness, weights=readers.visits)

    def simulate(self, rng: np.random.Generator, visits: Visits, sampler: StorySampler) -> Shown:
        """The stories shown in the visits of one hour, sorted by visit, in random order within a page.

        A page without a click is not logged. The user gets another page, up to 40 times.
        """
        plans = self._plan(rng, visits, len(sampler))
        pending = np.arange(len(visits))
        parts: list[Shown] = []
        for _ in range(_MOST_PAGES):
            shown = self._show_pages(rng, visits.user, pending, plans.take(pending), sampler)
            has_click = np.zeros(len(visits), dtype=bool)
            has_click[shown.visit[shown.clicked]] = True
            parts.append(shown.take(has_click[shown.visit]))
            pending = pending[~has_click[pending]]
            if not len(pending):
                break
        shown = Shown.concatenate(parts)
        shown = shown.take(np.lexsort((rng.random(len(shown.visit)), shown.visit)))
        self._clicked.add(visits.user[shown.visit[shown.clicked]], shown.story[shown.clicked])
        return shown

    def _plan(self, rng: np.random.Generator, visits: Visits, stories: int) -> VisitPlans:
        length = np.floor(np.interp(rng.random(len(visits)), PAGE_QUANTILES, PAGE_LENGTHS) + 0.5).astype(np.int64)
        length = np.maximum(2, np.minimum(length, stories // 3))
        read_on = length / (length + READ_ON / self._eagerness[visits.user])
        clicks = np.minimum(rng.geometric(1 - read_on), np.minimum(MOST_CLICKS, length - 1))
        uniform = rng.random((len(visits), MOST_CLICKS))
        noise = self._settings.accidents
        cause = np.where(uniform >= noise, _INTEREST, np.where(uniform < noise * BAIT_PART, _BAIT, _ACCIDENT))
        return VisitPlans(length, clicks, cause)

    def _show_pages(
        self,
        rng: np.random.Generator,
        users: NDArray[np.int64],
        pending: NDArray[np.int64],
        plans: VisitPlans,
        sampler: StorySampler,
    ) -> Shown:
        """One page for each pending visit."""
        page, story = self._fill_pages(rng, users[pending], plans.length, sampler)
        visit, user = pending[page], users[pending][page]
        length = np.bincount(page, minlength=len(pending))
        place = np.arange(len(page)) - np.repeat(np.cumsum(length) - length, length)
        # users look at the share U^(1/a - 1) of the page; its mean is a, the attention
        reach = rng.random(len(pending)) ** (1 / self._settings.attention - 1)
        seen = place < np.ceil(reach * length)[page]
        expected = self._readers.expected_feeling(self._stories, user, story)
        opinion = opinions(expected + self._readers.mood(self._stories, user, story))
        bait = self._stories.clickbait[story]
        cause = self._causes(rng, page, plans, seen, opinion, bait)
        return Shown(
            visit=visit,
            story=story,
            place=place,
            seen=seen,
            clicked=cause <= _BAIT,
            opinion=opinion,
            cause=cause,
            appeal=self._appeal(page, expected, bait),
        )

    def _fill_pages(
        self, rng: np.random.Generator, users: NDArray[np.int64], length: NDArray[np.int64], sampler: StorySampler
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Page and story of every row; no story twice on a page, and none that the user has clicked before."""
        page = np.repeat(np.arange(len(users)), length)
        user = users[page]
        targeted = rng.random(len(page)) < self._settings.targeting
        story = sampler.draw(rng, np.where(targeted, self._readers.draw_liked(rng, user), -1))
        rows = np.arange(len(page))
        for number in range(_MOST_ROUNDS):
            rejected = rows[_is_repeat(page[rows] * len(self._stories) + story[rows])]
            rejected = np.union1d(rejected, rows[self._clicked.contains(user[rows], story[rows])])
            if not len(rejected):
                return page, story
            any_subtopic = np.full(len(rejected), -1)
            weighted = number < _WEIGHTED_ROUNDS
            story[rejected] = (
                sampler.draw(rng, any_subtopic) if weighted else sampler.draw_uniformly(rng, len(rejected))
            )
            changed = np.zeros(len(users), dtype=bool)
            changed[page[rejected]] = True
            rows = np.flatnonzero(changed[page])
        keep = np.setdiff1d(np.arange(len(page)), rejected)
        return page[keep], story[keep]

    def _causes(
        self,
        rng: np.random.Generator,
        page: NDArray[np.int64],
        plans: VisitPlans,
        seen: NDArray[np.bool_],
        opinion: NDArray[np.int8],
        bait: NDArray[np.bool_],
    ) -> NDArray[np.int8]:
        """The cause of each click and each skip.

        A click for interest takes any interesting story that was seen, one for clickbait any clickbait, an accident any
        other story that does not interest the user. If no story fits the next planned click, the visit ends.
        """
        pages = len(plans.length)
        good, poor = seen & (opinion == 1), seen & (opinion < 1)
        poor_bait = poor & bait
        goods, poors, baits = (np.bincount(page[kind], minlength=pages)[:, None] for kind in (good, poor, poor_bait))
        planned = plans.cause.copy()
        planned[(planned == _BAIT) & (np.cumsum(planned == _BAIT, axis=1) > baits)] = _ACCIDENT
        interested, noise = planned == _INTEREST, planned != _INTEREST
        possible = np.where(interested, np.cumsum(interested, axis=1) <= goods, np.cumsum(noise, axis=1) <= poors)
        possible &= np.arange(MOST_CLICKS) < plans.clicks[:, None]
        performed = np.logical_and.accumulate(possible, axis=1)

        cause = np.select([opinion == 1, opinion == -1], [_MISSED, _DISLIKED], _INDIFFERENT).astype(np.int8)
        for number, eligible in ((_INTEREST, good), (_BAIT, poor_bait), (_ACCIDENT, poor)):
            rows = np.flatnonzero(eligible & (cause > _BAIT))
            count = (performed & (planned == number)).sum(axis=1)
            cause[_sample_per_page(rng, rows, page, count)] = number
        return cause

    def _appeal(
        self, page: NDArray[np.int64], expected: NDArray[np.float64], bait: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """The expected share of each story in the clicks of its page, given neither the mood nor how far users look."""
        noise = self._settings.accidents
        good = 1 / (1 + np.exp(-expected))  # the probability that the mood makes it interesting
        poor, poor_bait = 1 - good, (1 - good) * bait
        bait_noise = noise * BAIT_PART * _any_on_page(page, bait)
        appeal = (1 - noise) * _share_of_page(page, good) + bait_noise * _share_of_page(page, poor_bait)
        return (appeal + (noise - bait_noise) * _share_of_page(page, poor)).astype(np.float32)


def _is_repeat(key: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True at every occurrence of a value after its first."""
    order = np.argsort(key, kind="stable")
    same = np.zeros(len(key), dtype=bool)
    same[order[1:]] = key[order[1:]] == key[order[:-1]]
    return same


def _sample_per_page(
    rng: np.random.Generator, rows: NDArray[np.int64], page: NDArray[np.int64], count: NDArray[np.int64]
) -> NDArray[np.int64]:
    """`count` of the rows of each page, all equally likely."""
    rows = rows[np.argsort(page[rows] + rng.random(len(rows)), kind="stable")]
    row_page = page[rows]
    rank = np.arange(len(rows)) - np.searchsorted(row_page, row_page)
    return rows[rank < count[row_page]]


def _any_on_page(page: NDArray[np.int64], flag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(np.bincount(page, flag)[page] > 0)


def _share_of_page(page: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights normalised to sum to 1 over each page, or to 0 where all are 0."""
    total = np.bincount(page, weight)[page]
    return np.asarray(np.divide(weight, total, out=np.zeros_like(weight), where=total > 0))

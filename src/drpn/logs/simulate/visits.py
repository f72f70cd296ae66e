"""Visits: the stories on a page, how far the user looks, and which stories are clicked and why."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.pages import PageFiller, sample_per_page
from drpn.logs.simulate.readers import Readers
from drpn.logs.simulate.settings import SimulationSettings
from drpn.logs.simulate.stories import Stories, StorySampler

PAGE_LENGTHS = [2, 2, 4, 6, 7, 10, 12, 15, 18, 21, 24, 28, 32, 38, 44, 51, 62, 76, 93, 121, 172, 283]
PAGE_QUANTILES = [*np.arange(0, 0.96, 0.05), 0.99, 1.0]
"""Distribution of the number of stories on a page: quantiles with linear interpolation, as in MIND."""

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
    interesting: NDArray[np.int64] | None
    """Number of stories of the page that interest the user; None: not planned."""

    def take(self, rows: NDArray[np.int64]) -> "VisitPlans":
        """The plans of the given visits."""
        interesting = None if self.interesting is None else self.interesting[rows]
        return VisitPlans(self.length[rows], self.clicks[rows], self.cause[rows], interesting)


class Site:
    """The front page and its users; visits are simulated hour by hour."""

    def __init__(self, stories: Stories, readers: Readers, settings: SimulationSettings) -> None:
        self._stories = stories
        self._readers = readers
        self._settings = settings
        self._pages = PageFiller(stories, readers, settings.targeting)
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
        self._pages.clicked.add(visits.user[shown.visit[shown.clicked]], shown.story[shown.clicked])
        return shown

    def _plan(self, rng: np.random.Generator, visits: Visits, stories: int) -> VisitPlans:
        habits = self._settings.newsroom.habits
        stories_of_mind = np.interp(rng.random(len(visits)), PAGE_QUANTILES, PAGE_LENGTHS)
        length = np.floor(stories_of_mind * habits.page + 0.5).astype(np.int64)
        length = np.maximum(2, np.minimum(length, stories // 3))
        read_on = length / (length + habits.read_on / self._eagerness[visits.user])
        clicks = np.minimum(rng.geometric(1 - read_on), np.minimum(MOST_CLICKS, length - 1))
        uniform = rng.random((len(visits), MOST_CLICKS))
        noise = self._settings.click_noise
        cause = np.where(uniform >= noise, _INTEREST, np.where(uniform < noise * BAIT_PART, _BAIT, _ACCIDENT))
        interesting = None
        if self._settings.feedback_noise is not None:
            # of the stories that will be skipped, a share of `noise` interests the user
            wanted = (cause == _INTEREST) & (np.arange(MOST_CLICKS) < clicks[:, None])
            interesting = wanted.sum(axis=1) + rng.binomial(length - clicks, noise)
        return VisitPlans(length, clicks, cause, interesting)

    def _show_pages(
        self,
        rng: np.random.Generator,
        users: NDArray[np.int64],
        pending: NDArray[np.int64],
        plans: VisitPlans,
        sampler: StorySampler,
    ) -> Shown:
        """One page for each pending visit."""
        page, story = self._pages.fill(rng, users[pending], plans.length, sampler, plans.interesting)
        visit, user = pending[page], users[pending][page]
        length = np.bincount(page, minlength=len(pending))
        place = np.arange(len(page)) - np.repeat(np.cumsum(length) - length, length)
        # users look at the share U^(1/a - 1) of the page; its mean is a, the attention
        attention = self._settings.attention if plans.interesting is None else 1.0
        reach = rng.random(len(pending)) ** (1 / attention - 1)
        seen = place < np.ceil(reach * length)[page]
        expected = self._readers.expected_feeling(self._stories, user, story)
        opinion = self._readers.opinions(expected + self._readers.mood(self._stories, user, story))
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
            cause[sample_per_page(rng, rows, page, count)] = number
        return cause

    def _appeal(
        self, page: NDArray[np.int64], expected: NDArray[np.float64], bait: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """The expected share of each story in the clicks of its page, given neither the mood nor how far users look."""
        noise = self._settings.click_noise
        good = 1 / (1 + np.exp(-expected))  # the probability that the mood makes it interesting
        poor, poor_bait = 1 - good, (1 - good) * bait
        bait_noise = noise * BAIT_PART * _any_on_page(page, bait)
        appeal = (1 - noise) * _share_of_page(page, good) + bait_noise * _share_of_page(page, poor_bait)
        return (appeal + (noise - bait_noise) * _share_of_page(page, poor)).astype(np.float32)


def _any_on_page(page: NDArray[np.int64], flag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(np.bincount(page, flag)[page] > 0)


def _share_of_page(page: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights normalised to sum to 1 over each page, or to 0 where all are 0."""
    total = np.bincount(page, weight)[page]
    return np.asarray(np.divide(weight, total, out=np.zeros_like(weight), where=total > 0))

"""Visits: what the page shows, how far the eyes go, what is clicked and why."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.readers import Readers, opinion_of
from drpn.logs.simulate.settings import SimulationSettings
from drpn.logs.simulate.stories import Shelf, Stories

PAGE_LENGTHS = [2, 2, 4, 6, 7, 10, 12, 15, 18, 21, 24, 28, 32, 38, 44, 51, 62, 76, 93, 121, 172, 283]
PAGE_CHANCES = [*np.arange(0, 0.96, 0.05), 0.99, 1.0]
"""How many stories a page shows: the lengths reached with these chances, straight lines between; as in MIND."""

READ_ON = 66.0
"""After a click on a page of n stories a user looks for another one with chance n / (n + READ_ON / eagerness)."""

EAGERNESS_OF_VISITS = 0.35
"""Eagerness is visits to the power of this, over its mean: who comes often clicks more."""

MOST_CLICKS = 18
"""Clicks in one visit."""

BAIT_PART = 0.5
"""Share of the unwanted clicks that fall on clickbait, where the page has some."""

CAUSES = ["interest", "accident", "clickbait", "missed", "disliked", "indifferent"]
"""Why a story was clicked (the first three) or skipped."""

_INTEREST, _ACCIDENT, _BAIT, _MISSED, _DISLIKED, _INDIFFERENT = range(6)
_RETURNS = 40
_ROUNDS, _ROUNDS_BY_WEIGHT = 60, 12


@dataclass(frozen=True)
class Visits:
    """Visits of one hour, in the order of time."""

    user: NDArray[np.int64]
    second: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Shown:
    """What was shown in some visits, a row for each story and visit."""

    visit: NDArray[np.int64]
    story: NDArray[np.int64]
    place: NDArray[np.int64]
    seen: NDArray[np.bool_]
    clicked: NDArray[np.bool_]
    opinion: NDArray[np.int8]
    cause: NDArray[np.int8]
    appeal: NDArray[np.float32]

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Shown":
        """Some of the rows."""
        return Shown(*(getattr(self, field.name)[rows] for field in fields(self)))

    @staticmethod
    def join(parts: "list[Shown]") -> "Shown":
        """All rows of all parts."""
        return Shown(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Shown)))


@dataclass(frozen=True)
class Wishes:
    """What each visit is out for, decided beforehand: so many clicks at most, each for interest or not."""

    length: NDArray[np.int64]
    clicks: NDArray[np.int64]
    kind: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "Wishes":
        """Some of the visits."""
        return Wishes(self.length[rows], self.clicks[rows], self.kind[rows])


class Clicked:
    """Which user clicked which story so far: the site does not show it to them again."""

    def __init__(self, stories: int) -> None:
        self._stories = stories
        self._keys: NDArray[np.int64] = np.array([-1])

    def has(self, user: NDArray[np.int64], story: NDArray[np.int64]) -> NDArray[np.bool_]:
        key = user * self._stories + story
        spot = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.asarray(self._keys[spot] == key)

    def add(self, user: NDArray[np.int64], story: NDArray[np.int64]) -> None:
        new = np.unique(user * self._stories + story)
        self._keys = np.insert(self._keys, np.searchsorted(self._keys, new), new)


class Site:
    """The front page and its users; visits are played hour by hour."""

    def __init__(self, stories: Stories, readers: Readers, settings: SimulationSettings) -> None:
        self._stories = stories
        self._readers = readers
        self._settings = settings
        self._clicked = Clicked(len(stories))
        eagerness = readers.visits**EAGERNESS_OF_VISITS
        self._eagerness = eagerness / np.average(eagerness, weights=readers.visits)

    def play(self, rng: np.random.Generator, visits: Visits, shelf: Shelf) -> Shown:
        """What the visits of one hour showed and brought, in the order of the visits, each page shuffled.

        A visit without a click leaves no line in the log. The user comes back to another page, up to 40 times.
        """
        wishes = self._wishes(rng, visits, len(shelf))
        waiting = np.arange(len(visits))
        parts: list[Shown] = []
        for _ in range(_RETURNS):
            shown = self._visit(rng, visits.user, waiting, wishes.take(waiting), shelf)
            happy = np.zeros(len(visits), dtype=bool)
            happy[shown.visit[shown.clicked]] = True
            parts.append(shown.take(happy[shown.visit]))
            waiting = waiting[~happy[waiting]]
            if not len(waiting):
                break
        shown = Shown.join(parts)
        shown = shown.take(np.lexsort((rng.random(len(shown.visit)), shown.visit)))
        self._clicked.add(visits.user[shown.visit[shown.clicked]], shown.story[shown.clicked])
        return shown

    def _wishes(self, rng: np.random.Generator, visits: Visits, stories: int) -> Wishes:
        length = np.floor(np.interp(rng.random(len(visits)), PAGE_CHANCES, PAGE_LENGTHS) + 0.5).astype(np.int64)
        length = np.maximum(2, np.minimum(length, stories // 3))
        read_on = length / (length + READ_ON / self._eagerness[visits.user])
        clicks = np.minimum(rng.geometric(1 - read_on), np.minimum(MOST_CLICKS, length - 1))
        uniform = rng.random((len(visits), MOST_CLICKS))
        unwanted = self._settings.accidents
        kind = np.where(uniform >= unwanted, _INTEREST, np.where(uniform < unwanted * BAIT_PART, _BAIT, _ACCIDENT))
        return Wishes(length, clicks, kind)

    def _visit(
        self,
        rng: np.random.Generator,
        users: NDArray[np.int64],
        waiting: NDArray[np.int64],
        wishes: Wishes,
        shelf: Shelf,
    ) -> Shown:
        local, story = self._page(rng, users[waiting], wishes.length, shelf)
        visit, user = waiting[local], users[waiting][local]
        length = np.bincount(local, minlength=len(waiting))
        place = np.arange(len(local)) - np.repeat(np.cumsum(length) - length, length)
        # eyes reach the share U^(1/a - 1) of the page, whose mean is a, the attention
        reach = rng.random(len(waiting)) ** (1 / self._settings.attention - 1)
        seen = place < np.ceil(reach * length)[local]
        expected = self._readers.expected_feeling(self._stories, user, story)
        opinion = opinion_of(expected + self._readers.mood(self._stories, user, story))
        bait = self._stories.clickbait[story]
        cause = self._clicks(rng, local, wishes, seen, opinion, bait)
        return Shown(
            visit=visit,
            story=story,
            place=place,
            seen=seen,
            clicked=cause <= _BAIT,
            opinion=opinion,
            cause=cause,
            appeal=self._appeal(local, expected, bait),
        )

    def _page(
        self, rng: np.random.Generator, users: NDArray[np.int64], length: NDArray[np.int64], shelf: Shelf
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Stories drawn one after the other, none twice on a page, none that the user has clicked before."""
        visit = np.repeat(np.arange(len(users)), length)
        user = users[visit]
        targeted = rng.random(len(visit)) < self._settings.targeting
        story = shelf.draw(rng, np.where(targeted, self._readers.some_liked(rng, user), -1))
        rows = np.arange(len(visit))
        for number in range(_ROUNDS):
            again = rows[_repeated(visit[rows] * len(self._stories) + story[rows])]
            again = np.union1d(again, rows[self._clicked.has(user[rows], story[rows])])
            if not len(again):
                return visit, story
            by_weight = number < _ROUNDS_BY_WEIGHT
            anything = np.full(len(again), -1)
            story[again] = shelf.draw(rng, anything) if by_weight else shelf.draw_evenly(rng, len(again))
            touched = np.zeros(len(users), dtype=bool)
            touched[visit[again]] = True
            rows = np.flatnonzero(touched[visit])
        keep = np.setdiff1d(np.arange(len(visit)), again)
        return visit[keep], story[keep]

    def _clicks(
        self,
        rng: np.random.Generator,
        visit: NDArray[np.int64],
        wishes: Wishes,
        seen: NDArray[np.bool_],
        opinion: NDArray[np.int8],
        bait: NDArray[np.bool_],
    ) -> NDArray[np.int8]:
        """The cause of each click and each skip.

        A click for interest takes any of the interesting stories that were seen, one for clickbait any clickbait, an
        accident any other that does not interest the user. Where nothing fits the next click, the visit ends.
        """
        visits = len(wishes.length)
        good, poor = seen & (opinion == 1), seen & (opinion < 1)
        enticing = poor & bait
        goods, poors, baits = (np.bincount(visit[kind], minlength=visits)[:, None] for kind in (good, poor, enticing))
        kind = wishes.kind.copy()
        kind[(kind == _BAIT) & (np.cumsum(kind == _BAIT, axis=1) > baits)] = _ACCIDENT
        interested, unwanted = kind == _INTEREST, kind != _INTEREST
        fits = np.where(interested, np.cumsum(interested, axis=1) <= goods, np.cumsum(unwanted, axis=1) <= poors)
        fits &= np.arange(MOST_CLICKS) < wishes.clicks[:, None]
        made = np.logical_and.accumulate(fits, axis=1)

        cause = np.select([opinion == 1, opinion == -1], [_MISSED, _DISLIKED], _INDIFFERENT).astype(np.int8)
        for number, may in ((_INTEREST, good), (_BAIT, enticing), (_ACCIDENT, poor)):
            rows = np.flatnonzero(may & (cause > _BAIT))
            wanted = (made & (kind == number)).sum(axis=1)
            cause[_some_of_each(rng, rows, visit, wanted)] = number
        return cause

    def _appeal(
        self, visit: NDArray[np.int64], expected: NDArray[np.float64], bait: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """The expected share of each story in the clicks of its page, eyes and mood being unknown."""
        unwanted = self._settings.accidents
        good = 1 / (1 + np.exp(-expected))  # the chance that the mood makes it interesting
        poor, enticing = 1 - good, (1 - good) * bait
        fall = unwanted * BAIT_PART * _any(visit, bait)
        parts = (1 - unwanted) * _share(visit, good) + fall * _share(visit, enticing)
        return (parts + (unwanted - fall) * _share(visit, poor)).astype(np.float32)


def _repeated(key: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True at every later occurrence of a value."""
    order = np.argsort(key, kind="stable")
    same = np.zeros(len(key), dtype=bool)
    same[order[1:]] = key[order[1:]] == key[order[:-1]]
    return same


def _some_of_each(
    rng: np.random.Generator, rows: NDArray[np.int64], visit: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """For each visit as many of its rows as are wanted, all equally likely."""
    rows = rows[np.argsort(visit[rows] + rng.random(len(rows)), kind="stable")]
    owner = visit[rows]
    rank = np.arange(len(rows)) - np.searchsorted(owner, owner)
    return rows[rank < wanted[owner]]


def _any(visit: NDArray[np.int64], flag: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(np.bincount(visit, flag)[visit] > 0)


def _share(visit: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights that sum to 1 over each visit, or to 0 where all are 0."""
    total = np.bincount(visit, weight)[visit]
    return np.asarray(np.divide(weight, total, out=np.zeros_like(weight), where=total > 0))

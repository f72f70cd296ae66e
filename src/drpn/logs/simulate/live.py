"""A live site: stories age, users tire of stories they were shown, and page views form sessions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.pages import PageFiller, sample_per_page
from drpn.logs.simulate.presets import Live
from drpn.logs.simulate.readers import Readers
from drpn.logs.simulate.settings import SimulationSettings
from drpn.logs.simulate.stories import Stories, StorySampler

SESSION_SECONDS = 1800
"""A session ends after this time; two sessions of a user start at least twice this time apart."""

SHORTEST_HALF_LIFE, LONGEST_HALF_LIFE = 0.5, 36.0
"""Limits of the half-lives of stories, in hours."""

SECOND_CLICK = 0.1
"""Probability that a user clicks two stories of a list rather than one, if two attract them."""

DEVICES = ["phone", "tablet", "desktop"]
OWN_DEVICE, KEPT_DEVICE = (0.6, 0.1, 0.3), 0.8
"""Shares of users whose usual device is each of `DEVICES`, and the share of sessions on the usual device."""
OFFICE_HOURS, OFFICE_DEVICE, HOME_DEVICE = (8, 17), (0.3, 0.0, 0.7), (0.7, 0.2, 0.1)
"""Devices of the other sessions, at office hours and at other times."""


@dataclass(frozen=True)
class Sessions:
    """Sessions in order of their start."""

    user: NDArray[np.int64]
    second: NDArray[np.int64]
    device: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.user)


@dataclass(frozen=True)
class Views:
    """Page views, one row each, and the stories of their lists, one row for each view and story."""

    user: NDArray[np.int64]
    second: NDArray[np.int64]
    session: NDArray[np.int64]
    device: NDArray[np.int64]
    article: NDArray[np.int64]
    """The story of the page; -1 for the front page."""
    view: NDArray[np.int64]
    story: NDArray[np.int64]
    clicked: NDArray[np.bool_]
    opinion: NDArray[np.int8]
    appeal: NDArray[np.float32]


class Seen(NamedTuple):
    """What users make of the stories of their lists, one row for each."""

    clicked: NDArray[np.bool_]
    opinion: NDArray[np.int8]
    expected: NDArray[np.float64]
    """The feeling without the mood."""
    chance: NDArray[np.float64]
    """The chance of a click if the story interests the user."""


def make_sessions(
    rng: np.random.Generator, readers: Readers, user: NDArray[np.int64], second: NDArray[np.int64]
) -> Sessions:
    """A session for each visit, without those that start within an hour of the user's visit before."""
    order = np.lexsort((second, user))
    soon = np.zeros(len(user), dtype=bool)
    soon[order[1:]] = (np.diff(user[order]) == 0) & (np.diff(second[order]) < 2 * SESSION_SECONDS)
    user, second = user[~soon], second[~soon]
    usual = rng.choice(len(DEVICES), size=len(readers), p=OWN_DEVICE)[user]
    hour = second // 3600 % 24
    office = (hour >= OFFICE_HOURS[0]) & (hour < OFFICE_HOURS[1])
    other = np.where(
        office, rng.choice(len(DEVICES), len(user), p=OFFICE_DEVICE), rng.choice(len(DEVICES), len(user), p=HOME_DEVICE)
    )
    return Sessions(user, second, np.where(rng.random(len(user)) < KEPT_DEVICE, usual, other))


class SkipCounts:
    """How often each user was shown each story without a click."""

    def __init__(self, stories: int) -> None:
        self._stories = stories
        self._keys: NDArray[np.int64] = np.array([-1])
        self._counts: NDArray[np.int64] = np.array([0])

    def of(self, user: NDArray[np.int64], story: NDArray[np.int64]) -> NDArray[np.int64]:
        key = user * self._stories + story
        index = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        return np.where(self._keys[index] == key, self._counts[index], 0)

    def add(self, user: NDArray[np.int64], story: NDArray[np.int64]) -> None:
        """Count each pair once more for each time it occurs."""
        key, times = np.unique(user * self._stories + story, return_counts=True)
        index = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        known = self._keys[index] == key
        self._counts[index[known]] += times[known]
        place = np.searchsorted(self._keys, key[~known])
        self._keys = np.insert(self._keys, place, key[~known])
        self._counts = np.insert(self._counts, place, times[~known])


class LiveSite:
    """The site and its users; sessions are simulated hour by hour."""

    def __init__(
        self, rng: np.random.Generator, stories: Stories, readers: Readers, settings: SimulationSettings
    ) -> None:
        self._stories = stories
        self._readers = readers
        self._live = live = settings.newsroom.live or Live()
        self._end = settings.days * 86_400
        self._noise = settings.click_noise
        self._pages = PageFiller(stories, readers, settings.targeting)
        self._skips = SkipCounts(len(stories))
        half_life = live.half_life * np.exp(live.half_life_spread * rng.normal(size=len(stories)))
        self.half_life = np.clip(half_life, SHORTEST_HALF_LIFE, LONGEST_HALF_LIFE)

    def simulate(
        self, rng: np.random.Generator, sessions: Sessions, numbers: range, sampler: StorySampler
    ) -> Iterator[Views]:
        """The first page view of each session of an hour, then the second of those that have one, and so on.

        `numbers` are the sessions of the hour; no user has two of them.
        """
        number = np.arange(numbers.start, numbers.stop)
        second, article = sessions.second[number], np.full(len(number), -1)
        while len(number):
            views = self._show(rng, sessions, number, second, article, sampler)
            yield views
            clicked = np.full(len(number), -1)
            clicked[views.view[views.clicked]] = views.story[views.clicked]
            goes_on, second, article = self.next_views(rng, sessions.second[number], second, clicked)
            number, second, article = number[goes_on], second[goes_on], article[goes_on]

    def length(self, rng: np.random.Generator, views: int, stories: int) -> NDArray[np.int64]:
        """How many of some stories the list of each page view shows."""
        longest = min(self._live.longest, stories // 3)
        return rng.integers(min(self._live.shortest, longest), longest, size=views, endpoint=True)

    def look(
        self,
        rng: np.random.Generator,
        users: NDArray[np.int64],
        second: NDArray[np.int64],
        article: NDArray[np.int64],
        view: NDArray[np.int64],
        story: NDArray[np.int64],
    ) -> Seen:
        """Show lists to users, who click or do not, and remember it; `view` is the page view of each story."""
        user = users[view]
        expected = self._readers.expected_feeling(self._stories, user, story)
        opinion = self._readers.opinions(expected + self._readers.mood(self._stories, user, story))
        chance = self._chance(user, story, second[view], article[view])
        clicked = self._clicks(rng, view, len(users), opinion, chance)
        self.remember(user, story, clicked)
        return Seen(clicked, opinion, expected, chance)

    def remember(self, user: NDArray[np.int64], story: NDArray[np.int64], clicked: NDArray[np.bool_]) -> None:
        """Remember what users clicked and what they were shown without a click."""
        self._pages.clicked.add(user[clicked], story[clicked])
        self._skips.add(user[~clicked], story[~clicked])

    def next_views(
        self,
        rng: np.random.Generator,
        started: NDArray[np.int64],
        second: NDArray[np.int64],
        clicked: NDArray[np.int64],
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        """Whether each page view has a next one in its session, its time, and the story of its page.

        `started` is the start of the session; `clicked` the story that was clicked, -1 for none, as for the front page.
        """
        count = len(second)
        article = np.where(rng.random(count) < self._live.article, clicked, -1)
        second = second + np.ceil(rng.exponential(60 * self._live.view_minutes, size=count)).astype(np.int64)
        goes_on = rng.random(count) < self._live.another
        goes_on &= second < np.minimum(started + SESSION_SECONDS, self._end)
        return goes_on, second, article

    def _show(
        self,
        rng: np.random.Generator,
        sessions: Sessions,
        number: NDArray[np.int64],
        second: NDArray[np.int64],
        article: NDArray[np.int64],
        sampler: StorySampler,
    ) -> Views:
        users = sessions.user[number]
        view, story = self._pages.fill(rng, users, self.length(rng, len(users), len(sampler)), sampler)
        seen = self.look(rng, users, second, article, view, story)
        return Views(
            user=users,
            second=second,
            session=number,
            device=sessions.device[number],
            article=article,
            view=view,
            story=story,
            clicked=seen.clicked,
            opinion=seen.opinion,
            appeal=self._appeal(view, seen.expected, seen.chance),
        )

    def _chance(
        self,
        user: NDArray[np.int64],
        story: NDArray[np.int64],
        second: NDArray[np.int64],
        article: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """The chance that a user clicks a story that interests them.

        fresh · 2^(-age / half-life) · weariness^(times shown without a click), times `related` on the page of a story
        of the same topic, at most 1
        """
        live, topic_of = self._live, self._stories.topics.topic_of
        age = np.maximum(second / 3600 - self._stories.born[story], 0.0)
        tired = live.weariness ** self._skips.of(user, story)
        topic = topic_of[self._stories.subtopic[story]]
        related = (article >= 0) & (topic_of[self._stories.subtopic[article]] == topic)
        factor = np.where(related, live.related, 1.0)
        return np.asarray(np.minimum(live.fresh * 0.5 ** (age / self.half_life[story]) * tired * factor, 1.0))

    def _clicks(
        self,
        rng: np.random.Generator,
        view: NDArray[np.int64],
        views: int,
        opinion: NDArray[np.int8],
        chance: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Which stories are clicked: one that attracts the user, seldom two; some clicks slip to a story that does not
        interest them."""
        attracted = np.flatnonzero((opinion == 1) & (rng.random(len(view)) < chance))
        most = 1 + (rng.random(views) < SECOND_CLICK)
        meant = sample_per_page(rng, attracted, view, most)
        slips = rng.random(len(meant)) < self._noise
        accidents = np.bincount(view[meant[slips]], minlength=views)
        clicked = np.zeros(len(view), dtype=bool)
        clicked[meant[~slips]] = True
        clicked[sample_per_page(rng, np.flatnonzero(opinion < 1), view, accidents)] = True
        return clicked

    def _appeal(
        self, view: NDArray[np.int64], expected: NDArray[np.float64], chance: NDArray[np.float64]
    ) -> NDArray[np.float32]:
        """The expected share of each story in the clicks of its list, given everything but the mood."""
        good = 1 / (1 + np.exp(-expected))  # the probability that the mood makes it interesting
        wanted, poor = good * chance, 1 - good
        share, slip = (weight / np.bincount(view, weight)[view] for weight in (wanted, poor))
        return ((1 - self._noise) * share + self._noise * slip).astype(np.float32)

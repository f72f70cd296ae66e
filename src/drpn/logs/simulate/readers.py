"""Users: what they like and dislike, how often and when they come, what they read before the log begins."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.settings import SimulationSettings
from drpn.logs.simulate.stories import Shelf, Stories
from drpn.logs.simulate.topics import Topics

NARROW_SHARE, NARROW_TOPICS, BROAD_TOPICS = 0.6, 1.0, 4.0
"""Share of narrow users, and how many favourite topics beyond the first a narrow and a broad user has, on average."""

LIKE_IN_FAVOURITE, DISLIKE_IN_FAVOURITE = 0.40, 0.35
"""Of the subtopics of a favourite topic a user likes and dislikes these shares."""

LIKE_ELSEWHERE, DISLIKE_ELSEWHERE = 0.03, 0.20
"""The same for the other topics."""

INTEREST, LIKE, DISLIKE, LETDOWN = -3.2, 3.0, -2.5, 2.5
"""Feeling towards a story: a base, what a liked or disliked subtopic adds, and what clickbait takes away."""

DISLIKED_BELOW = -4.0
"""A user is interested where the feeling is above 0, dislikes below this, and is indifferent between."""

VISIT_POWER, MOST_VISITS = 1.87, 75
"""Visits in a week: chance of n proportional to n to the power of minus this, up to the most; longer logs in step."""

WEEKEND = 0.43
"""Visits on a Saturday or Sunday, a working day being 1."""

VISIT_HOURS = np.array([43, 76, 81, 113, 252, 369, 500, 542, 568, 473, 517, 552, 496, 452, 349, 289, 277, 246, 198, 168,
                        138, 113, 73, 51], dtype=float)  # fmt: skip
"""Visits at each hour of the day, in proportion; as in MIND."""

HISTORY_MEDIAN, HISTORY_SPREAD, HISTORY_OF_VISITS, LONGEST_HISTORY = 14.5, 1.15, 0.15, 560
"""Clicks before the log: lognormal; the median grows as visits to the power of `of_visits`."""

READ_AFTER = 12.0
"""Mean hours from the birth of a story to its click, which order the history."""

NEWCOMERS = 0.012
"""Share of users without any history."""

_TASTE_CHUNK = 20_000
_PATIENCE = 30


@dataclass(frozen=True)
class Readers:
    """All users, one row each; row i is the user U(i+1)."""

    taste: NDArray[np.int8]
    """1 for a liked subtopic, -1 for a disliked one, 0 else; users by subtopics."""
    liked: NDArray[np.int64]
    liked_start: NDArray[np.int64]
    """The liked subtopics of user i are liked[liked_start[i]:liked_start[i + 1]]."""
    visits: NDArray[np.int64]
    salt: int

    def __len__(self) -> int:
        return len(self.visits)

    def some_liked(self, rng: np.random.Generator, user: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row one of the user's liked subtopics, -1 where there is none."""
        first, count = self.liked_start[user], self.liked_start[user + 1] - self.liked_start[user]
        spot = first + (rng.random(len(user)) * count).astype(np.int64)
        return np.where(count > 0, self.liked[np.minimum(spot, len(self.liked) - 1)], -1)

    def expected_feeling(
        self, stories: Stories, user: NDArray[np.int64], story: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """What is to be expected of a user who meets a story, before their mood: base + taste + quality - letdown."""
        taste = self.taste[user, stories.subtopic[story]]
        by_taste = np.array([0.0, LIKE, DISLIKE])[taste]  # -1 takes the last
        return INTEREST + by_taste + stories.quality[story] - LETDOWN * stories.clickbait[story]

    def mood(self, stories: Stories, user: NDArray[np.int64], story: NDArray[np.int64]) -> NDArray[np.float64]:
        """What is peculiar to this user and this story, standard logistic, and the same whenever they meet."""
        mixed = _scramble(user.astype(np.uint64) * np.uint64(len(stories)) + story.astype(np.uint64), self.salt)
        uniform = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        return np.log(uniform) - np.log1p(-uniform)


def opinion_of(feeling: NDArray[np.float64]) -> NDArray[np.int8]:
    """1 interested, 0 indifferent, -1 disliked."""
    return (feeling > 0).astype(np.int8) - (feeling < DISLIKED_BELOW).astype(np.int8)


def gather_readers(rng: np.random.Generator, topics: Topics, users: int, days: int) -> Readers:
    """`users` users with their tastes and their number of visits."""
    taste = np.concatenate([
        _tastes(rng, topics, min(_TASTE_CHUNK, users - start)) for start in range(0, users, _TASTE_CHUNK)
    ])  # fmt: skip
    owner, liked = np.nonzero(taste == 1)
    liked_start = np.searchsorted(owner, np.arange(users + 1))
    most = max(1, round(MOST_VISITS * days / 7))
    counts = np.arange(1, most + 1)
    chance = counts**-VISIT_POWER
    visits = rng.choice(counts, size=users, p=chance / chance.sum())
    return Readers(taste, np.append(liked, -1), liked_start, visits, int(rng.integers(2**63)))


def visit_times(rng: np.random.Generator, readers: Readers, days: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Who visits when: users and seconds from the start of the log, a Saturday, in the order of time."""
    user = np.repeat(np.arange(len(readers)), readers.visits)
    weight = np.where(np.arange(days) % 7 < 2, WEEKEND, 1.0)
    day = rng.choice(days, size=len(user), p=weight / weight.sum())
    hour = rng.choice(24, size=len(user), p=VISIT_HOURS / VISIT_HOURS.sum())
    second = (day * 24 + hour) * 3600 + rng.integers(3600, size=len(user))
    order = np.argsort(second, kind="stable")
    return user[order], second[order]


def _tastes(rng: np.random.Generator, topics: Topics, users: int) -> NDArray[np.int8]:
    by_topic = np.bincount(topics.topic_of, topics.share, minlength=len(topics.topics))
    more = np.where(rng.random(users) < NARROW_SHARE, NARROW_TOPICS, BROAD_TOPICS)
    favourites = 1 + rng.poisson(more)
    # the favourites are drawn without repetition, in proportion to the topics' sizes (the largest Gumbel keys)
    keys = np.log(by_topic) + rng.gumbel(size=(users, len(by_topic)))
    rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
    favourite = (rank < favourites[:, None])[:, topics.topic_of]
    uniform = rng.random((users, len(topics.subtopics)), dtype=np.float32)
    likes = uniform < np.where(favourite, LIKE_IN_FAVOURITE, LIKE_ELSEWHERE)
    dislikes = uniform > 1 - np.where(favourite, DISLIKE_IN_FAVOURITE, DISLIKE_ELSEWHERE)
    return likes.astype(np.int8) - dislikes.astype(np.int8)


def read_before(
    rng: np.random.Generator, stories: Stories, readers: Readers, shelf: Shelf, settings: SimulationSettings
) -> list[NDArray[np.int64]]:
    """The stories each user clicked before the log, oldest first, none twice."""
    typical = HISTORY_MEDIAN * readers.visits**HISTORY_OF_VISITS
    length = np.floor(typical * np.exp(HISTORY_SPREAD * rng.normal(size=len(readers)))).astype(np.int64)
    length[rng.random(len(readers)) < NEWCOMERS] = 0
    length = np.minimum(length, min(LONGEST_HISTORY, len(shelf) // 3))
    histories: list[NDArray[np.int64]] = []
    for start in range(0, len(readers), _TASTE_CHUNK):
        chunk = np.arange(start, min(start + _TASTE_CHUNK, len(readers)))
        user = np.repeat(chunk, length[chunk])
        story = _clicks_before(rng, stories, readers, shelf, user, settings)
        # a story is read once, some hours after its birth
        _, once = np.unique(user * len(stories) + story, return_index=True)
        user, story = user[once], story[once]
        order = np.lexsort((stories.born[story] + rng.exponential(READ_AFTER, size=len(story)), user))
        ends = np.searchsorted(user[order], np.append(chunk, chunk[-1] + 1))
        sequence = story[order]
        histories += [sequence[low:high] for low, high in pairwise(ends.tolist())]
    return histories


def _clicks_before(
    rng: np.random.Generator,
    stories: Stories,
    readers: Readers,
    shelf: Shelf,
    user: NDArray[np.int64],
    settings: SimulationSettings,
) -> NDArray[np.int64]:
    """For each row a story that the user met by chance and liked, or clicked by accident."""
    story = np.zeros(len(user), dtype=np.int64)
    by_accident = rng.random(len(user)) < settings.accidents
    rows = np.arange(len(user))
    for _ in range(_PATIENCE):
        wanted = np.where(rng.random(len(rows)) < settings.targeting, readers.some_liked(rng, user[rows]), -1)
        story[rows] = shelf.draw(rng, wanted)
        feeling = readers.expected_feeling(stories, user[rows], story[rows])
        interested = feeling + readers.mood(stories, user[rows], story[rows]) > 0
        rows = rows[interested == by_accident[rows]]
        if not len(rows):
            break
    return story


def _scramble(number: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the input changes half of the output's."""
    mixed = (number + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))

"""Users: tastes, number and times of visits, and clicks before the log."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.presets import PRESETS, Preset, Tastes
from drpn.logs.simulate.settings import SimulationSettings
from drpn.logs.simulate.stories import Stories, StorySampler
from drpn.logs.simulate.topics import Topics

NARROW_SHARE, NARROW_TOPICS, BROAD_TOPICS = 0.6, 1.0, 4.0
"""Share of narrow users, and mean number of favourite topics beyond the first for narrow and for broad users."""

LETDOWN = 2.5
"""Subtracted from the feeling towards clickbait."""

VISIT_POWER, MOST_VISITS = 1.87, 75
"""Visits per week: P(n) is proportional to n^-VISIT_POWER, up to MOST_VISITS, which scales with the days of the log.

The preset has the fewest visits, which scale likewise."""

WEEKEND = 0.43
"""Visits on a Saturday or Sunday relative to a working day."""

VISIT_HOURS = np.array([43, 76, 81, 113, 252, 369, 500, 542, 568, 473, 517, 552, 496, 452, 349, 289, 277, 246, 198, 168,
                        138, 113, 73, 51], dtype=float)  # fmt: skip
"""Relative number of visits in each hour of the day, as in MIND."""

HISTORY_MEDIAN, HISTORY_SPREAD, HISTORY_OF_VISITS, LONGEST_HISTORY = 14.5, 1.15, 0.15, 560
"""Number of clicks before the log: lognormal, with a median that grows as visits^HISTORY_OF_VISITS; maximum."""

READ_AFTER = 12.0
"""Mean hours from publication to click, which determine the order of the history."""

NEWCOMERS = 0.012
"""Share of users without clicks before the log."""

_USERS_AT_ONCE = 20_000
_MOST_DRAWS = 30


@dataclass(frozen=True)
class Readers:
    """All users, one row each; row i is user U(i+1)."""

    taste: NDArray[np.int8]
    """(users, subtopics): 1 if liked, -1 if disliked, else 0."""
    liked: NDArray[np.int64]
    liked_start: NDArray[np.int64]
    """The liked subtopics of user i are liked[liked_start[i]:liked_start[i + 1]]."""
    visits: NDArray[np.int64]
    salt: int
    tastes: Tastes

    def __len__(self) -> int:
        return len(self.visits)

    def draw_liked(self, rng: np.random.Generator, user: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row a random liked subtopic of the user; -1 if the user likes none."""
        first, count = self.liked_start[user], self.liked_start[user + 1] - self.liked_start[user]
        index = first + (rng.random(len(user)) * count).astype(np.int64)
        return np.where(count > 0, self.liked[np.minimum(index, len(self.liked) - 1)], -1)

    def expected_feeling(
        self, stories: Stories, user: NDArray[np.int64], story: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The feeling of each user towards a story without the mood: base + taste + quality - letdown."""
        taste = self.taste[user, stories.subtopic[story]]
        taste_value = np.array([0.0, self.tastes.like, self.tastes.dislike])[taste]  # index -1 is the last
        return self.tastes.interest + taste_value + stories.quality[story] - LETDOWN * stories.clickbait[story]

    def mood(self, stories: Stories, user: NDArray[np.int64], story: NDArray[np.int64]) -> NDArray[np.float64]:
        """Standard logistic noise that is a fixed function of user and story."""
        bits = _hash(user.astype(np.uint64) * np.uint64(stories.moods) + story.astype(np.uint64), self.salt)
        uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
        return np.log(uniform) - np.log1p(-uniform)

    def opinions(self, feeling: NDArray[np.float64]) -> NDArray[np.int8]:
        """1 for interested, 0 for indifferent, -1 for disliked."""
        return (feeling > 0).astype(np.int8) - (feeling < self.tastes.disliked_below).astype(np.int8)


def make_readers(
    rng: np.random.Generator, topics: Topics, users: int, days: int, newsroom: Preset = PRESETS["newsroom"]
) -> Readers:
    """`users` users with tastes and a number of visits."""
    taste = np.concatenate([
        _tastes(rng, topics, min(_USERS_AT_ONCE, users - start), newsroom.tastes)
        for start in range(0, users, _USERS_AT_ONCE)
    ])  # fmt: skip
    owner, liked = np.nonzero(taste == 1)
    liked_start = np.searchsorted(owner, np.arange(users + 1))
    fewest, most = (max(1, round(visits * days / 7)) for visits in (newsroom.habits.fewest_visits, MOST_VISITS))
    counts = np.arange(fewest, most + 1)
    weight = counts**-VISIT_POWER
    visits = rng.choice(counts, size=users, p=weight / weight.sum())
    return Readers(taste, np.append(liked, -1), liked_start, visits, int(rng.integers(2**63)), newsroom.tastes)


def visit_times(rng: np.random.Generator, readers: Readers, days: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """User and time of every visit, sorted by time, in seconds from the start of the log (a Saturday)."""
    user = np.repeat(np.arange(len(readers)), readers.visits)
    weight = np.where(np.arange(days) % 7 < 2, WEEKEND, 1.0)
    day = rng.choice(days, size=len(user), p=weight / weight.sum())
    hour = rng.choice(24, size=len(user), p=VISIT_HOURS / VISIT_HOURS.sum())
    second = (day * 24 + hour) * 3600 + rng.integers(3600, size=len(user))
    order = np.argsort(second, kind="stable")
    return user[order], second[order]


def _tastes(rng: np.random.Generator, topics: Topics, users: int, tastes: Tastes) -> NDArray[np.int8]:
    """(users, subtopics): 1 if liked, -1 if disliked, else 0."""
    topic_share = np.bincount(topics.topic_of, topics.share, minlength=len(topics.topics))
    if tastes.favourites is None:
        mean_extra = np.where(rng.random(users) < NARROW_SHARE, NARROW_TOPICS, BROAD_TOPICS)
        favourites = 1 + rng.poisson(mean_extra)
    else:
        favourites = rng.integers(tastes.favourites[0], tastes.favourites[1], size=users, endpoint=True)
    # favourites are drawn without replacement, in proportion to topic size (Gumbel top-k)
    keys = np.log(topic_share) + rng.gumbel(size=(users, len(topic_share)))
    rank = np.argsort(np.argsort(-keys, axis=1), axis=1)
    favourite = (rank < favourites[:, None])[:, topics.topic_of]
    uniform = rng.random((users, len(topics.subtopics)), dtype=np.float32)
    likes = uniform < np.where(favourite, tastes.like_in_favourite, tastes.like_elsewhere)
    dislikes = uniform > 1 - np.where(favourite, tastes.dislike_in_favourite, tastes.dislike_elsewhere)
    return likes.astype(np.int8) - dislikes.astype(np.int8)


def make_histories(
    rng: np.random.Generator, stories: Stories, readers: Readers, sampler: StorySampler, settings: SimulationSettings
) -> list[NDArray[np.int64]]:
    """The stories each user clicked before the log, oldest first, without repetition."""
    median = HISTORY_MEDIAN * readers.visits**HISTORY_OF_VISITS
    length = np.floor(median * np.exp(HISTORY_SPREAD * rng.normal(size=len(readers)))).astype(np.int64)
    length[rng.random(len(readers)) < NEWCOMERS] = 0
    length = np.minimum(length, min(LONGEST_HISTORY, len(sampler) // 3))
    histories: list[NDArray[np.int64]] = []
    for start in range(0, len(readers), _USERS_AT_ONCE):
        chunk = np.arange(start, min(start + _USERS_AT_ONCE, len(readers)))
        user = np.repeat(chunk, length[chunk])
        story = _draw_clicks(rng, stories, readers, sampler, user, settings)
        # a story is clicked once, some hours after its publication
        _, distinct = np.unique(user * len(stories) + story, return_index=True)
        user, story = user[distinct], story[distinct]
        order = np.lexsort((stories.born[story] + rng.exponential(READ_AFTER, size=len(story)), user))
        bounds = np.searchsorted(user[order], np.append(chunk, chunk[-1] + 1))
        sequence = story[order]
        histories += [sequence[low:high] for low, high in pairwise(bounds.tolist())]
    return histories


def _draw_clicks(
    rng: np.random.Generator,
    stories: Stories,
    readers: Readers,
    sampler: StorySampler,
    user: NDArray[np.int64],
    settings: SimulationSettings,
) -> NDArray[np.int64]:
    """For each row a story that interests the user, or, for an accidental click, one that does not."""
    story = np.zeros(len(user), dtype=np.int64)
    accidental = rng.random(len(user)) < settings.click_noise
    rows = np.arange(len(user))
    for _ in range(_MOST_DRAWS):
        subtopic = np.where(rng.random(len(rows)) < settings.targeting, readers.draw_liked(rng, user[rows]), -1)
        story[rows] = sampler.draw(rng, subtopic)
        feeling = readers.expected_feeling(stories, user[rows], story[rows])
        interested = feeling + readers.mood(stories, user[rows], story[rows]) > 0
        rows = rows[interested == accidental[rows]]
        if not len(rows):
            break
    return story


def _hash(number: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: flipping any input bit flips about half of the output bits."""
    bits = (number + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))

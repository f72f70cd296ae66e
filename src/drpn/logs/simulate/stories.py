"""Stories: when they are born, how good they are, how prominently and how long the front page shows them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.headlines import write_headlines
from drpn.logs.simulate.topics import TOPIC_SHARES, Lines, Topics, borrow_topics, invent_topics, subtopics_per_topic
from drpn.logs.simulate.vocabulary import gather_words

DAYS_BEFORE = 21
"""Days before the log in which older stories were born."""

MEMORY_DAYS = 10.0
"""Of the stories born x days before the log, a share exp(-x/MEMORY_DAYS) is still known to somebody."""

BIRTH_HOURS = np.array([2, 2, 2, 2, 3, 4, 6, 8, 9, 10, 10, 10, 10, 10, 10, 10, 9, 9, 8, 7, 6, 5, 4, 3], dtype=float)
"""Stories born at each hour of the day, in proportion."""

QUALITY_SPREAD, QUALITY_TAIL = 1.1, 0.7
"""Quality is normal with this deviation, plus an exponential tail with this mean, which is taken off again."""

TOPIC_DRAW = 0.3
"""Standard deviation of what a topic as a whole adds to the quality of its stories."""

PROMINENCE_SPREAD, PROMINENCE_LIMIT, PROMINENCE_OF_QUALITY = 3.1, 25.0, 0.5
"""Prominence w of a story: w0 / (1 + w0 / limit), with ln w0 = of_quality * quality + spread * normal."""

CLICKBAIT_SHARE = 0.04
"""Share of stories whose title promises more than the story holds."""

FADE_HOURS, FADE_SPREAD, LONGEST_FADE = 4.5, 1.0, 48.0
"""A story's showing falls by e in this time: median, standard deviation of the logarithm, and a limit."""

RISE_HOURS = 1.5
"""A new story reaches (1 - 1/e) of its prominence in this time."""

LIFE_IN_FADES = 4.0
"""After so many fading times a story leaves the front page."""


@dataclass(frozen=True)
class Stories:
    """All stories, one row each; row i is the news N(i+1). Hours count from the start of the log."""

    topics: Topics
    subtopic: NDArray[np.int64]
    born: NDArray[np.float64]
    quality: NDArray[np.float64]
    prominence: NDArray[np.float64]
    fade: NDArray[np.float64]
    clickbait: NDArray[np.bool_]
    titles: list[str]
    abstracts: list[str]

    def __len__(self) -> int:
        return len(self.subtopic)

    def showing(self, hour: float) -> NDArray[np.float64]:
        """How strongly each story is shown at an hour: w (1 - exp(-age/rise)) exp(-age/fade), 0 when not alive."""
        age = hour - self.born
        alive = (age > 0) & (age < LIFE_IN_FADES * self.fade)
        age = np.where(alive, age, 0.0)
        return self.prominence * -np.expm1(-age / RISE_HOURS) * np.exp(-age / self.fade)


@dataclass(frozen=True)
class Shelf:
    """Stories to draw from by weight, sorted by subtopic so that one subtopic is a stretch of the cumulative sum."""

    story: NDArray[np.int64]
    total: NDArray[np.float64]
    start: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.story)

    def draw(self, rng: np.random.Generator, subtopic: NDArray[np.int64]) -> NDArray[np.int64]:
        """A story for each wanted subtopic; -1, or a subtopic that has none now, draws from them all."""
        low = np.where(subtopic < 0, 0.0, self.total[self.start[subtopic]])
        high = np.where(subtopic < 0, self.total[-1], self.total[self.start[subtopic + 1]])
        nothing = high <= low
        low, high = np.where(nothing, 0.0, low), np.where(nothing, self.total[-1], high)
        spot = np.searchsorted(self.total, low + rng.random(len(subtopic)) * (high - low), side="right") - 1
        return np.asarray(self.story[np.minimum(spot, len(self.story) - 1)])

    def draw_evenly(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Any stories, the obscure as likely as the prominent."""
        return np.asarray(self.story[rng.integers(len(self.story), size=count)])


def shelve(stories: Stories, weight: NDArray[np.float64]) -> Shelf:
    """The stories of positive weight, ready to be drawn."""
    story = np.flatnonzero(weight > 0)
    story = story[np.argsort(stories.subtopic[story], kind="stable")]
    total = np.concatenate([[0.0], np.cumsum(weight[story])])
    start = np.searchsorted(stories.subtopic[story], np.arange(len(stories.topics.subtopics) + 1))
    return Shelf(story, total, start)


def tell_stories(rng: np.random.Generator, count: int, days: int, titles: Path | None) -> Stories:
    """`count` stories, born from three weeks before the log to its end; with `titles`, their lines are borrowed."""
    clickbait = rng.random(count) < CLICKBAIT_SHARE
    if titles is None:
        topics, subtopic, headlines, abstracts = _invent(rng, count, clickbait)
    else:
        topics, lines = borrow_topics(titles)
        subtopic, headlines = _borrow(rng, count, lines)
        abstracts = [""] * count
    draw_of_topic = rng.normal(0.0, TOPIC_DRAW, size=len(topics.topics))
    quality = rng.normal(0.0, QUALITY_SPREAD, size=count) + rng.exponential(QUALITY_TAIL, size=count) - QUALITY_TAIL
    quality += draw_of_topic[topics.topic_of[subtopic]]
    raw = np.exp(PROMINENCE_OF_QUALITY * quality + PROMINENCE_SPREAD * rng.normal(size=count))
    fade = FADE_HOURS * np.exp(FADE_SPREAD * rng.normal(size=count))
    return Stories(
        topics=topics,
        subtopic=subtopic,
        born=_births(rng, count, days),
        quality=quality,
        prominence=raw / (1 + raw / PROMINENCE_LIMIT),
        fade=np.minimum(fade, LONGEST_FADE),
        clickbait=clickbait,
        titles=headlines,
        abstracts=abstracts,
    )


def _invent(
    rng: np.random.Generator, count: int, clickbait: NDArray[np.bool_]
) -> tuple[Topics, NDArray[np.int64], list[str], list[str]]:
    subtopics = int(subtopics_per_topic().sum())
    vocabulary = gather_words(rng, count)
    first_words = vocabulary.words[vocabulary.subtopic_start(np.arange(subtopics), len(TOPIC_SHARES))]
    topics = invent_topics(first_words.tolist())
    subtopic = rng.choice(subtopics, size=count, p=topics.share)
    headlines, abstracts = write_headlines(rng, vocabulary, topics, subtopic, clickbait)
    return topics, subtopic, headlines, abstracts


def _borrow(rng: np.random.Generator, count: int, lines: Lines) -> tuple[NDArray[np.int64], list[str]]:
    """Each line once, in random order, before any is used again."""
    rounds = -(-count // len(lines.titles))
    rows = np.concatenate([rng.permutation(len(lines.titles)) for _ in range(rounds)])[:count]
    return lines.subtopic[rows], [lines.titles[row] for row in rows.tolist()]


def _births(rng: np.random.Generator, count: int, days: int) -> NDArray[np.float64]:
    """Evenly over the days of the log, ever thinner before it; by day more than at night."""
    older = MEMORY_DAYS * -np.expm1(-DAYS_BEFORE / MEMORY_DAYS)  # how many days' worth of older stories are left
    spot = rng.random(count) * (older + days) - older
    ago = -MEMORY_DAYS * np.log1p(np.minimum(spot, 0.0) / MEMORY_DAYS)
    day = np.floor(np.where(spot < 0, -ago, spot))
    hour = rng.choice(24, size=count, p=BIRTH_HOURS / BIRTH_HOURS.sum())
    return np.asarray(day * 24 + hour + rng.random(count))

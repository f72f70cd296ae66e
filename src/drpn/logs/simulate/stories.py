"""Stories: publication time, quality, prominence on the front page and how fast they fade."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.headlines import write_headlines
from drpn.logs.simulate.presets import PRESETS, Preset
from drpn.logs.simulate.topics import TOPIC_SHARES, TitleLines, Topics, make_topics, read_topics, subtopics_per_topic
from drpn.logs.simulate.vocabulary import Vocabulary, make_vocabulary

DAYS_BEFORE = 21
"""Older stories are published up to this many days before the log."""

MEMORY_DAYS = 10.0
"""Of the stories published x days before the log, the share exp(-x/MEMORY_DAYS) is kept."""

PUBLISHED_HOURS = np.array([2, 2, 2, 2, 3, 4, 6, 8, 9, 10, 10, 10, 10, 10, 10, 10, 9, 9, 8, 7, 6, 5, 4, 3], dtype=float)
"""Relative number of stories published in each hour of the day."""

QUALITY_SPREAD, QUALITY_TAIL = 1.1, 0.7
"""Quality is normal with this standard deviation, plus an exponential with this mean, minus that mean."""

TOPIC_SPREAD = 0.3
"""Standard deviation of the quality that all stories of a topic share."""

PROMINENCE_SPREAD, PROMINENCE_LIMIT, PROMINENCE_OF_QUALITY = 3.1, 25.0, 0.5
"""Prominence w = w0 / (1 + w0 / limit), with ln w0 = PROMINENCE_OF_QUALITY * quality + spread * normal."""

FADE_HOURS, FADE_SPREAD, LONGEST_FADE = 4.5, 1.0, 48.0
"""Time in which a story's display weight falls by a factor e: median, standard deviation of the logarithm, maximum."""

RISE_HOURS = 1.5
"""A new story reaches (1 - 1/e) of its prominence in this time."""

LIFE_IN_FADES = 4.0
"""A story leaves the front page after this many fading times."""


@dataclass(frozen=True)
class Stories:
    """All stories, one row each; row i is news N(i+1). `born` is in hours from the start of the log."""

    topics: Topics
    subtopic: NDArray[np.int64]
    born: NDArray[np.float64]
    quality: NDArray[np.float64]
    prominence: NDArray[np.float64]
    fade: NDArray[np.float64]
    clickbait: NDArray[np.bool_]
    titles: list[str]
    abstracts: list[str]
    vocabulary: Vocabulary | None
    """The words of invented titles; None if titles are borrowed."""
    moods: int
    """The number by which readers' moods tell stories apart; it stays the same when stories are added."""

    def __len__(self) -> int:
        return len(self.subtopic)

    def display_weight(self, hour: float) -> NDArray[np.float64]:
        """Weight of each story on the page at an hour: w (1 - exp(-age/rise)) exp(-age/fade), 0 when not alive."""
        age = hour - self.born
        alive = (age > 0) & (age < LIFE_IN_FADES * self.fade)
        age = np.where(alive, age, 0.0)
        return self.prominence * -np.expm1(-age / RISE_HOURS) * np.exp(-age / self.fade)


@dataclass(frozen=True)
class StorySampler:
    """Draws stories by weight; stories are sorted by subtopic, so a subtopic is a range of the cumulative weights."""

    story: NDArray[np.int64]
    cumulative: NDArray[np.float64]
    start: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.story)

    def draw(self, rng: np.random.Generator, subtopic: NDArray[np.int64]) -> NDArray[np.int64]:
        """One story per given subtopic; -1, or a subtopic without a story, draws from all stories."""
        low = np.where(subtopic < 0, 0.0, self.cumulative[self.start[subtopic]])
        high = np.where(subtopic < 0, self.cumulative[-1], self.cumulative[self.start[subtopic + 1]])
        empty = high <= low
        low, high = np.where(empty, 0.0, low), np.where(empty, self.cumulative[-1], high)
        return self._at(low + rng.random(len(subtopic)) * (high - low))

    def draw_any(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` stories, whatever their subtopic."""
        return self._at(rng.random(count) * self.cumulative[-1])

    def draw_uniformly(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """`count` stories, all equally likely whatever their weight."""
        return np.asarray(self.story[rng.integers(len(self.story), size=count)])

    def _at(self, weight: NDArray[np.float64]) -> NDArray[np.int64]:
        """The stories at some places of the cumulative weights."""
        index = np.searchsorted(self.cumulative, weight, side="right") - 1
        return np.asarray(self.story[np.minimum(index, len(self.story) - 1)])


def make_sampler(stories: Stories, weight: NDArray[np.float64]) -> StorySampler:
    """A sampler over the stories with a positive weight."""
    story = np.flatnonzero(weight > 0)
    story = story[np.argsort(stories.subtopic[story], kind="stable")]
    cumulative = np.concatenate([[0.0], np.cumsum(weight[story])])
    start = np.searchsorted(stories.subtopic[story], np.arange(len(stories.topics.subtopics) + 1))
    return StorySampler(story, cumulative, start)


def make_stories(
    rng: np.random.Generator, count: int, days: int, titles: Path | None, newsroom: Preset = PRESETS["newsroom"]
) -> Stories:
    """`count` stories, published from three weeks before the log to its end.

    `titles` is a MIND news file to take titles and topics from; None generates them.
    """
    clickbait, vocabulary = rng.random(count) < newsroom.clickbait, None
    if titles is None:
        vocabulary, topics = _invent_topics(rng, count, even=newsroom.even_topics)
        subtopic = rng.choice(len(topics.subtopics), size=count, p=topics.share)
        headlines, abstracts = write_headlines(rng, vocabulary, topics, subtopic, clickbait)
    else:
        topics, lines = read_topics(titles)
        subtopic, headlines = _sample_titles(rng, count, lines)
        abstracts = [""] * count
    topic_quality = rng.normal(0.0, TOPIC_SPREAD, size=len(topics.topics))
    quality, prominence, fade = _draw_qualities(rng, topic_quality[topics.topic_of[subtopic]])
    return Stories(
        topics=topics,
        subtopic=subtopic,
        born=_publication_hours(rng, count, days),
        quality=quality,
        prominence=prominence,
        fade=fade,
        clickbait=clickbait,
        titles=headlines,
        abstracts=abstracts,
        vocabulary=vocabulary,
        moods=count,
    )


def with_next_day(rng: np.random.Generator, stories: Stories, days: int, newsroom: Preset) -> Stories:
    """The stories of a log of some days, and after them those of the day that follows, in the order of publication.

    The titles of the log must be invented ones.
    """
    topics, vocabulary = stories.topics, stories.vocabulary
    assert vocabulary is not None
    count = max(1, round(len(stories) / (_older_days() + days)))
    clickbait = rng.random(count) < newsroom.clickbait
    subtopic = rng.choice(len(topics.subtopics), size=count, p=topics.share)
    headlines, abstracts = write_headlines(rng, vocabulary, topics, subtopic, clickbait)
    topic, many = topics.topic_of[stories.subtopic], len(topics.topics)
    # what the stories of a topic share is about their mean
    shared = np.bincount(topic, stories.quality, many) / np.maximum(np.bincount(topic, minlength=many), 1)
    quality, prominence, fade = _draw_qualities(rng, shared[topics.topic_of[subtopic]])
    hour = rng.choice(24, size=count, p=PUBLISHED_HOURS / PUBLISHED_HOURS.sum())
    added = {
        "subtopic": subtopic,
        "born": days * 24 + np.sort(hour + rng.random(count)),
        "quality": quality,
        "prominence": prominence,
        "fade": fade,
        "clickbait": clickbait,
    }
    arrays: dict[str, Any] = {name: np.concatenate([getattr(stories, name), more]) for name, more in added.items()}
    return replace(stories, **arrays, titles=stories.titles + headlines, abstracts=stories.abstracts + abstracts)


def _draw_qualities(
    rng: np.random.Generator, shared: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Quality, prominence and fading time of stories, whose topics have `shared` in common."""
    count = len(shared)
    quality = rng.normal(0.0, QUALITY_SPREAD, size=count) + rng.exponential(QUALITY_TAIL, size=count) - QUALITY_TAIL
    quality += shared
    unlimited = np.exp(PROMINENCE_OF_QUALITY * quality + PROMINENCE_SPREAD * rng.normal(size=count))
    fade = FADE_HOURS * np.exp(FADE_SPREAD * rng.normal(size=count))
    return quality, unlimited / (1 + unlimited / PROMINENCE_LIMIT), np.minimum(fade, LONGEST_FADE)


def _invent_topics(rng: np.random.Generator, count: int, *, even: bool) -> tuple[Vocabulary, Topics]:
    """The words of `count` stories, and topics named after some of them."""
    subtopics = int(subtopics_per_topic().sum())
    vocabulary = make_vocabulary(rng, count)
    first_words = vocabulary.words[vocabulary.subtopic_start(np.arange(subtopics), len(TOPIC_SHARES))]
    return vocabulary, make_topics(first_words.tolist(), even=even)


def _older_days() -> float:
    """The stories from before the log equal those of this many days of the log."""
    return MEMORY_DAYS * float(-np.expm1(-DAYS_BEFORE / MEMORY_DAYS))


def _sample_titles(rng: np.random.Generator, count: int, lines: TitleLines) -> tuple[NDArray[np.int64], list[str]]:
    """Subtopic and title of each story: every line once, in random order, before any line repeats."""
    rounds = -(-count // len(lines.titles))
    rows = np.concatenate([rng.permutation(len(lines.titles)) for _ in range(rounds)])[:count]
    return lines.subtopic[rows], [lines.titles[row] for row in rows.tolist()]


def _publication_hours(rng: np.random.Generator, count: int, days: int) -> NDArray[np.float64]:
    """Uniform over the days of the log, decreasing with distance before it; more by day than at night."""
    older = _older_days()
    point = rng.random(count) * (older + days) - older
    days_ago = -MEMORY_DAYS * np.log1p(np.minimum(point, 0.0) / MEMORY_DAYS)
    day = np.floor(np.where(point < 0, -days_ago, point))
    hour = rng.choice(24, size=count, p=PUBLISHED_HOURS / PUBLISHED_HOURS.sum())
    return np.asarray(day * 24 + hour + rng.random(count))

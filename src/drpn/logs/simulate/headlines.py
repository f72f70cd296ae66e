"""Headlines of invented words, from which a reader can tell the topic and the subtopic."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.topics import Topics

GENERAL_WORDS, TOPIC_WORDS, SUBTOPIC_WORDS, BAIT_WORDS = 1_600, 120, 36, 30
"""Words of each list in a newsroom of 20,000 stories; with more stories the lists grow as the square root."""

TOPIC_PART, SUBTOPIC_PART, BAIT_PART = 0.22, 0.22, 0.20
"""Share of a title's words that come from its topic, its subtopic, and (clickbait only) the enticing words."""

TITLE_WORDS, TITLE_SPREAD, LONGEST_TITLE = 10.4, 0.29, 57
"""Median length of a title, the standard deviation of its logarithm, and a limit."""

ABSTRACT_WORDS, ABSTRACT_SPREAD = 22.0, 0.35
"""The same for abstracts."""

WITHOUT_ABSTRACT = 0.05
"""Share of stories without an abstract."""

MARKS = np.array(["", ",", ":", "?", "!"], dtype=object)
INNER_MARKS = np.array([0.970, 0.995])
"""After a word inside a title: below the first nothing, below the second a comma, else a colon."""
END_MARKS, BAIT_END_MARKS = (0.07, 0.02), (0.25, 0.25)
"""Chance that a title ends in a question mark, in an exclamation mark; plain and clickbait."""

_ONSETS = ["b", "br", "d", "dr", "f", "fl", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "pr", "r", "s", "sh", "st",
           "t", "tr", "v", "w", "z"]  # fmt: skip
_VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
_CODAS = ["", "", "n", "r", "l", "s", "m", "t"]


@dataclass(frozen=True)
class Vocabulary:
    """Every word once; each list of words is a stretch of it, commonest first."""

    words: NDArray[np.object_]
    general: int
    per_topic: int
    per_subtopic: int
    bait: int

    def topic_start(self, topic: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.general + self.bait + topic * self.per_topic

    def subtopic_start(self, subtopic: NDArray[np.int64], topics: int) -> NDArray[np.int64]:
        return self.general + self.bait + topics * self.per_topic + subtopic * self.per_subtopic


def invent_words(rng: np.random.Generator, count: int) -> NDArray[np.object_]:
    """`count` different pronounceable words, the shorter ones first."""
    syllables = np.array([onset + vowel + coda for onset, vowel, coda in product(_ONSETS, _VOWELS, _CODAS)])
    words: dict[str, None] = {}
    parts = 1
    while len(words) < count:
        # the more words there are, the longer they get: 5 % of one syllable, 45 % of two, the rest of three or more
        limit = {1: 0.05, 2: 0.50}.get(parts, 1.0) * count
        picks = syllables[rng.integers(len(syllables), size=(count, parts))]
        for word in map("".join, picks.tolist()):
            words[word] = None
            if len(words) >= limit:
                break
        parts = min(parts + 1, 4)
    return np.array(list(words), dtype=object)


def invent_vocabulary(rng: np.random.Generator, stories: int, topics: int, subtopics: int) -> Vocabulary:
    """General words, enticing words, words of each topic and of each subtopic; the general ones are short."""
    growth = np.sqrt(stories / 20_000)
    general, per_topic, per_subtopic = (
        max(12, round(size * growth)) for size in (GENERAL_WORDS, TOPIC_WORDS, SUBTOPIC_WORDS)
    )
    count = general + BAIT_WORDS + topics * per_topic + subtopics * per_subtopic
    words = invent_words(rng, count)
    rest = words[general:]
    rng.shuffle(rest)
    return Vocabulary(words, general, per_topic, per_subtopic, BAIT_WORDS)


def write_headlines(
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    topics: Topics,
    subtopic: NDArray[np.int64],
    clickbait: NDArray[np.bool_],
) -> tuple[list[str], list[str]]:
    """The title and the abstract of each story."""
    titles = _sentences(rng, vocabulary, topics, subtopic, clickbait, TITLE_WORDS, TITLE_SPREAD)
    abstracts = _sentences(rng, vocabulary, topics, subtopic, clickbait, ABSTRACT_WORDS, ABSTRACT_SPREAD)
    question, exclamation = np.where(clickbait[:, None], BAIT_END_MARKS, END_MARKS).T
    luck = rng.random(len(subtopic))
    ends = MARKS[np.where(luck < question, 3, np.where(luck < question + exclamation, 4, 0))]
    without = rng.random(len(subtopic)) < WITHOUT_ABSTRACT
    return (
        [title + end for title, end in zip(titles, ends, strict=True)],
        ["" if empty else f"{abstract}." for abstract, empty in zip(abstracts, without, strict=True)],
    )


def _sentences(
    rng: np.random.Generator,
    vocabulary: Vocabulary,
    topics: Topics,
    subtopic: NDArray[np.int64],
    clickbait: NDArray[np.bool_],
    median: float,
    spread: float,
) -> list[str]:
    drawn = np.round(rng.lognormal(np.log(median), spread, size=len(subtopic))).astype(np.int64)
    lengths = np.clip(drawn, 2, LONGEST_TITLE)
    story = np.repeat(np.arange(len(subtopic)), lengths)
    place = subtopic[story]
    luck = rng.random(len(story))
    from_subtopic = luck < SUBTOPIC_PART
    from_topic = ~from_subtopic & (luck < SUBTOPIC_PART + TOPIC_PART)
    from_bait = (luck > 1 - BAIT_PART) & clickbait[story]
    kinds = [from_subtopic, from_topic, from_bait]
    start = np.select(
        kinds,
        [vocabulary.subtopic_start(place, len(topics.topics)), vocabulary.topic_start(topics.topic_of[place]),
         np.full(len(story), vocabulary.general)],
    )  # fmt: skip
    size = np.select(kinds, [vocabulary.per_subtopic, vocabulary.per_topic, vocabulary.bait], vocabulary.general)
    # Zipf's law within each list: the r-th word has a chance near 1/r, so ln r is uniform
    rank = np.floor(np.exp(rng.random(len(story)) * np.log(size + 1.0))).astype(np.int64) - 1
    words = vocabulary.words[start + np.minimum(rank, size - 1)]
    last = np.cumsum(lengths) - 1
    marks = np.searchsorted(INNER_MARKS, rng.random(len(story)), side="right")
    marks[last] = 0
    first = last - lengths + 1
    words[first] = [word.capitalize() for word in words[first]]
    tokens = (words + MARKS[marks]).tolist()
    return [" ".join(tokens[begin : end + 1]) for begin, end in zip(first.tolist(), last.tolist(), strict=True)]

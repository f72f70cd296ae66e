"""Headlines, from which a reader can tell the topic and the subtopic."""

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.lexicon import ADJECTIVE, DETERMINER, LINK, NAME, NOUN, VERB
from drpn.logs.simulate.topics import Topics
from drpn.logs.simulate.vocabulary import Vocabulary

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

_HEADS, _TIES, _DETERMINERS, _ADJECTIVES = range(4)
_GROUP = np.empty(6, dtype=np.int64)
_GROUP[[NOUN, NAME, VERB, LINK, DETERMINER, ADJECTIVE]] = _HEADS, _HEADS, _TIES, _TIES, _DETERMINERS, _ADJECTIVES
_STAND = np.empty(6, dtype=np.int64)
_STAND[[DETERMINER, ADJECTIVE, NOUN, NAME, VERB, LINK]] = 0, 1, 2, 3, 4, 4


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
    uniform = rng.random(len(subtopic))
    ends = MARKS[np.where(uniform < question, 3, np.where(uniform < question + exclamation, 4, 0))]
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
    uniform = rng.random(len(story))
    from_subtopic = uniform < SUBTOPIC_PART
    from_topic = ~from_subtopic & (uniform < SUBTOPIC_PART + TOPIC_PART)
    from_bait = (uniform > 1 - BAIT_PART) & clickbait[story]
    kinds = [from_subtopic, from_topic, from_bait]
    start = np.select(
        kinds,
        [vocabulary.subtopic_start(place, len(topics.topics)), vocabulary.topic_start(topics.topic_of[place]),
         np.full(len(story), vocabulary.general)],
    )  # fmt: skip
    size = np.select(kinds, [vocabulary.per_subtopic, vocabulary.per_topic, vocabulary.bait], vocabulary.general)
    # Zipf's law within each list: the r-th word has a chance near 1/r, so ln r is uniform
    rank = np.floor(np.exp(rng.random(len(story)) * np.log(size + 1.0))).astype(np.int64) - 1
    word = start + np.minimum(rank, size - 1)
    word = word[reading_order(story, word, vocabulary.role[word])]
    last = np.cumsum(lengths) - 1
    first = last - lengths + 1
    marks = np.searchsorted(INNER_MARKS, rng.random(len(story)), side="right")
    marks[last] = 0
    marks = _off_function_words(marks, vocabulary.role[word], first[story])
    words = vocabulary.words[word]
    words[first] = [word.capitalize() for word in words[first]]
    tokens = (words + MARKS[marks]).tolist()
    return [" ".join(tokens[begin : end + 1]) for begin, end in zip(first.tolist(), last.tolist(), strict=True)]


def reading_order(story: NDArray[np.int64], word: NDArray[np.int64], role: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows in an order that reads like headlines, story by story: phrases with a verb or a link between two of them.

    A phrase is a determiner, adjectives, nouns and names, not all of which need be there; the first has no determiner.
    `story` is sorted. A word that comes again comes later.
    """
    group = _GROUP[role]
    heads, ties, _, _ = _sizes(story, group)
    group[(role == ADJECTIVE) & (heads <= np.maximum(ties, 1))[story]] = _HEADS  # too few nouns: adjectives help out
    kind = story * len(_GROUP) + role
    again = _number(story * (word.max() + 1) + word)
    nth = _number(kind, first=again)
    # nouns and names mix evenly, verbs and links take turns
    turn = np.where(group == _HEADS, (nth + 0.5) / np.bincount(kind)[kind], nth)
    place = _number(story * 4 + group, first=turn + role * 1e-6)

    sizes = _sizes(story, group)
    heads, ties, determiners, _ = sizes
    phrases = np.clip(np.maximum(ties, determiners) + 1, 1, np.maximum(heads, 1))[story]
    # ties go behind any phrase but the last, determiners to any but the first, the others anywhere
    fewer = np.isin(group, [_TIES, _DETERMINERS])
    phrase = place * (phrases - fewer) // sizes[group, story] + ((group == _DETERMINERS) & (phrases > 1))
    return np.lexsort((place, _STAND[role], phrase, story))


def _sizes(story: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many words of each group each story has; groups by stories."""
    stories = int(story[-1]) + 1
    return np.bincount(group * stories + story, minlength=4 * stories).reshape(4, stories)


def _off_function_words(
    marks: NDArray[np.int64], role: NDArray[np.int64], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """A mark behind a determiner or a link moves to the word before."""
    rows = np.arange(len(marks))
    bears = np.maximum.accumulate(np.where((role == DETERMINER) | (role == LINK), 0, rows))
    moved = np.zeros_like(marks)
    marked = np.flatnonzero(marks)
    moved[np.maximum(bears, first)[marked]] = marks[marked]
    return moved


def _number(key: NDArray[np.int64], first: NDArray[np.int64] | NDArray[np.float64] | None = None) -> NDArray[np.int64]:
    """How many rows of the same key come before each row, those with a smaller `first` coming first."""
    order = np.argsort(key, kind="stable") if first is None else np.lexsort((first, key))
    found = key[order]
    number = np.empty_like(order)
    number[order] = np.arange(len(key)) - np.searchsorted(found, found)
    return number

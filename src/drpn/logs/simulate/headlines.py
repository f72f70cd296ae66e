"""Generated titles and abstracts, whose words depend on topic and subtopic."""

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.lexicon import ADJECTIVE, DETERMINER, LINK, NAME, NOUN, VERB
from drpn.logs.simulate.topics import Topics
from drpn.logs.simulate.vocabulary import Vocabulary

TOPIC_PART, SUBTOPIC_PART, BAIT_PART = 0.22, 0.22, 0.20
"""Share of a title's words that come from its topic, its subtopic, and (clickbait only) the clickbait words."""

TITLE_WORDS, TITLE_SPREAD, LONGEST_TITLE = 10.4, 0.29, 57
"""Length of a title: median, standard deviation of the logarithm, maximum."""

ABSTRACT_WORDS, ABSTRACT_SPREAD = 22.0, 0.35
"""Length of an abstract: median and standard deviation of the logarithm."""

WITHOUT_ABSTRACT = 0.05
"""Share of stories without an abstract."""

MARKS = np.array(["", ",", ":", "?", "!"], dtype=object)
INNER_MARKS = np.array([0.970, 0.995])
"""Mark after a word inside a title, by a uniform draw: below the first none, below the second a comma, else a colon."""
END_MARKS, BAIT_END_MARKS = (0.07, 0.02), (0.25, 0.25)
"""Probability that a title ends in a question mark, in an exclamation mark; ordinary and clickbait."""

_HEADS, _CONNECTORS, _DETERMINERS, _ADJECTIVES = range(4)
_GROUP = np.empty(6, dtype=np.int64)
_GROUP[[NOUN, NAME]] = _HEADS
_GROUP[[VERB, LINK]] = _CONNECTORS
_GROUP[DETERMINER], _GROUP[ADJECTIVE] = _DETERMINERS, _ADJECTIVES
_ORDER_IN_PHRASE = np.empty(6, dtype=np.int64)
_ORDER_IN_PHRASE[[DETERMINER, ADJECTIVE, NOUN, NAME, VERB, LINK]] = 0, 1, 2, 3, 4, 4


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
    no_abstract = rng.random(len(subtopic)) < WITHOUT_ABSTRACT
    return (
        [title + end for title, end in zip(titles, ends, strict=True)],
        ["" if empty else f"{abstract}." for abstract, empty in zip(abstracts, no_abstract, strict=True)],
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
    """One sentence per story; `median` and `spread` describe its length."""
    unlimited = np.round(rng.lognormal(np.log(median), spread, size=len(subtopic))).astype(np.int64)
    lengths = np.clip(unlimited, 2, LONGEST_TITLE)
    story = np.repeat(np.arange(len(subtopic)), lengths)
    word_subtopic = subtopic[story]
    uniform = rng.random(len(story))
    from_subtopic = uniform < SUBTOPIC_PART
    from_topic = ~from_subtopic & (uniform < SUBTOPIC_PART + TOPIC_PART)
    from_bait = (uniform > 1 - BAIT_PART) & clickbait[story]
    sources = [from_subtopic, from_topic, from_bait]
    start = np.select(
        sources,
        [
            vocabulary.subtopic_start(word_subtopic, len(topics.topics)),
            vocabulary.topic_start(topics.topic_of[word_subtopic]),
            np.full(len(story), vocabulary.general),
        ],
    )
    size = np.select(sources, [vocabulary.per_subtopic, vocabulary.per_topic, vocabulary.bait], vocabulary.general)
    # Zipf's law within each list: the r-th word has a probability near 1/r, so ln r is uniform
    rank = np.floor(np.exp(rng.random(len(story)) * np.log(size + 1.0))).astype(np.int64) - 1
    word = start + np.minimum(rank, size - 1)
    word = word[reading_order(story, word, vocabulary.role[word])]
    last = np.cumsum(lengths) - 1
    first = last - lengths + 1
    marks = np.searchsorted(INNER_MARKS, rng.random(len(story)), side="right")
    marks[last] = 0
    marks = _move_off_function_words(marks, vocabulary.role[word], first[story])
    words = vocabulary.words[word]
    words[first] = [word.capitalize() for word in words[first]]
    tokens = (words + MARKS[marks]).tolist()
    return [" ".join(tokens[begin : end + 1]) for begin, end in zip(first.tolist(), last.tolist(), strict=True)]


def reading_order(story: NDArray[np.int64], word: NDArray[np.int64], role: NDArray[np.int64]) -> NDArray[np.int64]:
    """The row order that makes each story's words read like a headline: phrases with a verb or a link between them.

    A phrase is a determiner, adjectives, nouns and names, each of them optional; the first phrase has no determiner.
    `story` is sorted. A repeated word comes later.
    """
    group = _GROUP[role]
    heads, connectors, _, _ = _group_sizes(story, group)
    # with too few nouns, adjectives count as nouns
    group[(role == ADJECTIVE) & (heads <= np.maximum(connectors, 1))[story]] = _HEADS
    story_role = story * len(_GROUP) + role
    repetition = _index_in_group(story * (word.max() + 1) + word)
    index = _index_in_group(story_role, order=repetition)
    # nouns and names are mixed evenly, verbs and links alternate
    turn = np.where(group == _HEADS, (index + 0.5) / np.bincount(story_role)[story_role], index)
    position = _index_in_group(story * 4 + group, order=turn + role * 1e-6)

    sizes = _group_sizes(story, group)
    heads, connectors, determiners, _ = sizes
    phrases = np.clip(np.maximum(connectors, determiners) + 1, 1, np.maximum(heads, 1))[story]
    # connectors follow any phrase but the last, determiners start any but the first, other words go anywhere
    one_fewer = np.isin(group, [_CONNECTORS, _DETERMINERS])
    phrase = position * (phrases - one_fewer) // sizes[group, story] + ((group == _DETERMINERS) & (phrases > 1))
    return np.lexsort((position, _ORDER_IN_PHRASE[role], phrase, story))


def _group_sizes(story: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """(groups, stories): number of words."""
    stories = int(story[-1]) + 1
    return np.bincount(group * stories + story, minlength=4 * stories).reshape(4, stories)


def _move_off_function_words(
    marks: NDArray[np.int64], role: NDArray[np.int64], first: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Move a mark after a determiner or a link to the nearest earlier word that is neither."""
    rows = np.arange(len(marks))
    target = np.maximum.accumulate(np.where((role == DETERMINER) | (role == LINK), 0, rows))
    moved = np.zeros_like(marks)
    marked = np.flatnonzero(marks)
    moved[np.maximum(target, first)[marked]] = marks[marked]
    return moved


def _index_in_group(
    key: NDArray[np.int64], order: NDArray[np.int64] | NDArray[np.float64] | None = None
) -> NDArray[np.int64]:
    """The index of each row among the rows with the same key, sorted by `order`."""
    rows = np.argsort(key, kind="stable") if order is None else np.lexsort((order, key))
    sorted_key = key[rows]
    index = np.empty_like(rows)
    index[rows] = np.arange(len(key)) - np.searchsorted(sorted_key, sorted_key)
    return index

"""The words of generated headlines: English words, then made-up names."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.lexicon import NAME, NOUN, Lexicon, read_lexicon

GENERAL_WORDS, TOPIC_WORDS, SUBTOPIC_WORDS, BAIT_WORDS = 1_600, 120, 36, 30
"""Length of each word list for 20,000 stories; the lists grow with the square root of the number of stories."""

_PIECE_DRAWS = 1_600  # range of the integers that pick a piece of a name; no list of pieces is longer


@dataclass(frozen=True)
class Vocabulary:
    """All words without repetition; each word list is a range of them, most common first."""

    words: NDArray[np.object_]
    role: NDArray[np.int64]
    """Part of speech of each word."""
    general: int
    per_topic: int
    per_subtopic: int
    bait: int

    def topic_start(self, topic: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.general + self.bait + topic * self.per_topic

    def subtopic_start(self, subtopic: NDArray[np.int64], topics: int) -> NDArray[np.int64]:
        return self.general + self.bait + topics * self.per_topic + subtopic * self.per_subtopic


def make_names(rng: np.random.Generator, lexicon: Lexicon, count: int) -> NDArray[np.object_]:
    """`count` different names such as Marlow or Kesteric, shorter ones first; none is a word of the lexicon."""
    taken = {word for words in lexicon.lists() for word in words}
    names: dict[str, None] = {}
    parts = 1
    while len(names) < count:
        # 5 % of the names have one part, 45 % two, the rest three or more
        limit = {1: 0.05, 2: 0.50}.get(parts, 1.0) * count
        pieces = [lexicon.name_starts, *[lexicon.name_middles] * (parts - 2), lexicon.name_ends]
        pieces = pieces if parts > 1 else [lexicon.short_names]
        for picks in rng.integers(_PIECE_DRAWS, size=(count, parts)).tolist():
            name = "".join([piece[pick % len(piece)] for piece, pick in zip(pieces, picks, strict=True)])
            if name not in taken:
                names[name.capitalize()] = None
            if len(names) >= limit:
                break
        parts = min(parts + 1, 4)
    return np.array(list(names), dtype=object)


def make_vocabulary(rng: np.random.Generator, stories: int) -> Vocabulary:
    """Lists of general words, clickbait words, and words of each topic and subtopic: English first, then names."""
    lexicon = read_lexicon()
    growth = np.sqrt(stories / 20_000)
    general, per_topic, per_subtopic = (
        max(12, round(size * growth)) for size in (GENERAL_WORDS, TOPIC_WORDS, SUBTOPIC_WORDS)
    )
    sizes = [general, BAIT_WORDS, *[per_topic] * len(lexicon.topics), *[per_subtopic] * len(lexicon.subtopics)]
    names = make_names(rng, lexicon, sum(sizes))
    rng.shuffle(names[general:])  # the general list keeps the short names, the other lists get any length
    words, role = _fill_lists(lexicon, sizes, names)
    return Vocabulary(words, role, general, per_topic, per_subtopic, BAIT_WORDS)


def _fill_lists(
    lexicon: Lexicon, sizes: list[int], names: NDArray[np.object_]
) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    words, role = names.copy(), np.full(len(names), NAME)
    start = 0
    for full_list, size in zip(lexicon.lists(), sizes, strict=True):
        english = full_list[:size]
        middle, end = start + len(english), start + size
        words[start:middle] = english
        words[middle:end] = names[start : end - len(english)]
        role[start:middle] = [lexicon.roles.get(word, NOUN) for word in english]
        start = end
    return words, role

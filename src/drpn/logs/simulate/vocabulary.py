"""The words a newsroom writes with: English ones, and behind them invented names."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drpn.logs.simulate.lexicon import NAME, NOUN, Lexicon, read_lexicon

GENERAL_WORDS, TOPIC_WORDS, SUBTOPIC_WORDS, BAIT_WORDS = 1_600, 120, 36, 30
"""Words of each list in a newsroom of 20,000 stories; with more stories the lists grow as the square root."""

_FACES = 1_600  # of the die that picks a piece of a name; no list of pieces is longer


@dataclass(frozen=True)
class Vocabulary:
    """Every word once; each list of words is a stretch of it, commonest first."""

    words: NDArray[np.object_]
    role: NDArray[np.int64]
    """What part each word plays in a sentence."""
    general: int
    per_topic: int
    per_subtopic: int
    bait: int

    def topic_start(self, topic: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.general + self.bait + topic * self.per_topic

    def subtopic_start(self, subtopic: NDArray[np.int64], topics: int) -> NDArray[np.int64]:
        return self.general + self.bait + topics * self.per_topic + subtopic * self.per_subtopic


def invent_names(rng: np.random.Generator, lexicon: Lexicon, count: int) -> NDArray[np.object_]:
    """`count` different names such as Marlow or Kesteric, none of them an English word here, the shorter ones first."""
    taken = {word for words in lexicon.lists() for word in words}
    names: dict[str, None] = {}
    parts = 1
    while len(names) < count:
        # the more names there are, the longer they get: 5 % of one part, 45 % of two, the rest of three or more
        limit = {1: 0.05, 2: 0.50}.get(parts, 1.0) * count
        pieces = [lexicon.name_starts, *[lexicon.name_middles] * (parts - 2), lexicon.name_ends]
        pieces = pieces if parts > 1 else [lexicon.short_names]
        for picks in rng.integers(_FACES, size=(count, parts)).tolist():
            name = "".join([piece[pick % len(piece)] for piece, pick in zip(pieces, picks, strict=True)])
            if name not in taken:
                names[name.capitalize()] = None
            if len(names) >= limit:
                break
        parts = min(parts + 1, 4)
    return np.array(list(names), dtype=object)


def gather_words(rng: np.random.Generator, stories: int) -> Vocabulary:
    """General words, enticing words, words of each topic and of each subtopic: English first, then names."""
    lexicon = read_lexicon()
    growth = np.sqrt(stories / 20_000)
    general, per_topic, per_subtopic = (
        max(12, round(size * growth)) for size in (GENERAL_WORDS, TOPIC_WORDS, SUBTOPIC_WORDS)
    )
    sizes = [general, BAIT_WORDS, *[per_topic] * len(lexicon.topics), *[per_subtopic] * len(lexicon.subtopics)]
    names = invent_names(rng, lexicon, sum(sizes))
    rng.shuffle(names[general:])  # the general names are short, the others of any length
    words, role = _fill(lexicon, sizes, names)
    return Vocabulary(words, role, general, per_topic, per_subtopic, BAIT_WORDS)


def _fill(
    lexicon: Lexicon, sizes: list[int], names: NDArray[np.object_]
) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    words, role = names.copy(), np.full(len(names), NAME)
    start = 0
    for english, size in zip(lexicon.lists(), sizes, strict=True):
        cut = english[:size]
        middle, end = start + len(cut), start + size
        words[start:middle] = cut
        words[middle:end] = names[start : end - len(cut)]
        role[start:middle] = [lexicon.roles.get(word, NOUN) for word in cut]
        start = end
    return words, role

"""Titles as words, and words as numbers. Row 0 of the vocabulary is padding, row 1 stands for every unknown word."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

PADDING, UNKNOWN = 0, 1
_TOKEN = re.compile(r"\w+|[.,!?;|]")


def tokens(title: str) -> list[str]:
    """The words of a title, lower-cased, and the marks . , ! ? ; |"""
    return _TOKEN.findall(title.lower())


def title_words(title: str, labels: Iterable[str | None] = ()) -> list[str]:
    """The words of a news: its labels (category, subcategory), each as one word, then those of its title."""
    return [label.strip().lower() for label in labels if label and label.strip()] + tokens(title)


@dataclass(frozen=True)
class Vocabulary:
    """Words and their rows, most frequent first; frozen once made."""

    words: Sequence[str]
    """By row; the first two are the names of padding and of the unknown word."""

    @classmethod
    def of(cls, titles: Iterable[Sequence[str]]) -> "Vocabulary":
        """Every word of the titles; words of equal count in the order of the alphabet."""
        counts = Counter(word for title in titles for word in title)
        return cls(["", "<unknown>", *sorted(counts, key=lambda word: (-counts[word], word))])

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words) if row > UNKNOWN}

    def encode(self, words: Sequence[str], length: int) -> NDArray[np.int32]:
        """The rows of the first `length` words, padded with 0."""
        encoded = np.zeros(length, dtype=np.int32)
        rows = [self.rows.get(word, UNKNOWN) for word in words[:length]]
        encoded[: len(rows)] = rows
        return encoded

    def __len__(self) -> int:
        """Rows, padding and the unknown word included."""
        return len(self.words)

"""Split titles into words, and words into vocabulary rows. Row 0 is padding, row 1 is the unknown word."""

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
    """The lower-cased words of a title and the marks . , ! ? ; |"""
    return _TOKEN.findall(title.lower())


def token_spans(title: str) -> list[tuple[str, int, int]]:
    """The words of `tokens`, each with its start and end in the lower-cased title."""
    return [(match[0], *match.span()) for match in _TOKEN.finditer(title.lower())]


def title_words(title: str, labels: Iterable[str | None] = ()) -> list[str]:
    """The words of a story: its labels (category, subcategory) as one word each, then the words of its title."""
    return [label.strip().lower() for label in labels if label and label.strip()] + tokens(title)


@dataclass(frozen=True)
class Vocabulary:
    """Words and their rows, most frequent first."""

    words: Sequence[str]
    """Words by row; the first two stand for padding and the unknown word."""

    @classmethod
    def of(cls, titles: Iterable[Sequence[str]], others: Iterable[Sequence[str]] = ()) -> "Vocabulary":
        """The words of the titles, then the words that occur only in `others`; ties in alphabetical order."""
        counts = Counter(word for title in titles for word in title)
        other_counts = Counter(word for text in others for word in text if word not in counts)
        return cls(["", "<unknown>", *_most_frequent_first(counts), *_most_frequent_first(other_counts)])

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

    def encode_all(self, texts: Sequence[Sequence[str]], length: int) -> NDArray[np.int32]:
        """(texts + 1, length): the encoded texts, after a row of padding."""
        encoded = np.zeros((len(texts) + 1, length), dtype=np.int32)
        for row, words in enumerate(texts, start=1):
            encoded[row] = self.encode(words, length)
        return encoded

    def __len__(self) -> int:
        """Number of rows, including padding and the unknown word."""
        return len(self.words)


def _most_frequent_first(counts: Counter[str]) -> list[str]:
    return sorted(counts, key=lambda word: (-counts[word], word))

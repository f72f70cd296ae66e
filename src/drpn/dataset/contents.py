"""How similar two stories are, from their labels and titles, which every log and every bundle has.

The similarity of two stories is the mean of up to three parts, each from 0 to 1:

    same category (1 or 0), same subcategory (1 or 0), cosine of the titles' TF-IDF vectors

A label that no story has is not a part. A story without a label has it in common with no other story. In a title each
word counts once, with the weight idf = ln((stories + 1) / (stories with the word + 1)) + 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset
from drpn.dataset.vocabulary import tokens

TITLE_WORDS = 30
"""The first words of a title are read, up to this many."""
_MARKS = frozenset(".,!?;|")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Contents:
    """Labels and titles of some stories."""

    category: Ints
    """(stories): 0 for none."""
    subcategory: Ints
    words: Ints
    """(stories, words): the distinct words of each title; 0 is padding."""
    weights: Floats
    """(stories, words): the TF-IDF weight of each word, 0 for padding; each title has norm 1."""
    labels: tuple[str, ...]
    """The labels that any story of the log has: "category", "subcategory", both or none."""

    def __len__(self) -> int:
        return len(self.category)

    def __getitem__(self, which: Array | slice) -> "Contents":
        return Contents(
            self.category[which], self.subcategory[which], self.words[which], self.weights[which], self.labels
        )

    @property
    def parts(self) -> int:
        """The number of parts of a similarity: the labels and the title."""
        return len(self.labels) + 1

    def similarity(self, others: "Contents") -> Floats:
        """Return (stories, others): the similarity of each pair of two different stories."""
        total = self._title_cosine(others)
        for label in self.labels:
            total += _same(getattr(self, label)[:, None], getattr(others, label)[None, :])
        total /= self.parts
        return total

    def similar_to(self, story: int) -> Floats:
        """Return (stories): the similarity of every other story to one of them; faster than `similarity` for one."""
        vector = np.zeros(int(self.words.max(initial=0)) + 1)
        vector[self.words[story]] = self.weights[story]
        total: Floats = (self.weights * vector[self.words]).sum(axis=1)
        for label in self.labels:
            labels = getattr(self, label)
            total += _same(labels, labels[story])
        total /= self.parts
        return total

    def _title_cosine(self, others: "Contents") -> Floats:
        known = np.union1d(others.words, [0])
        vectors = np.zeros((len(known) + 1, len(others)))  # (words, others); the last row: words of no other story
        vectors[np.searchsorted(known, others.words), np.arange(len(others))[:, None]] = others.weights
        row = np.searchsorted(known, self.words)
        row[known[np.minimum(row, len(known) - 1)] != self.words] = len(known)
        total = np.zeros((len(self), len(others)))
        for slot in range(self.words.shape[1]):
            total += self.weights[:, slot, None] * vectors[row[:, slot]]
        return total


@dataclass(frozen=True)
class ContentReader:
    """Reads the contents of the stories of a dataset, and of stories that came after it.

    Titles are read as texts: the words that a folder or a model keeps of them make no difference.
    """

    dataset: Dataset
    words: NDArray[np.int32]
    """(stories, words): the words of each title as numbers; 0 is padding."""
    numbers: dict[str, int]
    """The number of each word."""
    idf: Floats
    """The weight of each word, by number."""
    labels: tuple[str, ...]

    @classmethod
    def of(cls, dataset: Dataset) -> "ContentReader":
        """Number the words of all titles, and count the titles that have each."""
        numbers: dict[str, int] = {}
        words = np.zeros((len(dataset.titles), TITLE_WORDS), dtype=np.int32)
        for row, title in enumerate(dataset.titles):
            known = [numbers.setdefault(word, len(numbers) + 1) for word in _title_words(title)]
            words[row, : len(known)] = known
        titles = _distinct(words)
        stories_with = np.bincount(titles[titles > 0], minlength=len(numbers) + 1)
        idf = np.log(len(titles) / (stories_with + 1)) + 1  # the first row is padding: len(titles) is stories + 1
        labels = tuple(name for name in ("category", "subcategory") if dataset.arrays.array(f"news/{name}").any())
        return cls(dataset, words, numbers, idf, labels)

    def title(self, title: str) -> NDArray[np.int32]:
        """Return the words of a title as a row of `words`; words that no title of the dataset has are left out."""
        known = [self.numbers[word] for word in _title_words(title) if word in self.numbers]
        return np.array(known + [0] * (TITLE_WORDS - len(known)), dtype=np.int32)

    def rows(self, rows: Array) -> Contents:
        """Return the contents of stories by row of the dataset."""
        arrays = self.dataset.arrays
        return self.read(self.words[rows], arrays.array("news/category")[rows], arrays.array("news/subcategory")[rows])

    def read(self, words: Array, category: Array, subcategory: Array) -> Contents:
        """Return the contents of stories from their words (numbers, as in `words`) and labels (rows of the dataset)."""
        words = _distinct(words)
        weights = np.where(words > 0, self.idf[words], 0.0)
        weights /= np.maximum(np.sqrt((weights**2).sum(axis=1, keepdims=True)), 1e-12)
        category, subcategory = (np.asarray(label, dtype=np.int64) for label in (category, subcategory))
        return Contents(category, subcategory, words, weights, self.labels)


def _title_words(title: str) -> list[str]:
    """Return the first words of a title, without marks such as commas."""
    return [word for word in tokens(title) if word not in _MARKS][:TITLE_WORDS]


def _same(first: Array, second: Array) -> NDArray[np.bool_]:
    """Return whether two labels are the same, and not none."""
    return np.asarray((first == second) & (first > 0))


def _distinct(words: Array) -> Ints:
    """Return the words of each title sorted, with 0 for repeated words."""
    ordered = np.sort(np.asarray(words, dtype=np.int64), axis=1)
    repeated = np.zeros(ordered.shape, dtype=np.bool_)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return np.where(repeated, 0, ordered)

"""A dataset whose titles, profiles and neighbours are cut: the first words, newest stories, nearest neighbours."""

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from drpn.dataset.arrays import Array, ArrayReader
from drpn.dataset.parts import by_part

_BY_WORD = ("news/words", "news/word_entities")
"""Arrays with a column for each word of a title."""
_BY_NEIGHBOUR = ("news/neighbours", "users/neighbours")
"""Arrays with a column for each neighbour, the heaviest first."""


@dataclass(frozen=True, kw_only=True)
class LimitedReader(ArrayReader):
    """Reads arrays and leaves out words, stories of profiles and neighbours beyond a limit; None: no limit."""

    words: int | None = None
    """Words of a title, the first ones."""
    clicked: int | None = None
    """Clicked stories of a profile, the newest ones."""
    skipped: int | None = None
    """Skipped stories of a profile, the newest ones."""
    neighbours: int | None = None
    """Neighbours of a story, and of a user, the heaviest ones."""

    @classmethod
    def of(cls, reader: ArrayReader, **limits: Any) -> "LimitedReader":
        """The same arrays with limits."""
        same = {field.name: getattr(reader, field.name) for field in fields(ArrayReader)}
        return cls(**same, **limits)

    def array(self, name: str) -> Array:
        """The array `name`; those of stories of profiles, such as opinions, are cut like the stories."""
        values = super().array(name)
        if name in _BY_WORD:
            return values[:, : self.words]
        if name in _BY_NEIGHBOUR and self.neighbours is not None:
            return values[:, : self.neighbours]
        for side, count in (("clicked", self.clicked), ("skipped", self.skipped)):
            if count is None or values.ndim < 2 or count >= values.shape[1]:
                continue  # nothing to cut
            if name == f"readers/{side}":
                return by_part(partial(_newest_stories, count=count), values, values)
            if name == f"users/{side}" or name.startswith(f"users/{side}_"):
                return by_part(partial(_newest_stories, count=count), values, super().array(f"users/{side}"))
        return values


def _newest_stories(values: Array, stories: Array, *, count: int) -> Array:
    return newest(values, np.count_nonzero(stories, axis=1), count)


def newest(sequences: Array, lengths: Array, count: int | None) -> Array:
    """The last `count` items of each sequence of some length, oldest first, then padding; None: all of them."""
    if count is None or count >= sequences.shape[1]:
        return sequences
    kept = np.array(sequences[:, :count])
    long = np.flatnonzero(lengths > count)
    columns = lengths[long, None] - count + np.arange(count)
    kept[long] = np.take_along_axis(sequences[long], columns, axis=1)
    return kept

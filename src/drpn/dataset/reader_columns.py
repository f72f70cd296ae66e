"""Columns of a log about its readers, such as the device, as codes: 1, 2, ... for values, 0 for unknown ones."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array, ArrayReader
from drpn.errors import SettingsError

COLUMNS = ("device", "gender", "age", "subscriber")
GROUP = "subscriber"
"""The column that tells groups of readers apart whose clicks on a story are counted separately."""
BINS = 16
"""Numbers, such as ages, are put into at most this many groups."""
TEXTS = tuple(f"names/{name}." for name in COLUMNS)
"""Files that hold the texts of codes."""


def edges(values: Array) -> NDArray[np.float64]:
    """Where the groups of numbers begin."""
    known = np.unique(values[np.isfinite(values)]).astype(np.float64)
    return known if len(known) <= BINS else np.quantile(known, np.linspace(0, 1, BINS))


def group_numbers(values: Array, edges: Array) -> NDArray[np.int64]:
    """The group of each number, from 1 on; 0 for a number that is missing."""
    return np.where(np.isfinite(values), np.clip(np.searchsorted(edges, values, "right"), 1, None), 0)


@dataclass(frozen=True)
class ReaderColumns:
    """Turns facts about a reader into codes."""

    sizes: Mapping[str, int]
    """How many codes each column has, 0 included."""
    texts: Mapping[str, Mapping[str, int]]
    """The code of each text."""
    edges: Mapping[str, Array]
    """Where the groups of each column of numbers begin."""

    @classmethod
    def of(cls, arrays: ArrayReader, sizes: Mapping[str, int]) -> "ReaderColumns":
        """The columns of a dataset folder or bundle."""
        texts = {
            name: {text: code for code, text in enumerate(arrays.strings(f"names/{name}")) if code}
            for name in sizes
            if f"names/{name}" in arrays
        }
        numbers = {name: arrays.array(f"counts/{name}_edges") for name in sizes if f"counts/{name}_edges" in arrays}
        return cls(sizes, texts, numbers)

    def codes(self, about: Mapping[str, str | float]) -> tuple[dict[int, int], list[str]]:
        """The codes of a reader by the place of their column, and a line for each value that the log does not have."""
        codes, notes = dict[int, int](), []
        for name, value in about.items():
            if name not in self.sizes:
                known = ", ".join(self.sizes) or "none"
                raise SettingsError(f"the log says nothing of the {name} of its readers; columns that it has: {known}")
            code = self._code(name, value)
            codes[list(self.sizes).index(name)] = code
            if not code:
                notes.append(f"no reader of the log has the {name} '{value}'; it counts as unknown")
        return codes, notes

    def _code(self, name: str, value: str | float) -> int:
        if name in self.texts:
            code = self.texts[name].get(str(value), 0)
        else:
            try:
                number = float(value)
            except ValueError:
                raise SettingsError(f"{name} is {value!r}; it takes a number") from None
            code = int(group_numbers(np.array([number], np.float32), self.edges[name])[0])
        return code if code < self.sizes[name] else 0  # a text that only the first days have

"""Arrays in several files, read and filled as if they were one."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

Array = NDArray[Any]


class PartedArray(NDArrayOperatorsMixin):
    """The rows of several arrays, one part after the other.

    Indexing reads only the rows that are asked for. A numpy function or an operator on the whole joins it in memory.
    """

    def __init__(self, parts: Sequence[Array]) -> None:
        """`parts` may open a part when it is asked for; none is kept."""
        self.parts = parts
        self._bounds = np.cumsum([0, *map(len, parts)])
        first = parts[0]
        self.dtype = first.dtype
        self.shape = (int(self._bounds[-1]), *first.shape[1:])
        self.ndim = len(self.shape)
        self.size = int(np.prod(self.shape))
        self.nbytes = self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return int(self._bounds[-1])

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array in several parts cannot be joined without a copy")
        joined = np.empty(self.shape, self.dtype if dtype is None else dtype)
        for part, _, taken in self._slices(slice(None)):
            joined[taken] = part
        return joined

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        whole = (np.asarray(value) if isinstance(value, PartedArray) else value for value in inputs)
        return getattr(ufunc, method)(*whole, **options)

    def __getitem__(self, key: Any) -> Any:
        rows, rest = _rows_and_rest(key)
        if isinstance(rows, int | np.integer):
            part, place = self._row(rows)
            return part[(place, *rest)]
        if isinstance(rows, slice) and rows.step in (None, 1):
            return self._joined(rows, rest)
        if rows is Ellipsis or isinstance(rows, slice):
            return np.asarray(self)[key]
        numbers, rest = self._numbers(rows, rest)
        nothing = self.parts[0][(np.zeros_like(numbers[:0]), *_at(rest, slice(0)))]
        result = np.empty((len(numbers), *nothing.shape[1:]), nothing.dtype)
        for part, places, which in self._gathered(numbers):
            result[which] = part[(places, *_at(rest, which))]
        return result.reshape(*np.shape(rows), *result.shape[1:]) if np.asarray(rows).dtype != np.bool_ else result

    def __setitem__(self, key: Any, value: Any) -> None:
        rows, rest = _rows_and_rest(key)
        values = np.asarray(value)
        if isinstance(rows, int | np.integer):
            part, place = self._row(rows)
            part[(place, *rest)] = values
        elif rows is Ellipsis or isinstance(rows, slice):
            for part, inside, taken in self._slices(slice(None) if rows is Ellipsis else rows):
                part[(inside, *rest)] = values[taken] if values.ndim else values
        else:
            numbers, rest = self._numbers(rows, rest)
            if values.ndim:
                values = values.reshape(len(numbers), *values.shape[np.ndim(rows) :])
            for part, places, which in self._gathered(numbers):
                part[(places, *_at(rest, which))] = values[which] if values.ndim else values

    def tolist(self) -> list[Any]:
        """All rows as a list."""
        return list(chain.from_iterable(part.tolist() for part in self.parts))

    def sum(self, *arguments: Any, **options: Any) -> Any:
        """As that of an array; the sum of everything reads part after part."""
        if arguments or options:
            return np.asarray(self).sum(*arguments, **options)
        return sum(part.sum() for part in self.parts)

    def _joined(self, rows: slice, rest: tuple[Any, ...]) -> Array:
        """Consecutive rows: those of one part as they are, those of several in a new array."""
        start, stop, _ = rows.indices(len(self))
        joined: Array | None = None
        for part, inside, taken in self._slices(rows):
            piece: Array = part[(inside, *rest)]
            if len(piece) == max(stop - start, 0):
                return piece
            if joined is None:
                joined = np.empty((stop - start, *piece.shape[1:]), piece.dtype)
            joined[taken] = piece
        return cast(Array, joined)

    def _row(self, number: int | np.integer[Any]) -> tuple[Array, int]:
        """The part that holds a row, and the row in it."""
        row = range(len(self))[number]
        part = int(np.searchsorted(self._bounds, row, side="right")) - 1
        return self.parts[part], row - int(self._bounds[part])

    def _slices(self, rows: slice) -> Iterator[tuple[Array, slice, slice]]:
        """The parts that hold some of the rows: the part, the rows in it, and their places among the rows.

        Without rows it is the first part and none of its rows.
        """
        start, stop, _ = rows.indices(len(self))
        if stop <= start:
            yield self.parts[0], slice(0, 0), slice(0, 0)
        for number, (base, limit) in enumerate(pairwise(self._bounds.tolist())):
            first, end = max(start, base), min(stop, limit)
            if first < end:
                yield self.parts[number], slice(first - base, end - base), slice(first - start, end - start)

    def _numbers(self, rows: Any, rest: tuple[Any, ...]) -> tuple[NDArray[np.int64], tuple[Any, ...]]:
        """Row numbers and the other indices, in one dimension."""
        chosen = np.asarray(rows)
        if chosen.dtype == np.bool_:
            if chosen.shape != self.shape[:1]:
                raise IndexError(f"a mask of shape {chosen.shape} for {len(self)} rows")
            return np.flatnonzero(chosen), rest
        numbers = chosen.astype(np.int64).ravel()
        numbers = np.where(numbers < 0, numbers + len(self), numbers)
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(self)):
            raise IndexError(f"a row is not among the {len(self)} rows")
        return numbers, tuple(np.asarray(one).ravel() if isinstance(one, np.ndarray | list) else one for one in rest)

    def _gathered(self, numbers: NDArray[np.int64]) -> Iterator[tuple[Array, Array, Array]]:
        """The parts that hold some of the rows: the part, the rows in it, and their places among the rows."""
        of_row = np.searchsorted(self._bounds, numbers, side="right") - 1
        order = np.argsort(of_row, kind="stable")
        ends = np.searchsorted(of_row[order], np.arange(len(self.parts) + 1))
        for number, (first, end) in enumerate(pairwise(ends.tolist())):
            if first < end:
                which = order[first:end]
                yield self.parts[number], numbers[which] - self._bounds[number], which


def by_part(function: Callable[..., Array], *arrays: Array) -> Array:
    """A function of the rows of some arrays, computed part by part if they are in parts."""
    results = [function(*some) for some in zip(*map(parts_of, arrays), strict=True)]
    return results[0] if len(results) == 1 else cast(Array, PartedArray(results))


def parts_of(array: Any) -> Sequence[Array]:
    """The parts of an array, or the array itself as the only one."""
    return array.parts if isinstance(array, PartedArray) else (array,)


def _rows_and_rest(key: Any) -> tuple[Any, tuple[Any, ...]]:
    """The index of rows and those of the other axes."""
    return (key[0], key[1:]) if isinstance(key, tuple) else (key, ())


def _at(rest: tuple[Any, ...], which: Any) -> tuple[Any, ...]:
    """The other indices for some of the rows."""
    return tuple(one[which] if isinstance(one, np.ndarray) else one for one in rest)

"""Files in numpy's format: filled in place, grown by appending, and joined, without holding them in memory."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.lib.format import dtype_to_descr, open_memmap, read_array_header_1_0, read_magic, write_array_header_1_0

from drpn.dataset.parts import Array

_HEADER = 128
"""Bytes of a header. Its length leaves room for any number of rows, so that rows can be appended."""


def load(file: Path, mode: Literal["r", "r+"] = "r") -> Array:
    """The array in a file, as a memory map, which is read-only unless the mode is `r+`."""
    empty = file.stat().st_size <= _HEADER  # a header without data, which cannot be memory-mapped
    values: Array = np.load(file, mmap_mode=None if empty else mode, allow_pickle=False)
    return values


class MappedFiles(Sequence[Array]):
    """The arrays in several files. Each is mapped when it is asked for, because open files of a process are limited."""

    def __init__(self, files: Sequence[Path], mode: Literal["r", "r+"] = "r") -> None:
        self._files, self._mode = files, mode

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: Any) -> Any:
        return load(self._files[number], self._mode)


def zeros(file: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of zeros in a new file, as a memory map to be filled."""
    if 0 in shape:  # an array without elements cannot be memory-mapped
        nothing = np.zeros(shape, dtype)
        np.save(file, nothing, allow_pickle=False)
        return nothing
    return open_memmap(file, mode="w+", dtype=dtype, shape=shape)


def join(files: Sequence[Path], target: Path) -> None:
    """Write the rows of several files to one file."""
    shapes = [load(file).shape for file in files]
    with target.open("wb") as stream:
        _write_header(stream, load(files[0]).dtype, (sum(shape[0] for shape in shapes), *shapes[0][1:]))
        for file in files:
            with file.open("rb") as part:
                read_magic(part)
                read_array_header_1_0(part)
                shutil.copyfileobj(part, stream)


class GrowingBytes:
    """A new file with an array of bytes, whose number is known when it is closed."""

    def __init__(self, file: Path) -> None:
        self._stream: BinaryIO = file.open("wb")
        self._count = 0
        _write_header(self._stream, np.dtype(np.uint8), (0,))

    def append(self, data: bytes) -> None:
        """Write the next bytes."""
        self._stream.write(data)
        self._count += len(data)

    def close(self) -> None:
        """Write the number of bytes into the header."""
        self._stream.seek(0)
        _write_header(self._stream, np.dtype(np.uint8), (self._count,))
        self._stream.close()


def _write_header(stream: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    facts = {"descr": dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    write_array_header_1_0(stream, facts)

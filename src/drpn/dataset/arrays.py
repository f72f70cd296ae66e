"""Named arrays in a folder: written with checksums, read as memory maps, verified on request.

A large array of users or impressions may be in several files, `NAME.part-0.npy`, `NAME.part-1.npy` and so on.
"""

import hashlib
import itertools
import mmap
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from drpn.dataset import npy
from drpn.dataset.npy import GrowingBytes, MappedFiles
from drpn.dataset.parts import Array as Array
from drpn.dataset.parts import PartedArray
from drpn.errors import DrpnError, FolderError
from drpn.inside import check_names, file_inside

_PARTED = ("users/", "latest/", "train/", "validation/", "test/", "readers/", "pairs/", "counts/")
"""Folders whose arrays grow with users and impressions, and may be in parts."""
_PART = re.compile(r"(.+)\.part-(\d+)\.npy")


@dataclass(frozen=True)
class Strings:
    """Texts by row, stored as one array of UTF-8 bytes and the offset of each text."""

    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Strings":
        """Encode the texts."""
        encoded = [text.encode("utf-8") for text in texts]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        data, offsets = np.asarray(self.data).tobytes(), self.offsets.tolist()
        return (data[start:end].decode("utf-8") for start, end in itertools.pairwise(offsets))


@dataclass(frozen=True)
class ArrayWriter:
    """Writes arrays to a new folder."""

    folder: Path
    part_rows: int | None = None
    """Users or impressions in one file at most; None: all of them."""
    names: list[str] = field(default_factory=list)

    def array(self, name: str, values: Array, cuts: Sequence[int] | None = None) -> None:
        """Write a complete array; `cuts` as for `empty`."""
        for file, first, end in self._parts(name, len(values), cuts):
            np.save(file, np.ascontiguousarray(values[first:end]), allow_pickle=False)

    def empty(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, cuts: Sequence[int] | None = None) -> Array:
        """Create an array of zeros on disk, to be filled little by little.

        `cuts` are the rows at which a new file begins; by default there is one after every `part_rows` rows.
        """
        files = []
        for file, first, end in self._parts(name, shape[0], cuts):
            array = npy.zeros(file, (end - first, *shape[1:]), np.dtype(dtype))
            files.append(file)
        return array if len(files) == 1 else cast(Array, PartedArray(MappedFiles(files, "r+")))

    def cuts(self, rows: int) -> range:
        """The users or impressions at which a new part begins; `rows` is their number."""
        return range(self.part_rows or rows, rows, self.part_rows or 1)

    @staticmethod
    def release(array: Array) -> None:
        """Give back the memory of what was written so far to an array made by `empty`; the file keeps it."""
        # numpy's memory map has the map of the operating system as its base; an array in parts keeps no map
        pages: object = array.base if isinstance(array, np.memmap) else None
        if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)

    def strings(self, name: str, texts: Strings) -> None:
        """Write texts by row."""
        with self.growing_strings(name, len(texts)) as file:
            file.append(texts)

    def growing_strings(self, name: str, count: int) -> "GrowingStrings":
        """Texts by row, `count` in all, to be written little by little."""
        cuts = self.cuts(count) if name.startswith(_PARTED) else ()
        files = [file for file, *_ in self._parts(f"{name}.utf8", count, cuts)]
        return GrowingStrings(self.empty(f"{name}.offsets", (count + 1,), np.int64, cuts), files, (*cuts, count))

    def checksums(self) -> dict[str, str]:
        """sha256 of every written file."""
        return {name: sha256(self.folder / name) for name in sorted(self.names)}

    def _parts(self, name: str, rows: int, cuts: Sequence[int] | None) -> Iterator[tuple[Path, int, int]]:
        """The files of an array, each with its first row and the one after its last."""
        if cuts is None:
            cuts = self.cuts(rows) if name.startswith(_PARTED) else ()
        bounds = [0, *map(int, cuts), rows]
        for number, (first, end) in enumerate(itertools.pairwise(bounds)):
            self.names.append(f"{name}.part-{number}.npy" if len(bounds) > 2 else f"{name}.npy")
            file = self.folder / self.names[-1]
            file.parent.mkdir(parents=True, exist_ok=True)
            yield file, first, end


class GrowingStrings:
    """Texts by row that are appended little by little; to be used in a `with` block."""

    def __init__(self, offsets: Array, files: Sequence[Path], ends: Sequence[int]) -> None:
        """`ends` are the rows after the last one of each file."""
        self._offsets, self._rows = offsets, 0
        self._files = list(zip(files, ends, strict=True))[::-1]
        self._next_file()

    def append(self, texts: Strings) -> None:
        """Write the next texts."""
        offsets = texts.offsets - texts.offsets[0]
        self._offsets[self._rows : self._rows + len(texts) + 1] = offsets + self._offsets[self._rows]
        written = 0
        while written < len(texts):
            if self._rows == self._end:
                self._data.close()
                self._next_file()
            stop = min(len(texts), written + self._end - self._rows)
            self._data.append(texts.data[texts.offsets[written] : texts.offsets[stop]].tobytes())
            self._rows, written = self._rows + stop - written, stop

    def __enter__(self) -> "GrowingStrings":
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()

    def _next_file(self) -> None:
        file, self._end = self._files.pop()
        self._data = GrowingBytes(file)


@dataclass(frozen=True)
class ArrayReader:
    """Reads the arrays of a finished folder as read-only memory maps."""

    folder: Path
    checksums: Mapping[str, str]
    error: type[DrpnError] = FolderError
    remedy: str = "prepare the logs again"

    def __post_init__(self) -> None:
        check_names(self.folder, self.checksums, error=self.error, remedy=self.remedy)

    def __contains__(self, name: str) -> bool:
        return name in self._files or f"{name}.offsets" in self._files

    @property
    def names(self) -> list[str]:
        """The names of all arrays."""
        return list(self._files)

    def array(self, name: str) -> Array:
        """The array `name`; one in several files is a `PartedArray`, which is read in the same way."""
        files = self._paths(name)
        return npy.load(files[0]) if len(files) == 1 else cast(Array, PartedArray(MappedFiles(files)))

    def copy(self, name: str, target: Path) -> None:
        """Write the array `name` as one file."""
        files = self._paths(name)
        if len(files) == 1:
            shutil.copyfile(files[0], target)
        else:
            npy.join(files, target)

    @cached_property
    def _files(self) -> dict[str, list[str]]:
        """The files of each array, in the order of its rows."""
        files: dict[str, dict[int, str]] = {}
        for name in filter(lambda name: name.endswith(".npy"), self.checksums):
            part = _PART.fullmatch(name)
            array, number = (part[1], int(part[2])) if part else (name.removesuffix(".npy"), 0)
            files.setdefault(array, {})[number] = name
        return {array: [numbered[number] for number in sorted(numbered)] for array, numbered in files.items()}

    def _paths(self, name: str) -> list[Path]:
        if name not in self._files:
            raise self.error(f"{self.folder} has no array '{name}'; {self.remedy}")
        return [self.file(file) for file in self._files[name]]

    def strings(self, name: str) -> Strings:
        """The texts `name`."""
        return Strings(self.array(f"{name}.offsets"), self.array(f"{name}.utf8"))

    def file(self, name: str) -> Path:
        """The path of a file of the manifest."""
        return file_inside(self.folder, name, error=self.error, remedy=self.remedy)

    def verify(self) -> None:
        """Check that every file exists and has its checksum."""
        for name, checksum in self.checksums.items():
            file = self.file(name)
            if not file.is_file():
                raise self.error(f"{file} is missing; {self.remedy}")
            if sha256(file) != checksum:
                raise self.error(f"{file} has changed since it was written; {self.remedy}")


def sha256(file: Path) -> str:
    """The sha256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

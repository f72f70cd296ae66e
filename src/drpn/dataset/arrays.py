"""Named arrays in a folder: written with checksums, read as memory maps, verified on request."""

import hashlib
import itertools
import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from drpn.errors import DrpnError, FolderError
from drpn.inside import check_names, file_inside

Array = NDArray[Any]


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
        data, offsets = self.data.tobytes(), self.offsets.tolist()
        return (data[start:end].decode("utf-8") for start, end in itertools.pairwise(offsets))


@dataclass(frozen=True)
class ArrayWriter:
    """Writes arrays to a new folder."""

    folder: Path
    names: list[str] = field(default_factory=list)

    def array(self, name: str, values: Array) -> None:
        """Write a complete array."""
        np.save(self._file(name), np.ascontiguousarray(values), allow_pickle=False)

    def empty(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Create an array of zeros on disk, to be filled in parts."""
        if 0 in shape:  # an array without elements cannot be memory-mapped
            self.array(name, np.zeros(shape, dtype))
            return np.zeros(shape, dtype)
        return np.lib.format.open_memmap(self._file(name), mode="w+", dtype=np.dtype(dtype), shape=shape)

    @staticmethod
    def release(array: Array) -> None:
        """Give back the memory of what was written so far to an array made by `empty`; the file keeps it."""
        # numpy's memory map has the map of the operating system as its base
        pages: object = array.base if isinstance(array, np.memmap) else None
        if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)

    def strings(self, name: str, texts: Strings) -> None:
        """Write texts by row."""
        self.array(f"{name}.offsets", texts.offsets)
        self.array(f"{name}.utf8", texts.data)

    def checksums(self) -> dict[str, str]:
        """sha256 of every written file."""
        return {name: sha256(self.folder / name) for name in sorted(self.names)}

    def _file(self, name: str) -> Path:
        file = self.folder / f"{name}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        self.names.append(f"{name}.npy")
        return file


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
        return f"{name}.npy" in self.checksums or f"{name}.offsets.npy" in self.checksums

    def array(self, name: str) -> Array:
        """The array `name`."""
        if f"{name}.npy" not in self.checksums:
            raise self.error(f"{self.folder} has no array '{name}'; {self.remedy}")
        file = self.file(f"{name}.npy")
        empty = file.stat().st_size <= 128  # a header without data, which cannot be memory-mapped
        values: Array = np.load(file, mmap_mode=None if empty else "r", allow_pickle=False)
        return values

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

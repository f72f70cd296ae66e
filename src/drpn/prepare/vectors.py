"""Word vectors from GloVe or word2vec text files, plain or gzipped, for the words of a vocabulary."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.vocabulary import Vocabulary
from drpn.errors import LogError

_KIND = "a GloVe or word2vec text file"


@dataclass(frozen=True)
class WordVectors:
    """One vector for each word of a vocabulary, zeros where the file has none."""

    vectors: NDArray[np.float32]  # (words, size)
    found: NDArray[np.bool_]  # (words)

    def padded(self, words: int) -> "WordVectors":
        """The same for so many words, those behind without a vector."""
        more = words - len(self.found)
        return WordVectors(np.pad(self.vectors, [(0, more), (0, 0)]), np.pad(self.found, (0, more)))


def read_vectors(file: Path, vocabulary: Vocabulary) -> WordVectors:
    """The file's vectors of the vocabulary's words; of a word that stands twice the first."""
    size = _size(file)
    vectors = np.zeros((len(vocabulary), size), dtype=np.float32)
    found = np.zeros(len(vocabulary), dtype=np.bool_)
    for number, line in text_lines(file, _KIND):
        word, *values = line.rsplit(" ", size)  # from the right: some words of GloVe 840B hold spaces
        row = vocabulary.rows.get(word)
        if row is None or found[row]:
            continue
        try:
            vectors[row] = [float(value) for value in values]
        except ValueError as error:
            raise LogError(f"{file}:{number}: {word!r} is not followed by {size} numbers") from error
        found[row] = True
    return WordVectors(vectors, found)


def _size(file: Path) -> int:
    """How many numbers a vector has: what a word2vec header says, or what follows the first word."""
    lines = text_lines(file, _KIND)
    number, first = next(lines, (0, ""))
    fields = first.split(" ")
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        number, first = next(lines, (0, ""))
        fields = first.split(" ")
    if len(fields) < 3:
        raise LogError(f"{file}:{max(number, 1)}: {first[:40]!r} is not a word and its vector, as in GloVe text files")
    return len(fields) - 1


def text_lines(file: Path, kind: str) -> Iterator[tuple[int, str]]:
    """The lines of a text file, plain or gzipped, and their numbers; `kind` is what the user should have named."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                yield number, line.decode("utf-8").rstrip(" \r\n")
    except FileNotFoundError as error:
        raise LogError(f"{file} is missing; name {kind}") from error
    except UnicodeDecodeError as error:
        raise LogError(f"{file}:{number}: not UTF-8; name a text file, plain or .gz") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LogError(f"{file} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise LogError(f"{file} cannot be read: {error.strerror}") from error

"""Read the word vectors of a vocabulary from GloVe or word2vec text files, plain or gzipped."""

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
    """A vector for each word of a vocabulary, zeros for words without one."""

    vectors: NDArray[np.float32]  # (words, size)
    has_vector: NDArray[np.bool_]  # (words)

    def padded(self, words: int) -> "WordVectors":
        """The vectors extended to `words` rows; the new rows have no vector."""
        added = words - len(self.has_vector)
        return WordVectors(np.pad(self.vectors, [(0, added), (0, 0)]), np.pad(self.has_vector, (0, added)))


def read_vectors(file: Path, vocabulary: Vocabulary) -> WordVectors:
    """The file's vectors for the words of the vocabulary; the first one for a word with several."""
    size = _vector_size(file)
    vectors = np.zeros((len(vocabulary), size), dtype=np.float32)
    has_vector = np.zeros(len(vocabulary), dtype=np.bool_)
    for number, line in text_lines(file, _KIND):
        word, *values = line.rsplit(" ", size)  # from the right: some words of GloVe 840B contain spaces
        row = vocabulary.rows.get(word)
        if row is None or has_vector[row]:
            continue
        try:
            vectors[row] = [float(value) for value in values]
        except ValueError as error:
            raise LogError(f"{file}:{number}: {word!r} is not followed by {size} numbers") from error
        has_vector[row] = True
    return WordVectors(vectors, has_vector)


def _vector_size(file: Path) -> int:
    """The size of the vectors, from the word2vec header or the first line."""
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
    """(line number, line) of a text file, plain or gzipped; `kind` describes the expected file in error messages."""
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                yield number, line.decode("utf-8").rstrip(" \r\n")
    except FileNotFoundError as error:
        raise LogError(f"{file} is missing; name {kind}") from error
    except UnicodeDecodeError as error:
        raise LogError(f"{file}:{number}: not UTF-8; name a text file, plain or .gz") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LogError(f"{file} is not a complete gzip file: {error}") from error
    except OSError as error:
        raise LogError(f"{file} cannot be read: {error.strerror}") from error

"""Tokens, the vocabulary, and word vector files."""

import gzip
from pathlib import Path

import pytest

from drpn.dataset.vocabulary import Vocabulary, title_words, tokens
from drpn.errors import LogError
from drpn.preparation.vectors import read_vectors

VOCABULARY = Vocabulary.of([["storm", "storm", "harbour", "a b", "årets"]])


def test_tokens_are_lower_case_words_and_marks() -> None:
    assert tokens("Don't panic: 3 storms; Århus | what?!") == [
        *["don", "t", "panic", "3", "storms", ";", "århus", "|", "what", "?", "!"]
    ]


def test_labels_come_first_as_one_word_each_and_empty_labels_are_dropped() -> None:
    assert title_words("Late goal", [" Sports ", "Table Tennis"]) == ["sports", "table tennis", "late", "goal"]
    assert title_words("Late goal", [None, ""]) == ["late", "goal"]


def test_words_are_sorted_by_frequency_then_alphabetically() -> None:
    assert VOCABULARY.words == ["", "<unknown>", "storm", "a b", "harbour", "årets"]
    assert Vocabulary.of([["b", "a", "c", "c"]]).words[2:] == ["c", "a", "b"]


def test_encoding_truncates_pads_and_maps_unknown_words() -> None:
    assert VOCABULARY.encode(["harbour", "ghost"], 4).tolist() == [4, 1, 0, 0]
    assert VOCABULARY.encode(["storm", "storm", "harbour"], 2).tolist() == [2, 2]
    assert VOCABULARY.encode(["", "<unknown>"], 2).tolist() == [1, 1]


GLOVE = "storm 1 2 3\nsea 9 9 9\na b 4 5 6\nårets 7 8 9\nstorm 0 0 0\n"


@pytest.mark.parametrize("header", ["", "5 3\n"], ids=["glove", "word2vec"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_vectors_are_read_from_every_kind_of_file(tmp_path: Path, header: str, packed: bool) -> None:
    file = tmp_path / ("vectors.txt.gz" if packed else "vectors.txt")
    data = (header + GLOVE).encode()
    file.write_bytes(gzip.compress(data) if packed else data)
    result = read_vectors(file, VOCABULARY)
    assert result.has_vector.tolist() == [False, False, True, True, False, True]
    assert result.vectors[2:].tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0], [7, 8, 9]]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", r"a\.txt:1: '' is not a word and its vector"),
        ("a.txt", b"5 3\n", r"a\.txt:1: '' is not a word and its vector"),
        ("a.txt", b"storm\n", r"a\.txt:1: 'storm' is not a word and its vector"),
        ("a.txt", b"sea 1 2\nstorm 1 x\n", r"a\.txt:2: 'storm' is not followed by 2 numbers"),
        ("a.txt", b"sea 1 2\n\xff 1 2\n", r"a\.txt:2: not UTF-8"),
        ("a.gz", b"sea 1 2\n", r"a\.gz is not a complete gzip file"),
        ("a.gz", gzip.compress(b"sea 1 2\n" * 1000, mtime=0)[:40], r"a\.gz is not a complete gzip file"),
    ],
)
def test_bad_vector_files_are_reported(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LogError, match=message):
        read_vectors(tmp_path / name, VOCABULARY)

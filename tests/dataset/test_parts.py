"""An array in several parts reads and fills like one array."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpn.dataset.arrays import ArrayReader, ArrayWriter, Strings
from drpn.dataset.parts import PartedArray

WHOLE = np.random.default_rng(0).integers(0, 100, (23, 4))
CUTS = st.lists(st.integers(0, len(WHOLE)), min_size=1, max_size=5).map(sorted)
"""Equal cuts make parts without rows."""
ROWS = st.integers(-len(WHOLE), len(WHOLE) - 1)
COLUMN = st.integers(0, 3)
BOUND = st.none() | st.integers(-30, 30)


@st.composite
def keys(draw: st.DrawFn) -> Any:
    """An index of rows, alone or with one of columns."""
    rows: Any = draw(
        ROWS
        | st.builds(slice, BOUND, BOUND)
        | st.lists(ROWS, max_size=9).map(lambda rows: np.array(rows, np.int64))
        | st.lists(ROWS, min_size=6, max_size=6).map(lambda rows: np.array(rows).reshape(2, 3))
        | st.lists(st.booleans(), min_size=len(WHOLE), max_size=len(WHOLE)).map(np.array)
    )
    columns = [slice(1, 3), draw(COLUMN)]
    if isinstance(rows, np.ndarray) and rows.dtype != np.bool_:
        chosen = draw(st.lists(COLUMN, min_size=rows.size, max_size=rows.size))
        columns.append(np.array(chosen, np.int64).reshape(rows.shape))
    return draw(st.sampled_from([rows, *((rows, column) for column in columns)]))


def parts_of(array: np.ndarray, cuts: list[int]) -> PartedArray:
    return PartedArray([array[first:end].copy() for first, end in pairwise([0, *cuts, len(array)])])


@given(CUTS, keys())
def test_rows_are_those_of_the_whole_array(cuts: list[int], key: Any) -> None:
    expected, rows = WHOLE[key], parts_of(WHOLE, cuts)[key]
    np.testing.assert_array_equal(rows, expected)
    assert np.shape(rows) == np.shape(expected)


@given(CUTS, keys())
def test_values_are_set_in_their_part(cuts: list[int], key: Any) -> None:
    expected, filled = WHOLE.copy(), parts_of(WHOLE, cuts)
    # a row that is named several times gets the same value each time: numpy does not say which one would stay
    values = -1 - WHOLE[key]
    expected[key], filled[key] = values, values
    np.testing.assert_array_equal(np.asarray(filled), expected)
    filled[...] = 7
    assert (filled == 7).all()


def test_it_looks_like_an_array() -> None:
    parted = parts_of(WHOLE, [3, 3, 11])
    assert (len(parted), parted.shape, parted.ndim, parted.size) == (23, (23, 4), 2, 92)
    assert (parted.dtype, parted.nbytes) == (WHOLE.dtype, WHOLE.nbytes)
    assert parted.tolist() == WHOLE.tolist()
    assert [row.tolist() for row in parted] == WHOLE.tolist()
    assert parted.sum() == WHOLE.sum()
    np.testing.assert_array_equal(parted.sum(axis=1), WHOLE.sum(axis=1))
    np.testing.assert_array_equal(parted > 50, WHOLE > 50)
    np.testing.assert_array_equal(parted[::-2], WHOLE[::-2])
    np.testing.assert_array_equal(np.arange(100)[parted], WHOLE)
    np.testing.assert_array_equal(np.array(parted, np.float32), WHOLE.astype(np.float32))
    copy = np.array(parts_of(WHOLE, [0]))
    copy += 1
    assert (copy == WHOLE + 1).all()
    for wrong in (23, np.array([0, 23]), np.array([-24]), np.array([True])):
        with pytest.raises(IndexError):
            parted[wrong]
    with pytest.raises(ValueError, match="without a copy"):
        np.array(parted, copy=False)


def test_one_row_does_not_join_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parted = parts_of(WHOLE, [3, 11])
    monkeypatch.setattr(PartedArray, "__array__", lambda *_: pytest.fail("joined"))
    assert parted[4].tolist() == WHOLE[4].tolist()
    assert parted[5:9].tolist() == WHOLE[5:9].tolist()
    assert parted[np.array([20, 1])].tolist() == WHOLE[[20, 1]].tolist()


TEXTS = ["", "one", "zwei", "", "žába", "新聞", "seven", "", "", "ten"]


@pytest.mark.parametrize("part_rows", [None, 1, 3, 5, 10, 11])
def test_texts_that_come_in_pieces_are_those_written_at_once(tmp_path: Path, part_rows: int | None) -> None:
    whole, writer = ArrayWriter(tmp_path / "whole"), ArrayWriter(tmp_path / "parts", part_rows)
    whole.strings("users/id", Strings.of(TEXTS))
    with writer.growing_strings("users/id", len(TEXTS)) as file:
        for first, end in ((0, 2), (2, 2), (2, 9), (9, 10)):
            file.append(Strings.of(TEXTS[first:end]))
    reader = ArrayReader(tmp_path / "parts", writer.checksums())
    assert len(reader.checksums) == 2 * -(-len(TEXTS) // (part_rows or len(TEXTS)))
    texts = reader.strings("users/id")
    assert [*texts] == TEXTS
    assert [texts[row] for row in range(len(texts))] == TEXTS
    for name in reader.names:
        reader.copy(name, tmp_path / "joined.npy")
        assert (tmp_path / "joined.npy").read_bytes() == (tmp_path / "whole" / f"{name}.npy").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_parts_need_few_open_files(tmp_path: Path) -> None:
    """A process may open 1,024 files on many systems, and a large dataset has more parts than that."""

    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before, writer = open_files(), ArrayWriter(tmp_path, 1)
    array = writer.empty("users/clicked", WHOLE.shape, WHOLE.dtype)
    array[np.arange(len(WHOLE))] = WHOLE
    read = ArrayReader(tmp_path, writer.checksums()).array("users/clicked")
    assert read[:].tolist() == read[np.arange(len(WHOLE))].tolist() == WHOLE.tolist()
    assert read[:, 1].tolist() == WHOLE[:, 1].tolist()
    assert len(writer.names) == len(WHOLE)
    assert open_files() == before


def test_stories_stay_in_one_file(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path, 2)
    writer.array("news/words", WHOLE)
    writer.array("users/clicked", WHOLE)
    assert writer.names == ["news/words.npy", *(f"users/clicked.part-{number}.npy" for number in range(12))]

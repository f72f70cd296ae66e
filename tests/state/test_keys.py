"""Rows for keys, compared with a dictionary."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drpn.state.keys import KeyRows

any_key = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20)


def array(keys: list[int]) -> np.ndarray:
    return np.array(keys, np.int64)


@given(st.lists(st.lists(any_key, max_size=30), max_size=8))
def test_rows_against_a_dictionary(parts: list[list[int]]) -> None:
    """Every key keeps its row, and rows count from 0 in the order in which keys came."""
    table, known = KeyRows(), dict[int, int]()
    for part in parts:
        assert table.find(array(part)).tolist() == [known.get(key, -1) for key in part]
        for key in part:
            known.setdefault(key, len(known))
        assert table.rows(array(part)).tolist() == [known[key] for key in part]
        assert len(table) == len(known)
    everything = list(known)
    assert table.find(array(everything)).tolist() == list(range(len(known)))


def test_keys_keep_their_rows_when_the_table_grows() -> None:
    """Keys of users and stories, in parts of all sizes, until the table has grown many times."""
    random = np.random.default_rng(1)
    table, keys, rows = KeyRows(), array([]), array([])
    for size in (1, 600, 30, 5_000, 100_000, 3):
        part = np.unique(random.integers(1, 400, size) * 2**31 + random.integers(1, 2_000, size))
        part = part[~np.isin(part, keys)]
        rows = np.concatenate([rows, table.rows(part)])
        keys = np.concatenate([keys, part])
        assert (rows == np.arange(len(keys))).all()
        assert (table.find(keys) == rows).all()
        assert (table.find(keys + 2**62) == -1).all()


@given(st.lists(st.lists(st.tuples(any_key, st.booleans()), max_size=30), max_size=8))
def test_only_some_keys_are_new(parts: list[list[tuple[int, bool]]]) -> None:
    """Keys that are not marked as new are looked up; asking first names the same rows."""
    table, known = KeyRows(), dict[int, int]()
    for part in parts:
        keys, new = array([key for key, _ in part]), np.array([mark for _, mark in part], np.bool_)
        asked = table.rows_without_adding(keys, new).tolist()
        assert len(table) == len(known)
        for key, mark in part:
            if mark:
                known.setdefault(key, len(known))
        assert asked == table.rows(keys, new).tolist() == [known.get(key, -1) for key, _ in part]
        assert table.keys().tolist() == list(known)


def test_equal_and_colliding_keys_in_one_part() -> None:
    """A part of many keys, most of them twice, in a small table: places are wanted by several keys at once."""
    random = np.random.default_rng(3)
    keys = random.integers(0, 400, 600)
    table, known = KeyRows(), dict[int, int]()
    for key in keys.tolist():
        known.setdefault(key, len(known))
    assert table.rows(keys).tolist() == [known[key] for key in keys.tolist()]
    assert table.keys().tolist() == list(known)


def test_kept_keys_are_numbered_from_0() -> None:
    table = KeyRows.of(array(range(0, 3000, 3)))
    table.keep(table.keys() % 2 == 0)
    assert table.keys().tolist() == list(range(0, 3000, 6))
    assert table.find(array([0, 3, 6, 2994])).tolist() == [0, -1, 1, 499]
    assert table.rows(array([3, 6])).tolist() == [500, 1]


def test_no_key_is_kept() -> None:
    table = KeyRows.of(array([3, 5]))
    table.keep(np.zeros(2, np.bool_))
    assert table.rows(array([])).tolist() == []
    assert table.rows(array([5])).tolist() == [0]


def test_finding_adds_nothing() -> None:
    table = KeyRows()
    table.rows(array([5, 7]))
    assert table.find(array([7, 8, 5, 8])).tolist() == [1, -1, 0, -1]
    assert len(table) == 2

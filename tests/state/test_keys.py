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


def test_finding_adds_nothing() -> None:
    table = KeyRows()
    table.rows(array([5, 7]))
    assert table.find(array([7, 8, 5, 8])).tolist() == [1, -1, 0, -1]
    assert len(table) == 2

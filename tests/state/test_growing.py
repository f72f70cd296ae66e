"""Arrays that grow, compared with lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drpn.state.growing import GrowingRows

steps = st.lists(st.tuples(st.sampled_from(["reach", "cut", "set"]), st.integers(0, 300)), max_size=20)


@given(steps)
def test_rows_against_a_list(steps: list[tuple[str, int]]) -> None:
    array, rows = GrowingRows(np.int64, missing=-5), list[int]()
    for step, number in steps:
        if step == "reach":
            array.reach(number)
            rows += [-5] * (number - len(rows))
        elif step == "cut":
            array.cut(number)
            rows = rows[:number]
        elif number < len(rows):
            array.rows[number] = rows[number] = number
        assert array.rows.tolist() == rows
    asked = np.arange(0, 400, 7)
    assert array.at(asked).tolist() == [rows[row] if row < len(rows) else -5 for row in asked]
    which = np.arange(310) % 3 == 0
    array.keep(which)
    assert array.rows.tolist() == [
        row for row, kept in zip(rows + [-5] * (310 - len(rows)), which, strict=True) if kept
    ]


def test_rows_of_a_shape() -> None:
    array = GrowingRows(np.float32, shape=(2, 3))
    array.reach(2)
    array.rows[1] = 4
    assert array.at(np.array([1, 7])).tolist() == [[[4.0] * 3] * 2, [[0.0] * 3] * 2]
    array.replace(np.ones((1, 2, 3)))
    assert array.rows.dtype == np.float32
    assert array.rows.tolist() == [[[1.0] * 3] * 2]

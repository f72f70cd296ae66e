"""Sums and similarities of text vectors, compared with loops."""

import numpy as np
import pytest

from drpn.state.text_sums import similarities_to, sum_of_rows


@pytest.mark.parametrize(("groups", "members"), [(1, 90), (400, 5), (3, 1), (0, 0)])
def test_sums_of_each_group(groups: int, members: int) -> None:
    random = np.random.default_rng(groups)
    vectors = random.normal(size=(30, 8)).astype(np.float32)
    sizes = random.integers(0, members + 1, groups)
    sizes[:1] = members
    rows, of = random.integers(0, 30, sizes.sum()), np.repeat(np.arange(groups), sizes)
    sums = sum_of_rows(vectors, rows, of, groups)
    expected = [sum((vectors[row] for row in rows[of == group]), np.zeros(8)) for group in range(groups)]
    np.testing.assert_allclose(sums, np.array(expected).reshape(groups, 8), rtol=1e-5, atol=1e-5)


def test_a_sum_does_not_depend_on_the_other_groups() -> None:
    random = np.random.default_rng(2)
    vectors = random.normal(size=(30, 8)).astype(np.float32)
    of = np.repeat(np.arange(200), random.integers(1, 40, 200))
    rows = random.integers(0, 30, len(of))
    together = sum_of_rows(vectors, rows, of, 200)
    for group in range(200):
        mine = rows[of == group]
        alone = sum_of_rows(vectors, mine, np.zeros(len(mine), np.int64), 1)
        np.testing.assert_array_equal(alone[0], together[group])


@pytest.mark.parametrize("count", [0, 7, 5000])
def test_similarities(count: int) -> None:
    random = np.random.default_rng(count)
    vectors, others = random.normal(size=(40, 8)).astype(np.float32), random.normal(size=(9, 3, 8)).astype(np.float32)
    rows, which = random.integers(0, 40, count), random.integers(0, 9, count)
    expected = [
        [vectors[row] @ others[other, kind] for row, other in zip(rows, which, strict=True)] for kind in range(3)
    ]
    actual = similarities_to(vectors, rows, others, which)
    np.testing.assert_allclose(actual, np.array(expected).reshape(3, count), rtol=1e-4, atol=1e-5)

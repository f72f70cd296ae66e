"""Read times as evidence of noise: labels, AUC and rank correlation compared with loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from drpn.evaluation import read_times as code
from drpn.evaluation.noise import noise_auc_by_user
from drpn.evaluation.read_times import READ_SECONDS, kinds_of_read, pooled_auc, rank_correlation_by_user
from reference import metric_loops as loops

weights = arrays.arrays(np.float64, (5, 7), elements=st.sampled_from([0.0, 0.1, 0.2, 0.7]))
times = st.sampled_from([math.nan, math.nan, 0.0, 1.0, 4.9, 5.0, 5.1, 60.0])
seconds = arrays.arrays(np.float32, (5, 7), elements=times.map(lambda value: float(np.float32(value))))


def test_a_click_is_read_from_five_seconds_on_and_unknown_without_a_time() -> None:
    assert READ_SECONDS == 5
    times = np.array([[0.0, 4.99, 5.0, 600.0, math.nan]], dtype=np.float32)
    assert kinds_of_read(times).tolist() == [[-1, -1, 1, 1, 0]]


@given(weights, seconds)
def test_the_auc_within_users_and_the_pooled_one_equal_the_loops(weights: np.ndarray, seconds: np.ndarray) -> None:
    seconds[0, :2] = [3, 30]  # at least one user has both kinds
    kinds = kinds_of_read(seconds)
    assert kinds.tolist() == loops.read_kinds(seconds.tolist())
    by_user = noise_auc_by_user(weights, kinds)
    for row, auc in enumerate(by_user):
        if len({*kinds[row].tolist()} - {0}) == 2:
            assert auc == pytest.approx(loops.noise_auc([weights[row].tolist()], [kinds[row].tolist()]))
        else:
            assert math.isnan(auc)
    expected = loops.noise_auc([weights.ravel().tolist()], [kinds.ravel().tolist()])
    assert pooled_auc(weights, kinds) == pytest.approx(expected)


def test_pooling_compares_weights_of_different_users() -> None:
    """Both users are ranked perfectly; but the unread click of the short profile has more weight than the read ones."""
    weights = np.array([[0.6, 0.4, 0, 0], [0.3, 0.3, 0.3, 0.1]])
    kinds = np.array([[1, -1, 0, 0], [1, 1, 1, -1]])
    assert noise_auc_by_user(weights, kinds).tolist() == [1, 1]
    assert pooled_auc(weights, kinds) == 5 / 8
    assert math.isnan(pooled_auc(weights, np.abs(kinds)))


@given(weights, seconds, st.sampled_from([1, 100, 1 << 21]))
def test_rank_correlation_equals_the_loops(weights: np.ndarray, seconds: np.ndarray, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "_PAIRS_AT_ONCE", at_once)
        result = rank_correlation_by_user(weights, seconds)
    expected = [loops.rank_correlation(*row) for row in zip(weights.tolist(), seconds.tolist(), strict=True)]
    assert [None if math.isnan(value) else pytest.approx(value) for value in result] == expected


def test_rank_correlation_by_hand() -> None:
    unknown = math.nan
    weights = np.array(
        [[0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.7, 0.0], [0.5, 0.5, 0, 0], [1, 0, 0, 0]]
    )
    seconds = np.array(
        [
            [1, 8, 27, 64],  # rises with the weights, not linearly
            [3, 1, 2, unknown],  # ranks 1 2 3 and 3 1 2: 1 - 6 (4 + 1 + 1) / (3 (9 - 1)) = -0.5
            [2, 2, 9, unknown],  # ranks 1 2 3 and 1.5 1.5 3: 1.5 / sqrt(2 * 1.5)
            [1, 2, unknown, unknown],  # equal weights
            [9, unknown, unknown, unknown],  # one value
        ]
    )
    expected = [1, -0.5, math.sqrt(3) / 2, math.nan, math.nan]
    np.testing.assert_allclose(rank_correlation_by_user(weights, seconds), expected)


def test_rank_correlation_refuses_values_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"weights are \(2, 3\), but values \(3, 2\)"):
        rank_correlation_by_user(np.zeros((2, 3)), np.zeros((3, 2)))

"""Noise AUC and the TF-IDF rule against loops."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from drpn.evaluation import noise as code
from drpn.evaluation.noise import kinds_of_clicked, kinds_of_skipped, noise_auc, noise_auc_by_user, tfidf_rule
from reference import metric_loops as loops

weights = arrays.arrays(np.float64, (5, 7), elements=st.sampled_from([0.0, 0.1, 0.2, 0.7]))
kinds = arrays.arrays(np.int8, (5, 7), elements=st.sampled_from([1, -1, 0]))
titles = arrays.arrays(np.int32, (8, 5), elements=st.integers(0, 6))
clicked = arrays.arrays(np.int32, (4, 3), elements=st.integers(0, 7))
skipped = arrays.arrays(np.int32, (4, 4), elements=st.integers(0, 7))


@given(weights, kinds)
def test_noise_auc_is_that_of_the_loops(weights: np.ndarray, kinds: np.ndarray) -> None:
    kinds[0, :2] = [1, -1]  # somebody has both
    assert noise_auc(weights, kinds) == pytest.approx(loops.noise_auc(weights.tolist(), kinds.tolist()))


def test_noise_auc_by_hand() -> None:
    # the first user's real news outweighs one noise and ties with another; what is left out may weigh anything;
    # the second user's noise wins; the third has no noise
    weights = np.array([[0.3, 0.3, 0.2, math.nan], [0.1, 0.9, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    kinds = np.array([[1, -1, -1, 0], [1, -1, 0, 0], [1, 1, 0, 0]])
    np.testing.assert_array_equal(noise_auc_by_user(weights, kinds), [0.75, 0.0, math.nan])
    assert noise_auc(weights, kinds) == 0.375
    assert math.isnan(noise_auc(weights[2:], kinds[2:]))


def test_noise_auc_refuses_kinds_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"weights are \(2, 3\), but kinds \(3, 2\)"):
        noise_auc(np.zeros((2, 3)), np.zeros((3, 2)))


def test_a_click_is_real_where_the_user_is_interested_and_a_skip_where_they_dislike() -> None:
    opinion = np.array([1, 0, -1, np.iinfo(np.int32).min])  # the last: not known
    assert kinds_of_clicked(opinion).tolist() == [1, 0, -1, 0]
    assert kinds_of_skipped(opinion).tolist() == [-1, 0, 1, 0]


@settings(max_examples=60)
@given(titles, clicked, skipped, st.sampled_from([1, 1 << 21]))
def test_the_rule_is_that_of_the_loops(words: np.ndarray, clicks: np.ndarray, skips: np.ndarray, at_once: int) -> None:
    words[0] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "_NUMBERS_AT_ONCE", at_once)
        found = tfidf_rule(words, clicks, skips)
    for user in range(len(clicks)):
        own, opposite = clicks[user].tolist(), skips[user].tolist()
        np.testing.assert_allclose(found.clicked[user], loops.tfidf_rule(words.tolist(), own, opposite), atol=1e-12)
        np.testing.assert_allclose(found.skipped[user], loops.tfidf_rule(words.tolist(), opposite, own), atol=1e-12)


def test_the_rule_by_hand() -> None:
    # news 1 and 2 are alike, news 3 shares no word with them; one user clicked all three and skipped a twin of news 3
    words = np.array([[0, 0], [2, 3], [3, 2], [4, 5], [5, 4]])
    found = tfidf_rule(words, np.array([[1, 2, 3, 0]]), np.array([[4, 0]]))
    np.testing.assert_allclose(found.clicked, [[0.5, 0.5, 0 - 1, 0]], atol=1e-12)
    np.testing.assert_allclose(found.skipped, [[0 - 1 / 3, 0]], atol=1e-12)


def test_a_single_news_without_opposite_gets_exactly_0() -> None:
    words = np.array([[0, 0, 0], [2, 3, 4]])
    found = tfidf_rule(words, np.array([[1, 0]]), np.array([[0, 0]]))
    assert found.clicked.tolist() == [[0, 0]]
    assert found.skipped.tolist() == [[0, 0]]

"""Noise AUC and the TF-IDF rule compared with loops."""

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
def test_noise_auc_equals_that_of_the_loops(weights: np.ndarray, kinds: np.ndarray) -> None:
    kinds[0, :2] = [1, -1]  # at least one user has both kinds
    assert noise_auc(weights, kinds) == pytest.approx(loops.noise_auc(weights.tolist(), kinds.tolist()))


def test_noise_auc_by_hand() -> None:
    # the first user's real story beats one noise story and ties with another, and the weight of the left-out story
    # does not matter; the second user's noise wins; the third user has no noise
    weights = np.array([[0.3, 0.3, 0.2, math.nan], [0.1, 0.9, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    kinds = np.array([[1, -1, -1, 0], [1, -1, 0, 0], [1, 1, 0, 0]])
    np.testing.assert_array_equal(noise_auc_by_user(weights, kinds), [0.75, 0.0, math.nan])
    assert noise_auc(weights, kinds) == 0.375
    assert math.isnan(noise_auc(weights[2:], kinds[2:]))


def test_noise_auc_refuses_kinds_of_another_shape() -> None:
    with pytest.raises(ValueError, match=r"weights are \(2, 3\), but kinds \(3, 2\)"):
        noise_auc(np.zeros((2, 3)), np.zeros((3, 2)))


def test_clicks_are_real_with_interest_and_skips_with_dislike() -> None:
    opinion = np.array([1, 0, -1, np.iinfo(np.int32).min])  # the last is unknown
    assert kinds_of_clicked(opinion).tolist() == [1, 0, -1, 0]
    assert kinds_of_skipped(opinion).tolist() == [-1, 0, 1, 0]


@settings(max_examples=60)
@given(titles, clicked, skipped, st.sampled_from([1, 1 << 21]))
def test_the_rule_equals_the_loops(words: np.ndarray, clicks: np.ndarray, skips: np.ndarray, at_once: int) -> None:
    words[0] = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "_NUMBERS_AT_ONCE", at_once)
        trust = tfidf_rule(words, clicks, skips)
    for user in range(len(clicks)):
        clicked, skipped = clicks[user].tolist(), skips[user].tolist()
        titles = words.tolist()
        np.testing.assert_allclose(trust.clicked[user], loops.tfidf_rule(titles, clicked, skipped), atol=1e-12)
        np.testing.assert_allclose(trust.skipped[user], loops.tfidf_rule(titles, skipped, clicked), atol=1e-12)


def test_the_rule_by_hand() -> None:
    # stories 1 and 2 have equal words, story 3 shares none with them; a user clicked all three and skipped a copy of 3
    words = np.array([[0, 0], [2, 3], [3, 2], [4, 5], [5, 4]])
    trust = tfidf_rule(words, np.array([[1, 2, 3, 0]]), np.array([[4, 0]]))
    np.testing.assert_allclose(trust.clicked, [[0.5, 0.5, 0 - 1, 0]], atol=1e-12)
    np.testing.assert_allclose(trust.skipped, [[0 - 1 / 3, 0]], atol=1e-12)


def test_a_single_story_without_opposite_gets_exactly_0() -> None:
    words = np.array([[0, 0, 0], [2, 3, 4]])
    trust = tfidf_rule(words, np.array([[1, 0]]), np.array([[0, 0]]))
    assert trust.clicked.tolist() == [[0, 0]]
    assert trust.skipped.tolist() == [[0, 0]]

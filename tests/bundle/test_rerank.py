"""Maximal marginal relevance and calibrated categories, compared with plain loops."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpn.bundle.rerank import Calibration, MarginalRelevance, Placing, divergence_terms, rerank, scaled
from reference import diversity_loops as loops

DIVERSITIES = [0.05, 0.3, 0.7, 1.0]
seeds = st.integers(0, 10_000)


def lists(seed: int, count: int = 5, size: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores that do not rise, with ties, and which of them are real; and a generator's symmetric similarities."""
    random = np.random.default_rng(seed)
    scores = -np.sort(-random.integers(0, 6, (count, size)) / 3.0, axis=1)
    mask = np.arange(size) < random.integers(1, size + 1, count)[:, None]
    similarity = np.round(random.random((count, size, size)), 1)
    return scores, mask, np.maximum(similarity, similarity.transpose(0, 2, 1))


def marginal(scores: np.ndarray, mask: np.ndarray, similarity: np.ndarray, diversity: float) -> Placing:
    every = np.arange(len(scores))
    return MarginalRelevance(scaled(scores, mask), lambda chosen: similarity[every, chosen], diversity)


@pytest.mark.parametrize("diversity", DIVERSITIES)
@given(seeds)
def test_mmr_equals_a_loop(diversity: float, seed: int) -> None:
    scores, mask, similarity = lists(seed)
    order = rerank(marginal(scores, mask, similarity, diversity), mask)
    for row, real in enumerate(mask.sum(axis=1)):
        expected = loops.mmr(scores[row, :real].tolist(), similarity[row].tolist(), diversity)
        assert order[row, :real].tolist() == expected
        assert sorted(order[row].tolist()) == list(range(scores.shape[1]))


@pytest.mark.parametrize("diversity", DIVERSITIES)
@given(seeds)
def test_calibration_equals_a_loop(diversity: float, seed: int) -> None:
    scores, mask, _ = lists(seed)
    random = np.random.default_rng(seed + 1)
    category = random.integers(0, 4, scores.shape)
    target = random.multinomial(7, [0.4, 0.4, 0.2, 0.0, 0.0], len(scores)) / 7.0  # one category is nowhere
    order = rerank(Calibration(scaled(scores, mask), category, target, diversity), mask)
    for row, real in enumerate(mask.sum(axis=1)):
        expected = loops.calibrated(
            scores[row, :real].tolist(), category[row, :real].tolist(), target[row].tolist(), diversity
        )
        assert order[row, :real].tolist() == expected


@given(seeds)
def test_no_diversity_keeps_the_order(seed: int) -> None:
    scores, mask, similarity = lists(seed)
    for row in rerank(marginal(scores, mask, similarity, 0.0), mask):
        assert row.tolist() == list(range(scores.shape[1]))


def test_mmr_by_hand() -> None:
    # relevance 1, 0.9, 0.5, 0; the first two stories are the same, the third is half like the first
    similarity = np.eye(4)[None]
    similarity[0, 0, 1] = similarity[0, 1, 0] = 1.0
    similarity[0, 0, 2] = similarity[0, 2, 0] = 0.5
    scores, mask = np.array([[10.0, 9.0, 5.0, 0.0]]), np.ones((1, 4), dtype=np.bool_)
    # second place at 0.3: 0.63 - 0.3 = 0.33 for the copy, 0.35 - 0.15 = 0.2, 0; at 0.5: -0.05, 0, 0; at 0.6: -, -0.1, 0
    assert rerank(marginal(scores, mask, similarity, 0.3), mask)[0].tolist() == [0, 1, 2, 3]
    assert rerank(marginal(scores, mask, similarity, 0.5), mask)[0].tolist() == [0, 2, 3, 1]
    assert rerank(marginal(scores, mask, similarity, 0.6), mask)[0].tolist() == [0, 3, 2, 1]


def test_calibration_by_hand() -> None:
    # a user who clicked two stories of category 0 and one of category 1, and a list that is all of category 0 first
    category = np.array([[0, 0, 0, 0, 1, 1]])
    target = np.array([[2 / 3, 1 / 3]])
    scores, mask = np.array([[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]]), np.ones((1, 6), dtype=np.bool_)
    order = rerank(Calibration(scaled(scores), category, target, 1.0), mask)[0]
    assert category[0, order].tolist() == [0, 1, 0, 0, 1, 0]
    assert order.tolist() == [0, 4, 1, 2, 5, 3]  # within a category by score


def test_divergence_by_hand() -> None:
    terms = divergence_terms(np.array([[0.5, 0.5, 0.0]]), np.array([[1.0, 0.0, 0.0]]))
    assert terms[0] == pytest.approx([0.5 * math.log(0.5 / 0.995), 0.5 * math.log(0.5 / 0.005), 0])


def test_scores_are_scaled_within_their_list() -> None:
    mask = np.array([[True, True, True], [True, True, False], [True, False, False], [False, False, False]])
    scores = np.array([[4.0, 3.0, 2.0], [1.0, 0.0, 99.0], [7.0, 8.0, 9.0], [1.0, 2.0, 3.0]])
    expected = [[1, 0.5, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert scaled(scores, mask).tolist() == expected


def test_more_diversity_never_raises_the_relevance_of_the_first_places() -> None:
    """Over many random lists: the mean relevance of the first three falls, as does their similarity."""
    scores, mask, similarity = lists(3, count=400, size=12)
    mask[:] = True
    relevance, sameness = [], []
    for diversity in (0.0, 0.25, 0.5, 0.75, 1.0):
        first = rerank(marginal(scores, mask, similarity, diversity), mask)[:, :3]
        relevance.append(np.take_along_axis(scaled(scores), first, axis=1).mean())
        pairs = [similarity[np.arange(400), first[:, i], first[:, j]] for i, j in ((0, 1), (0, 2), (1, 2))]
        sameness.append(np.mean(pairs))
    assert relevance == sorted(relevance, reverse=True)
    assert sameness == sorted(sameness, reverse=True)
    assert sameness[0] > 1.5 * sameness[-1]

"""Metrics compared with their definitions, with and without ties."""

import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drpn.errors import ScoreError
from drpn.evaluation import metrics as code
from drpn.evaluation.metrics import METRICS, Metrics, measure, ranks
from reference import metric_loops as loops

Candidate = tuple[float, bool]
Log = list[list[Candidate]]
few_scores = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 2.0])
impressions = st.lists(st.tuples(few_scores, st.booleans()), max_size=6)
logs = st.lists(impressions, max_size=6)
untied = st.lists(
    st.tuples(st.floats(-1e3, 1e3), st.booleans()), min_size=2, max_size=40, unique_by=lambda candidate: candidate[0]
).filter(lambda candidates: len({label for _, label in candidates}) == 2)


def flat(log: Log) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores = np.array([score for impression in log for score, _ in impression], dtype=np.float64)
    clicked = np.array([label for impression in log for _, label in impression], dtype=np.bool_)
    return scores, clicked, np.cumsum([0, *map(len, log)])


def measure_one(scores: Sequence[float], clicked: Sequence[int]) -> dict[str, float]:
    """Return the metrics of a single impression."""
    result = measure(np.array(scores, dtype=np.float64), np.array(clicked, dtype=np.bool_), np.array([0, len(scores)]))
    return {name: float(values[0]) for name, values in result.by_name().items()}


@given(logs)
def test_metrics_are_means_over_all_orders_that_the_scores_allow(log: Log) -> None:
    result = measure(*flat(log)).by_name()
    for row, impression in enumerate(log):
        expected = loops.expected(*zip(*impression, strict=True)) if impression else None
        for name in METRICS:
            assert result[name][row] == pytest.approx(expected[name] if expected else math.nan, nan_ok=True, abs=1e-14)


@given(untied)
def test_untied_metrics_equal_those_of_the_mind_script(candidates: list[Candidate]) -> None:
    scores, labels = zip(*candidates, strict=True)
    order = [labels[place] for place in np.argsort(scores)[::-1]]
    result = measure_one(scores, labels)
    gains = np.array(order, dtype=np.float64)
    assert result["mrr"] == pytest.approx((gains / (np.arange(len(gains)) + 1)).sum() / gains.sum())
    assert result["ndcg@5"] == pytest.approx(loops.ndcg(order, 5))
    assert result["ndcg@10"] == pytest.approx(loops.ndcg(order, 10))
    assert result["auc"] == float(loops.auc(order))


def test_one_impression_by_hand() -> None:
    # ranks: skip, click, skip, click; the clicks win 1 of 4 pairs (second over third rank)
    result = measure_one([0.9, 0.7, 0.5, 0.1], [0, 1, 0, 1])
    assert result["auc"] == 1 / 4
    assert result["mrr"] == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert result["ndcg@5"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3)))


def test_more_clicks_than_k_are_measured_against_k_of_them() -> None:
    # seven clicks on top: the first five ranks are all clicks, which is the maximum of nDCG@5
    result = measure_one(np.arange(9.0, 0, -1), [1] * 7 + [0] * 2)
    assert result["ndcg@5"] == pytest.approx(1)
    assert result["ndcg@10"] == pytest.approx(1)


def test_a_tie_across_rank_k_shares_the_gain_within_k() -> None:
    # four skips, then a click tied with a skip at ranks 5 and 6; only rank 5 counts in nDCG@5
    result = measure_one([6, 5, 4, 3, 1, 1], [0, 0, 0, 0, 1, 0])
    assert result["ndcg@5"] == pytest.approx(0.5 / math.log2(6))
    assert result["ndcg@10"] == pytest.approx((1 / math.log2(6) + 1 / math.log2(7)) / 2)
    assert result["mrr"] == pytest.approx((1 / 5 + 1 / 6) / 2)
    assert result["auc"] == 0.5 / 5


@pytest.mark.parametrize("score", [0.0, 0.1, -3.7e8])
def test_a_constant_scorer_equals_chance_exactly(score: float) -> None:
    rng = np.random.default_rng(3)
    sizes = rng.integers(2, 60, 500)
    offsets = np.cumsum([0, *sizes])
    clicked = rng.random(offsets[-1]) < 0.2
    result = measure(np.full(offsets[-1], score), clicked, offsets)
    counted = result.counted
    assert 400 < counted.sum() < 500
    assert (result.auc[counted] == 0.5).all()
    assert result.mean()["auc"] == 0.5
    # a random order puts a click at each of the n ranks with equal probability
    clicks = np.add.reduceat(clicked.astype(int), offsets[:-1])[counted]
    for name, k in (("ndcg@5", 5), ("ndcg@10", 10)):
        gain = [sum(1 / math.log2(r + 1) for r in range(1, min(n, k) + 1)) / n for n in sizes[counted]]
        ideal = [sum(1 / math.log2(r + 1) for r in range(1, min(n, k) + 1)) for n in clicks]
        np.testing.assert_allclose(result.by_name()[name][counted], clicks * gain / ideal, rtol=1e-13)
    reciprocal = [sum(1 / r for r in range(1, n + 1)) / n for n in sizes[counted]]
    np.testing.assert_allclose(result.mrr[counted], reciprocal, rtol=1e-13)


@given(logs, st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(log: Log, random: Random) -> None:
    shuffled = [random.sample(impression, len(impression)) for impression in log]
    before, after = measure(*flat(log)), measure(*flat(shuffled))
    for name in METRICS:
        np.testing.assert_array_equal(before.by_name()[name], after.by_name()[name])


@settings(max_examples=40)
@given(logs, st.integers(1, 9))
def test_large_logs_are_measured_in_pieces_with_the_same_result(log: Log, candidates: int) -> None:
    whole, ranked = measure(*flat(log)), ranks(flat(log)[0], flat(log)[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(code._AT_ONCE, "cpu", candidates)
        chunked, ranked_in_chunks = measure(*flat(log)), ranks(flat(log)[0], flat(log)[2])
    for name in METRICS:
        np.testing.assert_array_equal(whole.by_name()[name], chunked.by_name()[name])
    np.testing.assert_array_equal(ranked, ranked_in_chunks)


def test_more_impressions_than_one_chunk() -> None:
    # 140,000 impressions of two candidates; the click is ranked first in every second one
    first = np.arange(140_000) % 2 == 0
    clicked = np.column_stack([first, ~first]).ravel()
    assert len(clicked) > code._AT_ONCE["cpu"]
    result = measure(np.tile([1.0, 0.0], 140_000), clicked, np.arange(0, 280_001, 2))
    np.testing.assert_array_equal(result.auc, first.astype(float))


def test_single_precision_scores_give_the_same_metrics() -> None:
    rng = np.random.default_rng(0)
    scores, clicked = rng.normal(size=3000).astype(np.float32), rng.random(3000) < 0.3
    offsets = np.arange(0, 3001, 30)
    single, double = measure(scores, clicked, offsets), measure(scores.astype(np.float64), clicked, offsets)
    np.testing.assert_array_equal(single.ndcg5, double.ndcg5)


def test_impressions_without_a_click_or_a_skip_are_left_out_of_the_mean() -> None:
    result = measure(*flat([[(1.0, True), (2.0, False)], [(1.0, True)], [(1.0, False)] * 2, []]))
    assert result.counted.tolist() == [True, False, False, False]
    assert len(result) == 4
    assert result.mean()["auc"] == 0
    assert result.mean()["mrr"] == 0.5
    assert np.isnan([*result[~result.counted].mean().values()]).all()


def test_seeds_have_equal_weight() -> None:
    first, second = (measure(*flat([[(s, True), (1.0, False)], [(1.0, False)]])) for s in (2.0, 0.0))
    both = Metrics.of_seeds([first, second])
    assert both.auc.shape == (2, 2)
    assert both.mean()["auc"] == 0.5
    assert both.mean()["mrr"] == 0.75
    assert len(both[both.counted]) == 1


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_not_finite_is_named(score: float) -> None:
    scores, clicked, offsets = np.array([0.0, 1.0, 2.0, score]), np.array([1, 0, 1, 0]), np.array([0, 2, 2, 4])
    message = rf"candidate 1 of impression 2 \(both from 0\) is {score}; only finite scores can be ranked"
    with pytest.raises(ScoreError, match=message):
        measure(scores, clicked, offsets)
    with pytest.raises(ScoreError, match=message):
        ranks(scores, offsets)


@pytest.mark.parametrize(
    ("scores", "clicked", "offsets", "message"),
    [
        ([1, 2], [1, 0], [0, 2], "scores are int64"),
        ([1.0, 2.0], [1, 0], [0, 1], r"offsets end at 1, but scores are \(2,\)"),
        ([1.0, 2.0], [1], [0, 2], r"clicked \(1,\)"),
        ([1.0, 2.0], [1, 0], [1, 2], "offsets do not rise from 0"),
        ([1.0, 2.0], [1, 0], [0, 3, 2], "offsets do not rise from 0"),
        ([], [], [], "offsets do not rise from 0"),
    ],
)
def test_arrays_of_wrong_shape_are_refused(scores: list, clicked: list, offsets: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure(np.array(scores), np.array(clicked), np.array(offsets))


def test_auc_and_ndcg_equal_those_of_scikit_learn_with_ties() -> None:
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    rng = np.random.default_rng(1)
    sizes = rng.integers(3, 40, 200)
    offsets = np.cumsum([0, *sizes])
    scores = rng.integers(0, 8, offsets[-1]) / 4  # many ties
    clicked = rng.random(offsets[-1]) < 0.3
    result = measure(scores, clicked, offsets)
    assert result.counted.sum() > 150
    for row in np.flatnonzero(result.counted):
        impression = slice(offsets[row], offsets[row + 1])
        truth, predicted = clicked[impression].astype(int), scores[impression]
        assert result.auc[row] == pytest.approx(sklearn.roc_auc_score(truth, predicted))
        assert result.ndcg5[row] == pytest.approx(sklearn.ndcg_score(truth[None], predicted[None], k=5))
        assert result.ndcg10[row] == pytest.approx(sklearn.ndcg_score(truth[None], predicted[None], k=10))

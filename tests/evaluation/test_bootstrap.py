"""Intervals: how often they hold the truth, and what they draw."""

import json

import numpy as np
import pytest

from drpn.evaluation import bootstrap as code
from drpn.evaluation.bootstrap import _bootstrap, interval, intervals, paired
from drpn.evaluation.groups import masks, rows
from drpn.evaluation.metrics import METRICS, Metrics


def clustered(rng: np.random.Generator, users: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    """Impressions of mean 0 that vary by 1 between users and by 1 within a user."""
    values = rng.normal(size=(users, 1)) + rng.normal(size=(users, each))
    return values.ravel(), np.repeat(np.arange(users), each)


def test_the_interval_holds_the_true_mean_about_95_times_in_100() -> None:
    rng = np.random.default_rng(0)
    found = [interval(*clustered(rng, users=80, each=3), rng, draws=200) for _ in range(600)]
    held = np.mean([each.low <= 0 <= each.high for each in found])
    # so few draws hold it 0.944 times (of 4,000 tries); 600 tries stray from that by three times 0.0094
    assert 0.915 <= held <= 0.972


def test_the_width_is_that_of_independent_users_not_of_independent_impressions() -> None:
    rng = np.random.default_rng(1)
    values, users = clustered(rng, users=300, each=12)
    over_users = interval(values, users, rng, draws=4000)
    over_impressions = interval(values, np.arange(len(values)), rng, draws=4000)
    error = values.reshape(300, 12).mean(axis=1).std() / np.sqrt(300)  # the mean of 300 independent user means
    assert over_users.high - over_users.low == pytest.approx(2 * 1.96 * error, rel=0.06)
    assert over_impressions.high - over_impressions.low == pytest.approx(2 * 1.96 * values.std() / 60, rel=0.06)
    assert over_users.mean == pytest.approx(values.mean())


def test_a_drawn_user_brings_all_impressions() -> None:
    # a: nine impressions of 1, b: one of 0. The draws aa, ab, bb (1/4, 1/2, 1/4) have the means 1, 0.9 and 0,
    # so two thirds are not surpassed by bb alone; a mean of user means would be 0.5 in ab
    values, users = np.array([1.0] * 9 + [0.0]), np.array([7] * 9 + [3])
    found = paired(values, np.full(10, 2 / 3), users, np.random.default_rng(0), draws=4000)
    assert found.difference == pytest.approx(0.9 - 2 / 3)
    assert found.not_higher == pytest.approx(0.25, abs=0.02)
    assert (found.low, found.high) == (pytest.approx(-2 / 3), pytest.approx(1 / 3))


def test_seeds_are_drawn_too() -> None:
    # nothing varies but the seed: of two seeds, half of the draws hold only the first, half only the second
    values = np.array([[0.0] * 50, [1.0] * 50])
    found = interval(values, np.arange(50), np.random.default_rng(0))
    assert found == (0.5, 0.0, 1.0)
    assert interval(values.mean(axis=0), np.arange(50), np.random.default_rng(0)) == (0.5, 0.5, 0.5)


def test_draws_vary_as_much_as_the_means_of_so_many_seeds_do() -> None:
    rng = np.random.default_rng(4)
    for seeds in (2, 3, 5):
        values = np.repeat(rng.normal(size=(seeds, 1)), 40, axis=1)  # all users alike
        expected = np.sqrt(values[:, 0].var(ddof=1) / seeds)
        found = _bootstrap(values[None], np.arange(40), rng, 20_000).draws.std()
        assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("shape", [(200,), (3, 200)])
def test_a_model_does_not_differ_from_itself(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    values = rng.random(shape)
    assert paired(values, values, rng.integers(0, 30, 200), rng) == (0.0, 0.0, 0.0, 1.0)


def test_the_paired_interval_sees_a_difference_that_is_the_same_for_every_user() -> None:
    rng = np.random.default_rng(3)
    values, users = clustered(rng, users=60, each=2)
    better = values + 0.01 + rng.normal(scale=0.01, size=values.shape)
    found = paired(better, values, users, rng)
    assert 0 < found.low < 0.01 < found.high < 0.02
    assert found.not_higher == 0
    alone = interval(better, users, rng)
    assert alone.low < interval(values, users, rng).mean < alone.high


def test_a_model_without_seeds_is_compared_with_each_seed_of_another() -> None:
    rng = np.random.default_rng(4)
    seeds, plain, users = rng.random((3, 90)), rng.random(90), np.arange(90) // 2
    found = paired(seeds, plain, users, np.random.default_rng(0))
    assert found == paired(seeds, np.stack([plain] * 3), users, np.random.default_rng(0))
    assert found.difference == pytest.approx(seeds.mean() - plain.mean())


def test_impressions_without_a_value_and_users_without_any_other_are_left_out() -> None:
    rng = np.random.default_rng(5)
    values, users = clustered(rng, users=20, each=3)
    gaps, nobody = np.append(values, [np.nan, np.nan]), np.append(users, [0, 999])
    alike = [interval(*each, np.random.default_rng(0)) for each in ((values, users), (gaps, nobody))]
    assert alike[0] == alike[1]


def test_draws_depend_on_the_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    values, users = clustered(np.random.default_rng(6), users=40, each=3)
    whole = interval(values, users, np.random.default_rng(1))
    monkeypatch.setattr(code, "_WEIGHTS_AT_ONCE", 130)
    assert interval(values, users, np.random.default_rng(1)) == pytest.approx(whole)
    assert interval(values, users, np.random.default_rng(2)) != pytest.approx(whole)


def test_metrics_together_get_the_intervals_they_get_alone() -> None:
    rng = np.random.default_rng(7)
    values, users = {"a": rng.random(60), "b": rng.random(60)}, rng.integers(0, 20, 60)
    together = intervals(values, users, np.random.default_rng(0))
    for name, each in values.items():
        assert together[name] == pytest.approx(interval(each, users, np.random.default_rng(0)))


def test_arrays_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"there are 3 impressions, but users are \(2,\)"):
        interval(np.zeros(3), np.zeros(2), rng)
    with pytest.raises(ValueError, match="no impression has both a click and a skip"):
        interval(np.full(3, np.nan), np.zeros(3), rng)


def some_metrics(impressions: int) -> Metrics:
    arrays = np.random.default_rng(8).random((4, impressions))
    arrays[:, 0] = np.nan
    return Metrics(*arrays)


def test_rows_tell_users_with_a_profile_from_those_without() -> None:
    metrics, users = some_metrics(12), np.arange(12) // 2
    has_profile = users < 2
    found = rows("drpn", metrics, users, has_profile, np.random.default_rng(0))
    assert [(row["model"], row["group"], row["impressions"]) for row in found] == [
        ("drpn", "all", 11),
        ("drpn", "with_profile", 3),
        ("drpn", "without_profile", 8),
    ]
    for row, chosen in zip(found, masks(has_profile).values(), strict=True):
        for name in METRICS:
            values = metrics.by_name()[name]
            assert row[name] == pytest.approx(np.nanmean(values[chosen]))
            low, high = row[f"{name}_interval"]
            assert np.nanmin(values[chosen]) <= low < row[name] < high <= np.nanmax(values[chosen])
    assert list(found[0]) == ["model", "group", "impressions", *METRICS, *(f"{name}_interval" for name in METRICS)]
    assert json.loads(json.dumps(found)) == found


def test_rows_draw_the_users_of_their_group() -> None:
    # the one user with a profile is drawn every time, wherever their impressions stand
    users = np.tile([1, 2, 7, 3], 5)
    found = rows("drpn", some_metrics(20), users, users == 7, np.random.default_rng(0))
    assert found[1]["auc_interval"] == pytest.approx([found[1]["auc"]] * 2)
    assert found[2]["auc_interval"][0] < found[2]["auc"] < found[2]["auc_interval"][1]


def test_a_group_of_nobody_has_no_numbers() -> None:
    found = rows("drpn", some_metrics(4), np.arange(4), np.ones(4, dtype=bool), np.random.default_rng(0))
    assert found[0]["impressions"] == found[1]["impressions"] == 3
    nobody = found[2]
    assert nobody["impressions"] == 0
    assert nobody["auc"] is nobody["ndcg@10_interval"] is None
    assert list(nobody) == list(found[0])

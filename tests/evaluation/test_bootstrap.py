"""Bootstrap intervals: their coverage, their width and the units they draw."""

import json

import numpy as np
import pytest

from drpn.evaluation import bootstrap as code
from drpn.evaluation.bootstrap import _bootstrap, interval, intervals, paired
from drpn.evaluation.groups import masks, rows
from drpn.evaluation.metrics import METRICS, Metrics


def clustered(rng: np.random.Generator, users: int, per_user: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values with mean 0, standard deviation 1 between users and 1 within a user; and their users."""
    values = rng.normal(size=(users, 1)) + rng.normal(size=(users, per_user))
    return values.ravel(), np.repeat(np.arange(users), per_user)


def test_intervals_cover_the_true_mean_95_times_in_100() -> None:
    rng = np.random.default_rng(0)
    results = [interval(*clustered(rng, users=80, per_user=3), rng, draws=200) for _ in range(600)]
    coverage = np.mean([result.low <= 0 <= result.high for result in results])
    # 200 draws have a coverage of 0.944 (from 4,000 tries); the bounds are three standard errors of 600 tries away
    assert 0.915 <= coverage <= 0.972


def test_the_width_is_that_of_independent_users() -> None:
    rng = np.random.default_rng(1)
    values, users = clustered(rng, users=300, per_user=12)
    over_users = interval(values, users, rng, draws=4000)
    over_impressions = interval(values, np.arange(len(values)), rng, draws=4000)
    error = values.reshape(300, 12).mean(axis=1).std() / np.sqrt(300)  # the mean of 300 independent user means
    assert over_users.high - over_users.low == pytest.approx(2 * 1.96 * error, rel=0.06)
    assert over_impressions.high - over_impressions.low == pytest.approx(2 * 1.96 * values.std() / 60, rel=0.06)
    assert over_users.mean == pytest.approx(values.mean())


def test_a_drawn_user_contributes_all_impressions() -> None:
    # user a has nine impressions of value 1, user b one of value 0. The draws aa, ab, bb (1/4, 1/2, 1/4) have the
    # means 1, 0.9 and 0, so only bb is below two thirds; with a mean of user means ab would have 0.5
    values, users = np.array([1.0] * 9 + [0.0]), np.array([7] * 9 + [3])
    result = paired(values, np.full(10, 2 / 3), users, np.random.default_rng(0), draws=4000)
    assert result.difference == pytest.approx(0.9 - 2 / 3)
    assert result.not_higher == pytest.approx(0.25, abs=0.02)
    assert (result.low, result.high) == (pytest.approx(-2 / 3), pytest.approx(1 / 3))


def test_seeds_are_drawn() -> None:
    # only the seed matters: with two seeds, half of the draws take the first and half the second
    values = np.array([[0.0] * 50, [1.0] * 50])
    assert interval(values, np.arange(50), np.random.default_rng(0)) == (0.5, 0.0, 1.0)
    assert interval(values.mean(axis=0), np.arange(50), np.random.default_rng(0)) == (0.5, 0.5, 0.5)


def test_draws_vary_like_the_mean_over_the_seeds() -> None:
    rng = np.random.default_rng(4)
    for seeds in (2, 3, 5):
        values = np.repeat(rng.normal(size=(seeds, 1)), 40, axis=1)  # all users have the same values
        expected = np.sqrt(values[:, 0].var(ddof=1) / seeds)
        spread = _bootstrap(values[None], np.arange(40), rng, 20_000).draws.std()
        assert spread == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("shape", [(200,), (3, 200)])
def test_a_model_does_not_differ_from_itself(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    values = rng.random(shape)
    assert paired(values, values, rng.integers(0, 30, 200), rng) == (0.0, 0.0, 0.0, 1.0)


def test_the_paired_interval_detects_a_small_constant_difference() -> None:
    rng = np.random.default_rng(3)
    values, users = clustered(rng, users=60, per_user=2)
    better = values + 0.01 + rng.normal(scale=0.01, size=values.shape)
    result = paired(better, values, users, rng)
    assert 0 < result.low < 0.01 < result.high < 0.02
    assert result.not_higher == 0
    unpaired = interval(better, users, rng)
    assert unpaired.low < interval(values, users, rng).mean < unpaired.high


def test_a_model_without_seeds_is_compared_with_each_seed() -> None:
    rng = np.random.default_rng(4)
    seeds, plain, users = rng.random((3, 90)), rng.random(90), np.arange(90) // 2
    result = paired(seeds, plain, users, np.random.default_rng(0))
    assert result == paired(seeds, np.stack([plain] * 3), users, np.random.default_rng(0))
    assert result.difference == pytest.approx(seeds.mean() - plain.mean())


def test_nan_impressions_and_users_with_nothing_else_are_left_out() -> None:
    rng = np.random.default_rng(5)
    values, users = clustered(rng, users=20, per_user=3)
    with_nan, more_users = np.append(values, [np.nan, np.nan]), np.append(users, [0, 999])
    expected = interval(values, users, np.random.default_rng(0))
    assert interval(with_nan, more_users, np.random.default_rng(0)) == expected


def test_draws_depend_on_the_generator_only(monkeypatch: pytest.MonkeyPatch) -> None:
    values, users = clustered(np.random.default_rng(6), users=40, per_user=3)
    whole = interval(values, users, np.random.default_rng(1))
    monkeypatch.setattr(code, "_WEIGHTS_AT_ONCE", 130)
    assert interval(values, users, np.random.default_rng(1)) == pytest.approx(whole)
    assert interval(values, users, np.random.default_rng(2)) != pytest.approx(whole)


def test_several_metrics_get_the_same_intervals_as_one_at_a_time() -> None:
    rng = np.random.default_rng(7)
    values, users = {"a": rng.random(60), "b": rng.random(60)}, rng.integers(0, 20, 60)
    together = intervals(values, users, np.random.default_rng(0))
    for name, metric in values.items():
        assert together[name] == pytest.approx(interval(metric, users, np.random.default_rng(0)))


def test_arrays_of_wrong_shape_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"there are 3 impressions, but users are \(2,\)"):
        interval(np.zeros(3), np.zeros(2), rng)
    with pytest.raises(ValueError, match="no impression has both a click and a skip"):
        interval(np.full(3, np.nan), np.zeros(3), rng)


def random_metrics(impressions: int) -> Metrics:
    arrays = np.random.default_rng(8).random((4, impressions))
    arrays[:, 0] = np.nan
    return Metrics(*arrays)


def test_rows_separate_users_with_and_without_a_profile() -> None:
    metrics, users = random_metrics(12), np.arange(12) // 2
    has_profile = users < 2
    table = rows("drpn", metrics, users, has_profile, np.random.default_rng(0))
    assert [(row["model"], row["group"], row["impressions"]) for row in table] == [
        ("drpn", "all", 11),
        ("drpn", "with_profile", 3),
        ("drpn", "without_profile", 8),
    ]
    for row, chosen in zip(table, masks(has_profile).values(), strict=True):
        for name in METRICS:
            values = metrics.by_name()[name]
            assert row[name] == pytest.approx(np.nanmean(values[chosen]))
            low, high = row[f"{name}_interval"]
            assert np.nanmin(values[chosen]) <= low < row[name] < high <= np.nanmax(values[chosen])
    assert list(table[0]) == ["model", "group", "impressions", *METRICS, *(f"{name}_interval" for name in METRICS)]
    assert json.loads(json.dumps(table)) == table


def test_rows_draw_only_users_of_their_group() -> None:
    # the only user with a profile is in every draw, wherever their impressions are
    users = np.tile([1, 2, 7, 3], 5)
    _, with_profile, without = rows("drpn", random_metrics(20), users, users == 7, np.random.default_rng(0))
    assert with_profile["auc_interval"] == pytest.approx([with_profile["auc"]] * 2)
    assert without["auc_interval"][0] < without["auc"] < without["auc_interval"][1]


def test_an_empty_group_has_no_numbers() -> None:
    everyone = np.ones(4, dtype=bool)
    total, with_profile, without = rows("drpn", random_metrics(4), np.arange(4), everyone, np.random.default_rng(0))
    assert total["impressions"] == with_profile["impressions"] == 3
    assert without["impressions"] == 0
    assert without["auc"] is without["ndcg@10_interval"] is None
    assert list(without) == list(total)

"""The page about weights and read times: means over seeds, and differences of the same users."""

import numpy as np
import pytest

import read_times
from drpn.recipes.runs import Run
from read_times import auc_rows, difference_rows, page

USERS = 400
RANDOM = np.random.default_rng(5)
NOISE = RANDOM.normal(0, 0.1, (2, USERS))
RULE = np.broadcast_to(0.5 + RANDOM.normal(0, 0.1, USERS), (2, USERS))
AUCS = {"drpn": {"denoise": RULE + 0.03 + NOISE, "content": RULE - 0.01 + NOISE, "tfidf rule": RULE}}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_each_kind_of_weights_has_its_mean_and_each_seed_its_own() -> None:
    _, _, denoise, content, rule = map(cells, auc_rows(AUCS))
    means = AUCS["drpn"]["denoise"].mean(axis=1)
    assert denoise[:2] == ["drpn", "denoise"]
    assert denoise[2].startswith(f"{means.mean():.3f} (")
    assert denoise[3] == ", ".join(f"{mean:.3f}" for mean in means)
    assert content[1] == "content"
    assert rule[0] == "tfidf rule"
    assert rule[2].startswith(f"{RULE.mean():.3f} (")


def test_differences_are_those_of_the_same_users() -> None:
    """The noise of weights is the same for both, so that their difference is sure; that from the rule is not."""
    _, _, line = map(cells, difference_rows(AUCS))
    assert line[:3] == ["drpn", "denoise", "+0.040 (+0.040 to +0.040)"]
    expected = (AUCS["drpn"]["denoise"] - RULE).mean()
    assert line[3].startswith(f"{expected:+.3f} (")
    low, high = (float(number) for number in line[3].partition("(")[2].rstrip(")").split(" to "))
    assert low < expected < high


def test_users_without_both_kinds_of_clicks_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_times, "commit", lambda: "abc1234")
    training = {"batch": 256, "rate": 0.0005, "decay": 1.0, "epochs": 2}
    facts = {"settings": {"model": {"size": 60}, "training": training}, "commit": "def5678"}
    aucs = {name: np.where(np.arange(USERS) < 100, np.nan, values) for name, values in AUCS["drpn"].items()}
    lines = page({"drpn": aucs}, [Run(read_times.Path(), facts)])
    assert lines[2].startswith("300 users with clicks that were read and clicks that were not; 2 seeds of each model; ")
    assert "commit def5678" in lines[2]
    assert "commit abc1234" in lines[2]
    assert "nan" not in " ".join(lines)

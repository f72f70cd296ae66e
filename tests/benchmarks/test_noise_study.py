"""The page of the study of planted feedback: systems, intervals and tables."""

import math

import numpy as np
import pytest

from noise_study import System, difference_rows, estimate, noise_rows, page, systems, values_of
from study_runs import RUNS


def test_systems_of_a_study() -> None:
    chosen = systems([0, 0.3], ["long:drpn-planted:training.planted_passes=9,model.size=64", "nrms:nrms"])
    assert [system.name for system in chosen] == [
        "drpn", "drpn-d", "drpn-planted 0", "drpn-planted 0.3", "long", "nrms"
    ]  # fmt: skip
    assert chosen[3] == System("drpn-planted 0.3", "drpn-planted", ("training.planted=0.3",))
    assert chosen[4].sets == ("training.planted_passes=9", "model.size=64")
    assert chosen[5] == System("nrms", "nrms")


def test_each_newsroom_is_one_observation() -> None:
    values = np.array([[0.01, 0.03], [0.03, 0.05], [0.06, 0.06]])
    means = np.array([0.02, 0.04, 0.06])
    error = means.std(ddof=1) / math.sqrt(3)
    one = estimate(values)
    assert one.mean == pytest.approx(0.04)
    assert (one.low, one.high) == pytest.approx((0.04 - 4.303 * error, 0.04 + 4.303 * error))
    assert one.visible == pytest.approx(2.8 * error)
    alone = estimate(values[:1])
    assert alone.high - alone.mean == pytest.approx(12.71 * values[0].std(ddof=1) / math.sqrt(2))
    assert math.isnan(estimate(values[:1, :1]).low)


def test_differences_are_those_of_the_same_newsroom_and_seed() -> None:
    lines = difference_rows(RUNS, ["drpn", "drpn-d", "more"])
    assert lines[2].startswith("| drpn | 0.6550 |  |  | -0.0050 (")
    cells = [cell.strip() for cell in lines[4].strip("|").split("|")]
    assert cells[:2] == ["more", "0.6750"]
    assert cells[2].startswith("+0.0200 (")  # north 0.04 and 0.02, south 0.01 and 0.01
    assert cells[3] == f"{2.8 * 0.02 / 2:.4f}"
    assert cells[4].startswith("+0.0150 (")


def test_noise_of_both_views_and_missing_numbers() -> None:
    lines = noise_rows(RUNS, ["more"])
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells[1].startswith("0.750 (")
    assert cells[2].startswith("0.650 (")
    assert cells[3] == "0.500 (0.500 to 0.500)"
    assert np.isnan(values_of({"one": {"drpn-d": [{"noise": None}]}}, "drpn-d", "noise", "clicked", "denoise")).all()
    more = System("more", "drpn-planted", ("training.planted=1",))
    lines = page(RUNS, [System("drpn", "drpn"), System("drpn-d", "drpn-d"), more], "Study", "model.size=8")
    assert lines[0] == "# Study"
    assert lines[2].startswith(
        "2 newsrooms, 2 seeds; Xeon, commits abc1234 (drpn), abc1234 (drpn-d), abc1234 and def5678 (more); page by"
    )
    alike = page(RUNS, [System("drpn", "drpn"), System("drpn-d", "drpn-d")], "Study", "")
    assert alike[2].startswith("2 newsrooms, 2 seeds; Xeon, commit abc1234; page by")
    assert "Settings of all systems: model.size=8. `more`: training.planted=1." in lines
    assert "| more | 0.6400 | 0.7100 |" in lines

"""The page and the picture of planted feedback at each level of noise."""

from pathlib import Path

import pytest

from noise_levels import Levels, auc_rows, draw, found_rows
from study_runs import RUNS

NAMES = ["drpn", "drpn-d", "more"]


@pytest.fixture
def levels() -> Levels:
    quiet = {
        room: {name: [run | {"noise": {}} for run in of_room[name]] for name in NAMES} for room, of_room in RUNS.items()
    }
    return {30.0: RUNS, 0.0: quiet}


def cells_of(lines: list[str]) -> list[list[str]]:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len({len(line) for line in cells}) == 1
    return cells[2:]


def test_a_line_with_test_auc_for_each_level(levels: Levels) -> None:
    quiet, noisy = cells_of(auc_rows(levels, NAMES))
    assert [quiet[0], noisy[0]] == ["0 %", "30 %"]
    assert noisy[1:4] == ["0.6550", "0.6600", "0.6750"]
    assert noisy[4].startswith("+0.0200 (")


def test_the_noise_that_is_found_beside_the_ceilings(levels: Levels) -> None:
    quiet_clicked, quiet_skipped, clicked, skipped = cells_of(found_rows(levels, "more"))
    assert set(quiet_clicked[2:] + quiet_skipped[2:]) == {""}  # without noise there is none to find
    assert [clicked[:2], skipped[:2]] == [["30 %", "clicked"], ["30 %", "skipped"]]
    assert clicked[2].startswith("0.750 (")
    assert [cell[:5] for cell in clicked[3:]] == ["0.650", "0.500", "0.940", "0.840"]


def test_the_picture_is_written_with_and_without_noise(levels: Levels, tmp_path: Path) -> None:
    draw(levels, NAMES, tmp_path / "levels.png")
    assert (tmp_path / "levels.png").read_bytes()[1:4] == b"PNG"

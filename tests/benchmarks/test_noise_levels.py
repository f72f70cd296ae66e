"""The page and the picture of planted feedback at each level of noise."""

from pathlib import Path

import pytest

from noise_levels import Levels, draw, rows
from study_runs import RUNS

NAMES = ["drpn", "drpn-d", "more"]


@pytest.fixture
def levels() -> Levels:
    quiet = {
        room: {name: [run | {"noise": {}} for run in of_room[name]] for name in NAMES} for room, of_room in RUNS.items()
    }
    return {30.0: RUNS, 0.0: quiet}


def test_a_line_for_each_level(levels: Levels) -> None:
    lines = rows(levels, NAMES)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len({len(line) for line in cells}) == 1
    assert [line[0] for line in cells[2:]] == ["0 %", "30 %"]
    assert cells[3][1:4] == ["0.6550", "0.6600", "0.6750"]
    assert cells[3][4].startswith("+0.0200 (")
    assert cells[3][6].startswith("0.750 (")
    assert set(cells[2][6:]) == {""}  # without noise there is none to find


def test_the_picture_is_written_with_and_without_noise(levels: Levels, tmp_path: Path) -> None:
    draw(levels, NAMES, tmp_path / "levels.png")
    assert (tmp_path / "levels.png").read_bytes()[1:4] == b"PNG"

"""Columns of shown stories that profiles carry, such as how long a story was read."""

from pathlib import Path

import numpy as np
import pytest

from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare


@pytest.mark.parametrize("position", ["0", ""])
def test_each_story_of_a_profile_has_its_own_value_though_positions_tie(tmp_path: Path, position: str) -> None:
    """Every story was read for as many seconds as its id says."""
    stories = range(10, 30)
    lines = ["impression_id,user_id,time,news_id,clicked,position,read_seconds"]
    for day in range(1, 6):
        for user in range(4):
            shown = [stories[(day * 5 + user * 3 + place) % len(stories)] for place in range(5)]
            lines += [
                f"{day}-{user},u{user},2026-01-0{day}T0{user}:00:00,n{story},{int(place < 3)},{position},{story}"
                for place, story in enumerate(shown)
            ]
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "impressions.csv").write_text("\n".join(lines) + "\n")
    (logs / "news.csv").write_text("news_id,title\n" + "".join(f"n{story},story {story}\n" for story in stories))
    dataset = prepare(logs, tmp_path / "data", DataSettings(vector_size=0))
    clicked = np.asarray(dataset.clicked)
    seconds = np.asarray(dataset.arrays.array("users/clicked_read_seconds"))
    ids = list(dataset.news_ids)
    assert np.count_nonzero(clicked) > 12
    for row, value in zip(clicked[clicked > 0], seconds[clicked > 0], strict=True):
        assert float(value) == float(ids[row].removeprefix("n"))

"""The demo chooses its number of threads."""

from pathlib import Path

import pytest
import torch

from drpn.recipes import demo as recipe
from drpn.training.threads import use_threads


def test_the_whole_demo_runs_with_the_chosen_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    monkeypatch.setattr(recipe, "choose_threads", lambda _: 1)
    monkeypatch.setattr(recipe, "_demo", lambda *_: used.append(torch.get_num_threads()))
    with use_threads(2):
        recipe.demo(tmp_path / "demo")
    assert used == [1]

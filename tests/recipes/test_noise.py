"""Noise ceilings of the simulator's presets: in `personal` the profile tells noise, in `newsroom` the story does."""

from pathlib import Path

import numpy as np

from drpn.dataset.folder import Dataset
from drpn.evaluation.noise import noise_auc
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.noise import noise_ceilings, noise_kinds
from drpn.recipes.prepare import prepare


def _prepare(folder: Path, settings: SimulationSettings) -> Dataset:
    simulate(folder / "logs", settings)
    return prepare(folder / "logs", folder / "dataset", DataSettings(vector_size=0))


def _ceilings(dataset: Dataset) -> dict[str, list[float]]:
    """Noise AUC for clicked and skipped stories, by kind of ceiling."""
    kinds = noise_kinds(dataset)
    assert kinds is not None
    scores = noise_ceilings(dataset, np.arange(len(dataset.user_ids)), kinds)
    return {name: [noise_auc(sides[side], kinds[side]) for side in kinds] for name, sides in scores.items()}


def test_the_profile_alone_finds_the_noise_of_personal(tmp_path: Path) -> None:
    dataset = _prepare(tmp_path, SimulationSettings(users=1_000, seed=4, preset="personal"))
    ceilings = _ceilings(dataset)
    assert min(ceilings["personal ceiling"]) > 0.85
    assert min(ceilings["story ceiling"]) > 0.45
    assert max(ceilings["story ceiling"]) < 0.6
    clicks = np.count_nonzero(dataset.clicked, axis=1)
    assert clicks[clicks > 0].mean() >= 11


def test_the_story_finds_the_noise_of_the_newsroom_better_than_the_profile(tmp_path: Path) -> None:
    ceilings = _ceilings(_prepare(tmp_path, SimulationSettings(users=3_000, seed=4)))
    assert min(ceilings["personal ceiling"]) > 0.52
    assert max(ceilings["personal ceiling"]) < 0.68
    assert min(ceilings["story ceiling"]) > max(ceilings["personal ceiling"]) + 0.05

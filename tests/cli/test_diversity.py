"""The diversity of a trained model: in the output of `drpn evaluate`, and its curve on a small newsroom."""

import json
from pathlib import Path

import pytest
import torch

from drpn.dataset.folder import Dataset
from drpn.evaluation.diversity import DIVERSITY, DiversityMeter
from drpn.evaluation.metrics import METRICS
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.evaluate import reference_scores
from drpn.recipes.prepare import prepare
from small_training import train_small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diversity")
    simulate(folder / "logs", SimulationSettings(users=800, news=2_000, seed=3))
    prepare(folder / "logs", folder / "data", DataSettings(vector_size=16))
    return train_small(folder / "data", folder / "run", batch=64)


@pytest.fixture(scope="module")
def dataset(run: Path) -> Dataset:
    return Dataset.open(run.parent / "data")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.recipes.evaluate.pick_device", lambda: torch.device("cpu"))


def test_evaluate_reports_the_diversity_of_every_system(drpn, run: Path, dataset: Dataset) -> None:
    done = drpn("evaluate", run, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    metrics = (*METRICS, *DIVERSITY)
    keys = ["model", "group", "impressions", *metrics, *(f"{name}_interval" for name in metrics)]
    assert all(list(row) == keys for row in document["rows"])
    impressions = dataset.impressions("test")
    meter = DiversityMeter(dataset, impressions)
    rows = {row["model"]: row for row in document["rows"] if row["group"] == "all"}
    for name, scores in reference_scores(dataset, impressions).items():
        expected = meter.measure(scores).mean()
        assert {key: rows[name][key] for key in DIVERSITY} == pytest.approx(expected)
    assert rows["chance"]["coverage@10"] > rows["popularity"]["coverage@10"]


def test_evaluate_prints_a_table_of_diversity(drpn, run: Path) -> None:
    shown = drpn("evaluate", run).stdout
    table = shown.split("Diversity of the first ten stories, all users")[1].splitlines()
    assert table[1].split() == ["distance", "coverage", "concentration", "novelty"]
    assert [line.split()[0] for line in table[2:10] if line[:1].strip()] == ["drpn", "chance", "popularity", "oracle"]

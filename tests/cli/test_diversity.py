"""The diversity of a trained model: in the output of `drpn evaluate`, and its curve on a small newsroom."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drpn.bundle.rerank import METHODS
from drpn.dataset.contents import ContentReader
from drpn.dataset.folder import Dataset
from drpn.evaluation.diversity import DIVERSITY, DiversityMeter
from drpn.evaluation.metrics import METRICS
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.diversity import KNOB, category_shares, diversity_curve, miscalibration, reranked_scores
from drpn.recipes.evaluate import evaluate, reference_scores
from drpn.recipes.prepare import prepare
from reference import diversity_loops as loops
from small_training import refused, train_small


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
    assert document["diversity_curve"] is None
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


@pytest.fixture(scope="module")
def curve(run: Path) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drpn.recipes.evaluate.pick_device", lambda: torch.device("cpu"))
        evaluation = evaluate(run, diversity_curve=run.parent / "pictures" / "curve.svg")
    assert evaluation.diversity_curve is not None
    return evaluation.diversity_curve


def oracle_curve(dataset: Dataset) -> dict[str, list[dict[str, Any]]]:
    """The points of the oracle by method: a ranking that has accuracy to lose."""
    impressions = dataset.impressions("test")
    points = diversity_curve(reference_scores(dataset, impressions)["oracle"], dataset, impressions)
    return {method: [point for point in points if point["method"] == method] for method in METHODS}


def test_files_of_the_curve(run: Path, curve: list[dict[str, Any]]) -> None:
    document = json.loads((run.parent / "pictures" / "curve.json").read_text())
    assert (document["model"], document["split"]) == ("drpn", "test")
    assert document["points"] == curve
    assert "<svg" in (run.parent / "pictures" / "curve.svg").read_text()


def test_curve_starts_with_the_plain_ranking(run: Path, curve: list[dict[str, Any]]) -> None:
    assert [(point["method"], point["diversity"]) for point in curve] == [
        (method, diversity) for method in METHODS for diversity in (0.0, *KNOB)
    ]
    plain = next(row for row in evaluate(run).rows if row["model"] == "drpn")
    for point in (curve[0], curve[len(KNOB) + 1]):
        for name in (*METRICS, *DIVERSITY):
            assert point[name] == pytest.approx(plain[name])
            assert point[f"{name}_interval"] == pytest.approx(plain[f"{name}_interval"])
        assert point["auc_less_plain"]["difference"] == point["ndcg@10_less_plain"]["high"] == 0
    for point in curve:
        assert point["auc_less_plain"]["difference"] == pytest.approx(point["auc"] - plain["auc"], abs=1e-9)


def test_more_diversity_costs_accuracy(dataset: Dataset) -> None:
    """From the plain ranking to the most diverse one, each step gives more diversity and less accuracy."""
    by_method = oracle_curve(dataset)
    for method, diversity, sign in (("mmr", "distance@10", 1), ("calibrated", "miscalibration@10", -1)):
        points = by_method[method]
        gained = [sign * point[diversity] for point in points]
        assert gained == sorted(gained)
        assert gained[-1] > gained[0]
        for metric in ("auc", "ndcg@10"):
            values = [point[metric] for point in points]
            assert values == sorted(values, reverse=True)
            assert points[-1][f"{metric}_less_plain"]["high"] < 0


def test_impressions_are_reranked_as_by_loops(dataset: Dataset) -> None:
    impressions = dataset.impressions("test")
    scores = np.asarray(reference_scores(dataset, impressions)["popularity"])  # with ties
    shares = category_shares(dataset)
    result = reranked_scores(scores, dataset, impressions, shares)
    category = dataset.arrays.array("news/category")
    reader = ContentReader.of(dataset)
    for row in range(0, len(impressions), 9):
        part = slice(*impressions.offsets[row : row + 2].tolist())
        order = np.argsort(-scores[part], kind="stable")
        rows = impressions.candidates[part][order]
        contents = reader.rows(rows)
        clicked = dataset.clicked[impressions.users[row]]
        target = shares(impressions.users[row : row + 1])[0].tolist()
        if clicked.any():
            mix = np.bincount(category[clicked[clicked > 0]], minlength=len(target))
            assert target == pytest.approx((mix / mix.sum()).tolist())
        for diversity in (0.3, 1.0):
            similar = contents.similarity(contents).tolist()
            expected = {
                "mmr": loops.mmr(scores[part][order].tolist(), similar, diversity),
                "calibrated": loops.calibrated(
                    scores[part][order].tolist(), category[rows].tolist(), target, diversity
                ),
            }
            for method in METHODS:
                new = np.argsort(-result[method, diversity][part], kind="stable")
                assert new.tolist() == order[expected[method]].tolist()


def test_miscalibration_by_hand() -> None:
    # two impressions; the first has eleven candidates: the last one, of category 2, is not among the first ten
    category = np.array([0] * 5 + [1] * 5 + [2] + [0, 1])
    target = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    scores = -np.arange(13.0)
    result = miscalibration(scores, category, np.array([0, 11, 13]), target)
    # the second: half of the list is of category 0, mixed with 1 % of the target, which is all of it
    assert result == pytest.approx([0, -math.log(0.99 * 0.5 + 0.01)])


def test_short_lists_and_readers_without_clicks(dataset: Dataset) -> None:
    """Nothing is lost: each impression still has its candidates, in a full order."""
    impressions = dataset.impressions("validation")
    scores = np.asarray(reference_scores(dataset, impressions)["popularity"])
    for ranked in reranked_scores(scores, dataset, impressions, category_shares(dataset)).values():
        for start, stop in itertools.pairwise(impressions.offsets.tolist()):
            assert sorted(ranked[start:stop].tolist()) == list(range(start - stop + 1, 1))


def test_a_picture_needs_a_known_ending(drpn, run: Path) -> None:
    message = refused(drpn, "evaluate", run, "--diversity-curve", "curve.txt")
    assert message == "curve.txt is neither PNG nor SVG; choose a name that ends in .png or .svg"


def test_command_draws_the_curve(drpn, run: Path, tmp_path: Path) -> None:
    done = drpn("evaluate", run, "--diversity-curve", "curve.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "picture: curve.png"
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert len(json.loads((tmp_path / "curve.json").read_text())["points"]) == 16

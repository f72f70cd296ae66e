"""Read times of a log: how well a model's weights predict them, and that no model reads them."""

import json
import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

import drpn
from drpn.batches.tables import Tables
from drpn.cli import printed_evaluation
from drpn.dataset.folder import Dataset
from drpn.errors import ExplainError
from drpn.explanation.trace import aggregator_weights, profile_weights
from drpn.preparation.settings import DataSettings
from drpn.recipes.evaluate import Evaluation, evaluate
from drpn.recipes.prepare import prepare
from drpn.recipes.runs import Run
from reference import metric_loops as loops
from small_training import train_small

NAMES = ["denoise", "content", "collaborative denoise", "collaborative content", "tfidf rule"]
USERS = 12


def write_logs(folder: Path, seed: int | None) -> Path:
    """Eight days of pages; read times come from `seed` alone, and are missing without one."""
    folder.mkdir()
    rng, clock = Random(1), Random(seed)
    news = [f"n{number},word{number % 5} word{number % 3} story" for number in range(30)]
    (folder / "news.csv").write_text("\n".join(["news_id,title", *news]))
    heads = "impression_id,user_id,time,news_id,clicked" + (",read_seconds" if seed is not None else "")
    lines = [heads]
    for page in range(8 * 48):
        time = f"2026-01-{1 + page // 48:02}T{page % 48 // 2:02}:{30 * (page % 2):02}:00"
        user = rng.randrange(USERS)
        for place, story in enumerate(rng.sample(range(30), 4)):
            read = clock.choice(["", "1", "2.5", "4", "5", "80", "200"]) if place == 0 else ""
            row = f"i{page},u{user},{time},n{story},{int(place == 0)}"
            lines.append(row + (f",{read}" if seed is not None else ""))
    (folder / "impressions.csv").write_text("\n".join(lines))
    return folder


def flat(rows: list[list[float]]) -> list[float]:
    return [value for row in rows for value in row]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets of the same log without read times, with read times, and with others; each with a run."""
    folder = tmp_path_factory.mktemp("read-times")
    for name, seed in (("without", None), ("first", 1), ("second", 2)):
        prepare(write_logs(folder / f"{name}-logs", seed), folder / name, DataSettings(vector_size=0))
        train_small(folder / name, folder / f"{name}-run", epochs=1)
    return folder


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.recipes.evaluate.pick_device", lambda: torch.device("cpu"))


@pytest.fixture(scope="module")
def evaluation(folder: Path) -> Evaluation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drpn.recipes.evaluate.pick_device", lambda: torch.device("cpu"))
        return evaluate(folder / "first-run", noise=True)


def test_the_numbers_are_those_of_loops_over_the_weights(folder: Path, evaluation: Evaluation) -> None:
    run = Run.open(folder / "first-run")
    dataset, model = run.dataset(), run.bundle().model
    users = np.arange(1, USERS + 1)
    tables = Tables.from_dataset(model.limit(dataset), torch.device("cpu"))
    seconds = dataset.arrays.array("users/clicked_read_seconds")[users].tolist()
    kinds = loops.read_kinds(seconds)
    result = json.loads(json.dumps(evaluation.as_dict()))["read_times"]
    assert list(result) == ["seconds", "clicks", "read", "weights", "differences"]
    assert result["seconds"] == 5
    labels = [kind for row in kinds for kind in row if kind]
    assert result["clicks"] == len(labels)
    assert result["read"] == round(labels.count(1) / len(labels), 4)
    assert list(result["weights"]) == NAMES
    by_aggregator = aggregator_weights(model, tables, users)
    aucs = {}
    for name in NAMES[:4]:
        aggregator = name if name.startswith("collaborative") else f"semantic {name}"
        weights = by_aggregator[aggregator]["clicked"].tolist()
        correlations = [loops.rank_correlation(*row) for row in zip(weights, seconds, strict=True)]
        known = [value for value in correlations if value is not None]
        numbers = result["weights"][name]
        aucs[name] = loops.noise_auc(weights, kinds)
        assert numbers["auc"] == pytest.approx(aucs[name], abs=6e-5)
        assert numbers["users"] == sum(len({*row} - {0}) == 2 for row in kinds)
        assert numbers["rank_correlation"] == pytest.approx(sum(known) / len(known), abs=6e-5)
        assert numbers["rank_correlation_users"] == len(known)
        assert numbers["pooled_auc"] == pytest.approx(loops.noise_auc([flat(weights)], [flat(kinds)]), abs=6e-5)
        assert numbers["interval"][0] < numbers["auc"] < numbers["interval"][1]
        low, high = numbers["rank_correlation_interval"]
        assert low < numbers["rank_correlation"] < high
    pairs = [(row["weights"], row["against"]) for row in result["differences"]]
    assert pairs == [(NAMES[0], NAMES[1]), (NAMES[0], NAMES[4]), (NAMES[2], NAMES[3]), (NAMES[2], NAMES[4])]
    assert result["differences"][0]["difference"] == pytest.approx(aucs["denoise"] - aucs["content"], abs=6e-5)


def test_weights_of_the_semantic_view_are_those_of_profile_weights(folder: Path) -> None:
    run = Run.open(folder / "first-run")
    tables = Tables.from_dataset(run.dataset(), torch.device("cpu"))
    every = aggregator_weights(run.bundle().model, tables, [1, 2, 3])
    for kind in ("denoise", "content"):
        for side, weights in profile_weights(run.bundle().model, tables, [1, 2, 3], kind).items():
            np.testing.assert_array_equal(weights, every[f"semantic {kind}"][side])
            assert not np.array_equal(weights, every[f"collaborative {kind}"][side])


def test_read_times_are_reported_on_request(
    folder: Path, evaluation: Evaluation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = evaluate(folder / "first-run")
    assert plain.read_times is None
    assert plain.rows == evaluation.rows
    assert drpn.evaluate(folder / "first-run", noise=True).read_times == evaluation.read_times
    monkeypatch.setenv("COLUMNS", "200")
    printed_evaluation.evaluation(evaluation)
    text = capsys.readouterr().out
    numbers = evaluation.read_times["weights"]["collaborative denoise"]
    low, high = numbers["interval"]
    assert f"  collaborative denoise: AUC within users {numbers['auc']:.3f} ({low:.3f} to {high:.3f}; " in text
    assert "  AUC within users of denoise minus that of content: " in text


def test_logs_without_evidence_and_models_without_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ExplainError, match="has neither the truth of simulated logs nor read times of clicks"):
        evaluate(folder / "without-run", noise=True)
    run = train_small(folder / "first", tmp_path / "run", "nrms", epochs=1)
    with pytest.raises(ExplainError, match="has no weights to show; choose a run of drpn"):
        evaluate(run, noise=True)


def test_no_read_time_reaches_a_model(folder: Path) -> None:
    """With other read times, and without, everything that is not a read time is the same: data, weights, scores."""
    datasets = {name: Dataset.open(folder / name) for name in ("without", "first", "second")}
    files = {name: dataset.arrays.checksums for name, dataset in datasets.items()}
    differing = {name for name in files["first"] if files["first"][name] != files["second"][name]}
    assert "users/clicked_read_seconds.npy" in differing
    assert all(name.removesuffix(".npy").endswith("read_seconds") for name in differing)
    assert set(files["first"]) - set(files["without"]) == differing
    weights = {name: Run.open(folder / f"{name}-run").bundle().model.state_dict() for name in datasets}
    rows = {name: evaluate(folder / f"{name}-run").rows for name in datasets}
    for name in ("without", "second"):
        assert rows[name] == rows["first"]
        for key, value in weights["first"].items():
            assert torch.equal(value, weights[name][key]), key
    times = [dataset.arrays.array("users/clicked_read_seconds") for dataset in list(datasets.values())[1:]]
    assert any(math.isfinite(value) for value in times[0].ravel())

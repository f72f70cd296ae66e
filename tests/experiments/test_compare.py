"""Comparisons: the files they write, resuming, and the errors they report."""

import json
import shutil
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from drpn.dataset.folder import Dataset
from drpn.errors import FolderError, OutputError, RunError, SettingsError, TrainingError
from drpn.evaluation.bootstrap import paired
from drpn.evaluation.diversity import DIVERSITY, DiversityMeter
from drpn.evaluation.metrics import METRICS
from drpn.experiments import compare as recipe
from drpn.experiments import jobs
from drpn.experiments.claims import judge_groups, judged_by, write_claims
from drpn.experiments.compare import Compared, compare
from drpn.experiments.results import ARRAYS, RESULT
from drpn.models.baselines.nrms import Nrms
from drpn.models.catalogue import CATALOGUE, Entry
from drpn.output import lock_folder
from drpn.preparation.settings import DataSettings
from drpn.recipes.evaluate import reference_scores
from drpn.recipes.prepare import prepare
from drpn.recipes.settings import load_settings_of
from drpn.training.loop import CHECKPOINT
from drpn.training.steps import Stepper
from small_comparison import SETS, Notes
from writing import MindLine, write_mind

Small = Callable[..., Compared]
ALL = ["drpn-0", "drpn-n-0", "nrms-0", "drpn-1", "drpn-n-1", "nrms-1"]


def arrays(run: Path) -> dict[str, np.ndarray]:
    """Return the stored metrics of every impression of a run."""
    with np.load(run / ARRAYS) as stored:
        return dict(stored)


def test_files_of_a_comparison(compared: Compared) -> None:
    runs = compared.out / "runs"
    assert sorted(path.name for path in runs.iterdir()) == sorted(ALL)
    for run in runs.iterdir():
        assert sorted(path.name for path in run.iterdir()) == [ARRAYS, RESULT]
    names = {path.name for path in compared.out.iterdir()}
    pages = {f"{name}.{kind}" for name in ("table2", "table3", "claims") for kind in ("md", "tex")}
    assert names == pages | {"runs", "compare.json", "compare.png"}
    assert (compared.out / "compare.png").stat().st_size > 5_000


def test_content_of_the_json_document(compared: Compared, data: Path) -> None:
    document = json.loads((compared.out / "compare.json").read_text())
    about = document["about"]
    assert (about["models"], about["seeds"], about["base"]) == (["drpn", "drpn-n", "nrms"], [0, 1], "drpn")
    assert about["data"]["statistics"] == Dataset.open(data).statistics
    assert {"commit", "processor", "python", "torch"} <= set(about["machine"])
    assert len(document["runs"]) == 6
    for run in document["runs"]:
        assert run["settings"]["model"]["size"] == 8
        assert run["settings"]["training"]["seed"] == run["seed"]
        assert [point["epoch"] for point in run["curve"]] == [1, 2]
        assert run["parameters"] > 1_000
        assert min(run["samples_per_second"], run["impressions_per_second"]) > 0
        assert {"clicked", "skipped"} == set(run["noise"]) if run["model"] != "nrms" else "noise" not in run
    systems = {row["model"] for row in document["rows"]}
    assert systems == {"drpn", "drpn-n", "nrms", "popularity", "oracle"}
    assert about["comparisons"] == 4
    assert about["settings"] == SETS
    assert len(document["rows"]) == 5 * 3


def test_no_claim_is_judged_without_its_systems(
    compared: Compared, small: Small, trained: list[str], tmp_path: Path
) -> None:
    shutil.copytree(compared.out, tmp_path, dirs_exist_ok=True)
    result = small(tmp_path, models=["nrms"])
    assert trained == []
    assert not any(judged.pairs for claims in result.claims.values() for judged in claims)
    assert "held" not in (tmp_path / "claims.md").read_text().partition("| claim |")[2]


def test_without_profiles_claims_are_judged_on_all_impressions(compared: Compared, tmp_path: Path) -> None:
    claims = judge_groups(compared.systems, compared.users, np.zeros_like(compared.has_profile))
    assert judged_by(claims) == "all"
    write_claims(tmp_path, claims, seeds=2, mind=False, document="compare.json")
    page = (tmp_path / "claims.md").read_text()
    assert page.startswith("# The paper's claims\n\nJudged on all impressions, by paired differences over 2 seeds. ")
    assert "DRPN above DRPN-N, AUC: " in page


def test_claims_about_trained_systems_are_judged(compared: Compared) -> None:
    pairs = [pair for judged in compared.claims["with_profile"] for pair in judged.pairs]
    assert {(pair.first, pair.second) for pair in pairs} == {("drpn", "drpn-n"), ("drpn", "nrms")}
    assert "DRPN above DRPN-N, AUC: " in (compared.out / "claims.md").read_text()


def test_rows_hold_means_and_paired_differences_of_the_runs(compared: Compared, data: Path) -> None:
    rows = {row["model"]: row for row in compared.rows if row["group"] == "all"}
    runs = compared.out / "runs"
    aucs = {model: np.stack([arrays(runs / f"{model}-{seed}")["auc"] for seed in (0, 1)]) for model in ("drpn", "nrms")}
    by_seed = np.nanmean(aucs["nrms"], axis=1)
    assert rows["nrms"]["auc"] == pytest.approx(by_seed.mean())
    assert rows["nrms"]["auc_deviation"] == pytest.approx(abs(by_seed[0] - by_seed[1]) / np.sqrt(2))
    users = np.asarray(Dataset.open(data).impressions("test").users)
    expected = paired(aucs["nrms"], aucs["drpn"], users, np.random.default_rng(0))
    assert rows["nrms"]["auc_less_base"] == pytest.approx(expected._asdict(), abs=1e-6)
    assert rows["drpn"]["auc_less_base"] is None
    assert rows["popularity"]["auc_deviation"] is None


def test_finished_runs_are_not_repeated(compared: Compared, small: Small, trained: list[str], tmp_path: Path) -> None:
    """Their two result files are enough, even when copied from another place."""
    for run in (compared.out / "runs").iterdir():
        (tmp_path / "runs" / run.name).mkdir(parents=True)
        for name in (ARRAYS, RESULT):
            shutil.copy(run / name, tmp_path / "runs" / run.name / name)
    again = small(tmp_path)
    assert trained == []
    assert again.rows == compared.rows
    for name in ("table2.md", "table3.tex"):
        assert (tmp_path / name).read_bytes() == (compared.out / name).read_bytes()
    (tmp_path / "runs" / "nrms-1" / ARRAYS).unlink()
    (tmp_path / "runs" / "nrms-1" / RESULT).unlink()
    assert small(tmp_path).rows == compared.rows
    assert trained == ["nrms-1"]


def test_diversity_of_every_system(compared: Compared, data: Path) -> None:
    rows = {row["model"]: row for row in compared.rows if row["group"] == "all"}
    stored = [arrays(compared.out / "runs" / f"nrms-{seed}") for seed in (0, 1)]
    for name in DIVERSITY:
        by_seed = [np.nanmean(values[name]) for values in stored]
        assert rows["nrms"][name] == pytest.approx(np.mean(by_seed), rel=1e-6)
        low, high = rows["nrms"][f"{name}_interval"]
        assert low <= rows["nrms"][name] <= high
    dataset = Dataset.open(data)
    impressions = dataset.impressions("test")
    scores = reference_scores(dataset, impressions)["popularity"]
    expected = DiversityMeter(dataset, impressions).measure(scores).mean()
    assert {name: rows["popularity"][name] for name in DIVERSITY} == pytest.approx(expected)


def test_results_without_diversity_are_still_read(compared: Compared, small: Small, tmp_path: Path) -> None:
    """As older versions wrote them: the numbers that are missing are None, the others are as before."""
    shutil.copytree(compared.out / "runs", tmp_path / "runs")
    old = tmp_path / "runs" / "nrms-1" / ARRAYS
    np.savez(old, **{name: values for name, values in arrays(old.parent).items() if name not in DIVERSITY})
    for row, before in zip(small(tmp_path).rows, compared.rows, strict=True):
        missing = {key for key in row if key.startswith(DIVERSITY)} if row["model"] == "nrms" else set()
        assert row == before | dict.fromkeys(missing)


def test_a_stopped_run_is_resumed(
    compared: Compared, small: Small, trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C in the second pass of the second run, the first is finished and the second resumes."""
    step, steps = Stepper.__call__, []

    def counted(stepper: Stepper, *arguments: Any) -> Tensor:
        steps.append(0)
        if len(steps) == stop_at:
            signal.raise_signal(signal.SIGINT)
        return step(stepper, *arguments)

    monkeypatch.setattr(Stepper, "__call__", counted)
    stop_at = 0
    small(tmp_path / "whole", models=["nrms"], seeds=1)
    steps_per_run, steps[:] = len(steps), []
    stop_at, trained[:] = int(1.75 * steps_per_run), []
    notes = Notes()
    with pytest.raises(KeyboardInterrupt):
        small(tmp_path / "out", models=["nrms"], progress=notes)
    assert trained == ["nrms-0", "nrms-1"]
    assert notes.messages[-1] == "stopped; the same command resumes it"
    assert notes.messages[-2].startswith("nrms-1: stopped in epoch 2 at step ")
    assert (tmp_path / "out" / "runs" / "nrms-1" / CHECKPOINT).exists()
    steps.clear()
    stop_at, trained[:] = 0, []
    notes = Notes()
    small(tmp_path / "out", models=["nrms"], progress=notes)
    assert trained == ["nrms-1"]
    assert len(steps) == 2 * steps_per_run - int(1.75 * steps_per_run)
    assert notes.messages[0] == "1 of 2 runs are finished already"
    assert any(text.startswith("nrms-1: resumed in epoch 2") for text in notes.messages)
    for name in ("nrms-0", "nrms-1"):
        stored, expected = (arrays(out / "runs" / name) for out in (tmp_path / "out", compared.out))
        assert all(np.array_equal(stored[metric], expected[metric], equal_nan=True) for metric in METRICS)


def test_parallel_runs_give_the_same_metrics(compared: Compared, small: Small, tmp_path: Path) -> None:
    notes = Notes()
    small(tmp_path, models=["nrms"], jobs=2, progress=notes)
    for name in ("nrms-0", "nrms-1"):
        stored, expected = (arrays(out / "runs" / name) for out in (tmp_path, compared.out))
        assert all(np.array_equal(stored[metric], expected[metric], equal_nan=True) for metric in METRICS)
        assert any(text.startswith(f"{name}: test AUC ") for text in notes.messages)
        assert json.loads((tmp_path / "runs" / name / RESULT).read_text())["jobs"] == 2
    assert "Runs in parallel: 2." in (tmp_path / "table2.md").read_text()


def test_progress_reaches_its_total(small: Small, tmp_path: Path) -> None:
    """Early stopping ends a run before its last pass; the saved passes count as done."""
    totals: list[int | None] = []
    done: list[int] = []

    class Counted(Notes):
        def stage(self, title: str, total: int | None = None) -> Any:
            if title == "1 run":
                totals.append(total)
                return nullcontext(done.append)
            return nullcontext(lambda _: None)

    sets = ["training.epochs=9", "training.patience=1", "training.rate=1e-9"]
    result = small(tmp_path, models=["nrms"], seeds=1, sets=sets, progress=Counted())
    assert len(result.runs[0]["curve"]) < 9
    assert totals == [9 * result.runs[0]["clicks"]] == [sum(done)]


def test_other_settings_are_refused(compared: Compared, small: Small, trained: list[str], tmp_path: Path) -> None:
    shutil.copytree(compared.out, tmp_path, dirs_exist_ok=True)
    with pytest.raises(RunError) as refusal:
        small(tmp_path, sets=["training.rate=0.01"])
    assert str(refusal.value) == (
        f"{tmp_path}/runs/drpn-0 was run with training.rate = 0.001, and 0.01 is asked for now; "
        "choose another output folder or train it again"
    )
    with pytest.raises(RunError, match=r"runs/nrms-0 was run with model\.head_size = 4, and 2 is asked for now"):
        small(tmp_path, sets=["model.head_size=2"])
    small(tmp_path, sets=["training.tce_steps=7", "training.compile=false"])  # settings without effect
    assert trained == []
    small(tmp_path, sets=["model.head_size=2"], again=True)
    assert trained == ["nrms-0", "nrms-1"]


def test_other_data_are_refused(compared: Compared, logs: Path, tmp_path: Path) -> None:
    prepare(logs, tmp_path / "other", DataSettings(vector_size=8, clicked=5))
    with pytest.raises(RunError, match=r"drpn-0 was run with another dataset; choose another output folder or train"):
        compare(tmp_path / "other", compared.out, models=["drpn", "nrms"], sets=SETS)


def test_a_setting_added_after_a_run_counts_as_its_default(
    compared: Compared, small: Small, trained: list[str], tmp_path: Path
) -> None:
    shutil.copytree(compared.out, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "runs" / "nrms-0" / RESULT
    facts = json.loads(file.read_text())
    del facts["settings"]["training"]["patience"]
    file.write_text(json.dumps(facts))
    small(tmp_path)
    assert trained == []
    with pytest.raises(RunError, match=r"nrms-0 was run with training\.patience = 2, and 3 is asked for now"):
        small(tmp_path, models=["nrms"], sets=["training.patience=3"])


def test_an_unfinished_run_with_other_settings_is_refused(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Stepper.__call__

    def stopped(stepper: Stepper, *arguments: Any) -> Tensor:
        signal.raise_signal(signal.SIGINT)
        return step(stepper, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "__call__", stopped)
        with pytest.raises(KeyboardInterrupt):
            small(tmp_path, models=["nrms"], seeds=1)
    with pytest.raises(RunError, match=r"nrms-0 was run with training\.rate = 0\.001, and 0\.01 is asked for now"):
        small(tmp_path, models=["nrms"], seeds=1, sets=["training.rate=0.01"])
    assert len(small(tmp_path, models=["nrms"], seeds=1, sets=["training.rate=0.01"], again=True).runs) == 1


def test_a_damaged_result_is_reported(compared: Compared, small: Small, tmp_path: Path) -> None:
    shutil.copytree(compared.out, tmp_path, dirs_exist_ok=True)
    run = tmp_path / "runs" / "nrms-0"
    (run / ARRAYS).write_bytes(b"no archive")
    with pytest.raises(RunError, match=r"metrics\.npz does not hold the metrics of a run; remove .*nrms-0 to train"):
        small(tmp_path)
    np.savez(run / ARRAYS, **{name: np.zeros(3) for name in METRICS})
    with pytest.raises(RunError, match=r"metrics\.npz does not fit the \d+ test impressions of the dataset; remove "):
        small(tmp_path)
    (run / RESULT).write_text("{}")
    with pytest.raises(RunError, match=r"result\.json is not the result of a run; remove "):
        small(tmp_path)
    (run / RESULT).write_text('{"format": 99, "settings": {}, "data": ""}')
    with pytest.raises(RunError) as refusal:
        small(tmp_path)
    assert str(refusal.value) == (
        f"{run} has format 99, this version of drpn reads 1; remove {run} to train again, or update drpn"
    )


def test_keep_keeps_the_weights(small: Small, tmp_path: Path) -> None:
    from drpn.recipes.evaluate import evaluate

    result = small(tmp_path, models=["nrms"], seeds=1, keep=True)
    rows = evaluate(tmp_path / "runs" / "nrms-0").rows
    assert rows[0]["auc"] == pytest.approx(result.rows[0]["auc"], abs=1e-6)


def test_a_failed_run_does_not_stop_the_others(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_task = jobs.run_task

    def failing(task: Any, progress: Any) -> None:
        if task.model == "drpn":
            raise TrainingError("the loss is nan in pass 1 by step 3; lower training.rate, which is 5.0")
        run_task(task, progress)

    monkeypatch.setattr(jobs, "run_task", failing)
    with pytest.raises(TrainingError) as failure:
        small(tmp_path, models=["drpn", "nrms"], seeds=2)
    assert str(failure.value) == (
        "2 of 4 runs failed, the first of them drpn-0: the loss is nan in pass 1 by step 3; "
        "lower training.rate, which is 5.0 (finished runs are kept)"
    )
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["nrms-0", "nrms-1"]
    page = (tmp_path / "table2.md").read_text()
    assert "| NRMS |" in page
    assert "Left out: drpn, because some of its runs failed." in page


class Needy(Nrms):
    """A model that reads an array that the folder lacks."""

    @property
    def needs(self) -> tuple[str, ...]:
        return ("user_neighbours",)


def test_a_model_without_its_data_is_left_out_or_refused(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {"nrms": CATALOGUE["nrms"], "needy": Entry(Needy, CATALOGUE["nrms"].settings, "nobody")}
    monkeypatch.setattr(recipe, "CATALOGUE", entries)
    monkeypatch.setattr("drpn.recipes.settings.CATALOGUE", entries)
    with pytest.raises(FolderError, match=r"needy needs .* prepare it again with data\.user_neighbours"):
        compare(data, tmp_path, models=["nrms", "needy"], seeds=1, sets=SETS)
    notes = Notes()
    result = compare(data, tmp_path, seeds=1, sets=[*SETS, "training.epochs=1"], progress=notes)
    assert result.about["models"] == ["nrms"]
    assert list(result.about["left_out"]) == ["needy"]
    assert notes.messages[0].startswith("left out: needy needs the neighbours of users")
    assert "Left out: needy needs the neighbours of users" in (tmp_path / "table2.md").read_text()
    assert "DRPN was not run" in (tmp_path / "table2.md").read_text()


def test_common_settings_reach_the_models_that_have_them(tmp_path: Path) -> None:
    tuned, common = tmp_path / "tuned.toml", tmp_path / "common.toml"
    tuned.write_text("[models.nrms]\nmodel.heads = 3\ntraining.rate = 0.5\ntraining.batch = 7\n")
    common.write_text("[model]\nhead_size = 5\n[training]\nbatch = 9\n")
    settings = load_settings_of(["drpn", "nrms"], common, ["model.size=12"], tuned=tuned)
    drpn, nrms = settings["drpn"], settings["nrms"]
    assert (drpn.model.size, drpn.model.heads, drpn.training.rate) == (12, 6, 1e-3)
    assert (nrms.model.size, nrms.model.heads, nrms.model.head_size) == (12, 3, 5)
    assert (nrms.training.rate, nrms.training.batch, drpn.training.batch) == (0.5, 9, 9)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (["model.sise=8"], "none of the models has a setting 'model.sise'; did you mean 'size'?"),
        (["model.size=7"], "drpn: model.heads is 6; it takes a divisor of size, which is 7"),
        (
            ["training.seed=3"],
            "training.seed cannot be set here, because every run has its own seed; set the number of seeds",
        ),
    ],
)
def test_bad_settings_are_reported(sets: list[str], message: str, data: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refusal:
        compare(data, tmp_path / "out", models=["drpn", "nrms"], sets=sets)
    assert str(refusal.value) == message
    assert not (tmp_path / "out").exists()


def test_a_folder_without_usable_test_impressions_is_refused(tmp_path: Path) -> None:
    lines = [
        MindLine(f"{day}.{hour}", "U1", f"11/{day}/2019 {hour}:00:00 AM", "N1-1 N2-0" if day < 13 else "N1-1 N2-1")
        for day in range(9, 14)
        for hour in range(1, 4)
    ]
    data = prepare(write_mind(tmp_path / "logs", lines), tmp_path / "data").path
    with pytest.raises(
        FolderError, match=r"data has nothing to test on: no test impression has both a click and a skip$"
    ):
        compare(data, tmp_path / "out", models=["nrms"])


def test_a_folder_in_use_by_another_comparison_is_refused(small: Small, tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(OutputError, match="another process is using "):
        small(tmp_path, models=["nrms"], seeds=1)
    assert not (tmp_path / "runs").exists()

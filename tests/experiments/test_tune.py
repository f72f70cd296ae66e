"""The search of `drpn tune`: its space, its result file, and how it is resumed."""

import json
import math
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from drpn.bundle import files
from drpn.dataset.folder import Dataset, Impressions
from drpn.errors import DivergedError, FolderError, OutputError, RunError, SettingsError, TrainingError
from drpn.experiments import tune as recipe
from drpn.experiments.space import DECAYS, TCE_RATES, nearest, space_of, with_values
from drpn.experiments.tune import Tuned, trials_of, tune
from drpn.experiments.tuned_file import with_model_table
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.settings import load_settings
from drpn.recipes.train import train
from drpn.training.settings import TrainingSettings
from small_comparison import Notes

SMALL = ["model.size=8", "model.heads=2", "model.head_size=4", "model.hidden=4"]
SMALL += ["training.epochs=2", "training.batch=4", "training.device=cpu"]

Searching = Callable[..., Tuned]


class FakeTraining:
    """Stands in for a training; the best rate is 1e-3, and dropout lowers AUC a little."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, TrainingSettings]] = []
        self.stop_at: int | None = None
        self.diverges_above = math.inf

    def __call__(self, folder: Path, out: Path, *, settings: Any, training: TrainingSettings, **_: Any) -> Any:
        assert folder.exists()
        assert out.exists()
        if len(self.calls) + 1 == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append((settings, training))
        if training.rate > self.diverges_above:
            raise DivergedError("the loss is nan")
        auc = 0.7 - abs(math.log10(training.rate) + 3) / 10 - getattr(settings, "dropout", 0.0) / 100
        manifest = {"metrics": {"validation_auc": round(auc, 6)}}
        return SimpleNamespace(bundle=lambda: SimpleNamespace(manifest=manifest))


@pytest.fixture
def fake_training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    """Replace every training by a fake one."""
    fake = FakeTraining()
    monkeypatch.setattr(recipe, "train", fake)
    monkeypatch.setattr(recipe, "free_gpu_memory", lambda: None)
    return fake


@pytest.fixture
def search(data: Path, tmp_path: Path) -> Searching:
    """A function that searches on the small newsroom and writes into `tmp_path`."""

    def run(name: str = "nrms.toml", **options: Any) -> Tuned:
        arguments: dict[str, Any] = {"model": "nrms", "trials": 6} | options
        return tune(data, tmp_path / name, **arguments)

    return run


def values(tuned: Tuned) -> list[dict[str, float]]:
    return [trial.values for trial in tuned.trials]


def test_the_search_never_reads_test_clicks(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three real trainings; reading the clicks of the test split would fail."""
    impressions = Dataset.impressions

    def without_test_clicks(self: Dataset, split: Any) -> Impressions:
        rows = impressions(self, split)
        return replace(rows, clicked=None) if split == "test" else rows  # type: ignore[arg-type]

    out = tmp_path / "found" / "nrms.toml"
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "impressions", without_test_clicks)
        # what a bundle knows to be popular is as of the end of the log; no model reads it
        patch.setattr(files, "_recent_clicks", lambda dataset: np.zeros(len(dataset.news_ids)))
        tuned = tune(data, out, model="nrms", trials=3, sets=SMALL)
    assert [trial.number for trial in tuned.trials] == [1, 2, 3]
    assert sorted(path.name for path in out.parent.iterdir()) == ["nrms.toml", "nrms.toml.trials"]
    # training with the file gives the same validation AUC
    settings = load_settings(out, ["training.device=cpu"], model="nrms")
    assert (settings.model.size, settings.training.epochs) == (8, 2)
    run = train(data, tmp_path / "run", model="nrms", settings=settings.model, training=settings.training)
    assert run.bundle().manifest["metrics"]["validation_auc"] == tuned.best.validation_auc
    assert tuned.best.validation_auc == max(trial.validation_auc or 0 for trial in tuned.trials)


def test_trials_lie_in_the_space_and_the_first_uses_the_given_settings(
    search: Searching, fake_training: FakeTraining
) -> None:
    tuned = search(trials=12, sets=["training.rate=2e-4", "training.decay=1", "training.batch=64"])
    assert values(tuned)[0] == {"training.rate": 2e-4, "training.decay": 1.0, "model.dropout": 0.2}
    for trial, (settings, training) in zip(tuned.trials, fake_training.calls, strict=True):
        used = {"training.rate": training.rate, "training.decay": training.decay, "model.dropout": settings.dropout}
        assert trial.values == used
        assert 1e-4 <= training.rate <= 3e-3
        assert training.decay in (0, 1, 5)
        assert settings.dropout in (0, 0.1, 0.2, 0.3, 0.4, 0.5)
        assert training.batch == 64
    assert len({json.dumps(trial) for trial in values(tuned)}) == 12
    assert tuned.best == max(tuned.trials, key=lambda trial: trial.validation_auc or 0)
    assert tuned.best.number > 1


def test_the_same_seed_gives_the_same_trials(search: Searching, fake_training: FakeTraining) -> None:
    first, again, other = search("a.toml"), search("b.toml"), search("c.toml", seed=1)
    assert values(first) == values(again)
    assert values(first)[1:] != values(other)[1:]
    assert len(fake_training.calls) == 18


@pytest.mark.parametrize("stop_at", [1, 2, 6])
def test_a_resumed_search_has_the_same_trials(
    search: Searching, fake_training: FakeTraining, tmp_path: Path, stop_at: int
) -> None:
    expected = values(search("whole.toml"))
    fake_training.calls.clear()
    fake_training.stop_at = stop_at
    with pytest.raises(KeyboardInterrupt):
        search("stopped.toml")
    assert not (tmp_path / "stopped.toml").exists()
    assert len(fake_training.calls) == stop_at - 1
    fake_training.stop_at, notes = None, Notes()
    assert values(search("stopped.toml", progress=notes)) == expected
    assert len(fake_training.calls) == 6
    assert (f"{stop_at - 1} of 6 trials are finished already" in notes.messages) == (stop_at > 1)


def test_finished_trials_are_not_repeated(search: Searching, fake_training: FakeTraining, tmp_path: Path) -> None:
    first = search(trials=4)
    written = (tmp_path / "nrms.toml").read_text()
    assert search(trials=4) == first
    assert (tmp_path / "nrms.toml").read_text() == written
    assert len(fake_training.calls) == 4
    more = search(trials=6)
    assert values(more)[:4] == values(first)
    assert len(fake_training.calls) == 6
    assert len(search(trials=2).trials) == 6


def test_the_file_states_its_provenance(
    search: Searching, fake_training: FakeTraining, tmp_path: Path, data: Path
) -> None:
    fake_training.diverges_above = 9e-4
    sets = ["model.size=48", "training.epochs=3", "training.seed=7", "training.device=cpu", "training.tce_steps=90"]
    tuned = search("nrms-tce.toml", model="nrms-tce", seed=5, sets=sets)
    text = (tmp_path / "nrms-tce.toml").read_text()
    best = tuned.best.values
    searched = {key: best[f"training.{key}"] for key in ("rate", "decay", "tce_rate")}
    assert tomllib.loads(text)["models"]["nrms-tce"] == {
        "model": {"size": 48, "dropout": best["model.dropout"]},
        "training": {"epochs": 3, "tce_steps": 90} | searched,
    }
    assert text.startswith(
        "# Settings found by drpn tune: for each model those of the trial with the best validation AUC"
    )
    assert f"# {data.name}, fingerprint " in text
    assert "; seed of the search 5, of each training 7; drpn " in text
    assert ", commit " in text
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    rows = {
        name: line.removeprefix(name).split()
        for line in lines
        for name in ("validation AUC", *best)
        if f"{name}  " in line
    }
    assert rows["validation AUC"] == [
        "diverged" if trial.validation_auc is None else f"{trial.validation_auc:.4f}{'*' * (trial == tuned.best)}"
        for trial in tuned.trials
    ]
    assert [cells[0] for cells in rows.values()] == ["diverged", "0.001", "0", "0.2", "0.2"]
    assert all(len(cells) == 6 for cells in rows.values())


@pytest.mark.usefixtures("fake_training")
def test_settings_without_effect_are_not_written(search: Searching, tmp_path: Path) -> None:
    tuned = search(trials=1, sets=["training.tce_steps=90", "training.compile=false"])
    assert set(tomllib.loads((tmp_path / "nrms.toml").read_text())["models"]["nrms"]["training"]) == {"rate", "decay"}
    assert search(trials=1, sets=["training.tce_steps=7"]).trials == tuned.trials  # the same search


@pytest.mark.usefixtures("fake_training")
def test_a_second_model_is_added_to_the_same_file(search: Searching, tmp_path: Path) -> None:
    file = tmp_path / "tuned.toml"
    file.write_text("# my own\n[training]\nepochs = 9\nbatch = 64  # for all\n")
    nrms = search("tuned.toml", trials=2, sets=["training.epochs=9"])
    first = file.read_text()
    naml = search("tuned.toml", model="naml", trials=3)
    second = file.read_text()
    assert second.startswith(first)
    assert first.startswith("# my own\n[training]\nepochs = 9\nbatch = 64  # for all\n\n# ")
    for result, epochs in ((nrms, 9), (naml, 5)):
        settings = load_settings(file, model=result.search.model)
        assert settings == with_values(
            load_settings(sets=[f"training.epochs={epochs}"], model=result.search.model), result.best.values
        )
    table = tomllib.loads(second)["models"]
    assert (table["nrms"]["training"]["batch"], "epochs" in table["nrms"]["training"]) == (128, False)
    more = search("tuned.toml", trials=12, sets=["training.epochs=9"])  # replaces the first table in its place
    third = file.read_text()
    assert third.index("[models.nrms]") < third.index("[models.naml]")
    assert third.endswith(second.removeprefix(first))
    assert load_settings(file, model="nrms").training.rate == more.best.values["training.rate"]
    assert third.count("# validation AUC  ") == 3  # twelve trials take two lines


def test_tables_without_a_blank_line_between_them_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    text = "[models.nrms]\nmodel.size = 8\n[models.naml]\nmodel.size = 9\n"
    with pytest.raises(OutputError) as refusal:
        with_model_table(text, "nrms", [], {"training.rate": 0.1}, file=file)
    assert str(refusal.value) == (
        f"{file}: [models.nrms] cannot be written without changing other settings there; "
        "put a blank line before the table of each model"
    )
    text = text.replace("\n[models.naml]", "\n\n[models.naml]")
    merged = with_model_table(text, "nrms", ["tuned"], {"training.rate": 0.1, "training.loss": "tce"}, file=file)
    assert (
        merged
        == '# tuned\n[models.nrms]\ntraining.rate = 0.1\ntraining.loss = "tce"\n\n[models.naml]\nmodel.size = 9\n'
    )


def test_diverged_trials_count_and_are_never_the_best(search: Searching, fake_training: FakeTraining) -> None:
    fake_training.diverges_above = 4e-4
    tuned = search(trials=8)
    diverged = [trial for trial in tuned.trials if trial.validation_auc is None]
    assert 0 < len(diverged) < 8
    assert all(trial.values["training.rate"] > 4e-4 for trial in diverged)
    assert tuned.best.values["training.rate"] <= 4e-4
    assert len(fake_training.calls) == 8


def test_no_file_is_written_if_all_trials_diverge(
    search: Searching, fake_training: FakeTraining, tmp_path: Path
) -> None:
    fake_training.diverges_above = 0.0
    with pytest.raises(TrainingError, match=r"^all 3 trials of nrms diverged; its settings or its data are at fault$"):
        search(trials=3)
    assert not (tmp_path / "nrms.toml").exists()


@pytest.mark.parametrize("model", CATALOGUE)
def test_the_space_differs_only_by_settings_that_a_model_lacks(model: str) -> None:
    settings = load_settings(model=model)
    space, first = space_of(settings), nearest(settings)
    assert set(space) - {"model.dropout", "training.tce_rate"} == {"training.rate", "training.decay"}
    assert ("model.dropout" in space) == hasattr(settings.model, "dropout")
    assert ("training.tce_rate" in space) == model.endswith("-tce")
    assert first.get("training.tce_rate", 0.05) in TCE_RATES
    assert set(first) == set(space)
    assert 1e-4 <= first["training.rate"] <= 3e-3
    assert first["training.decay"] in DECAYS
    assert 0 <= first.get("model.dropout", 0) <= 0.5


@pytest.mark.parametrize("model", CATALOGUE)
def test_the_defaults_of_every_model_lie_in_its_space(model: str) -> None:
    """The first trial uses the given settings, so they are not moved if nothing was given."""
    settings = load_settings(model=model)
    assert with_values(settings, nearest(settings)) == settings
    for name, distribution in space_of(settings).items():
        section, _, key = name.partition(".")
        value = getattr(getattr(settings, section), key)
        assert distribution._contains(distribution.to_internal_repr(value)), name


def test_settings_outside_the_space_start_at_its_border() -> None:
    settings = load_settings(sets=["training.rate=0.1", "training.decay=2", "model.dropout=0.7"], model="nrms")
    assert nearest(settings) == {"training.rate": 3e-3, "training.decay": 1.0, "model.dropout": 0.5}


@pytest.mark.usefixtures("fake_training")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, "seed = 0, and 1 is asked for now"),
        ({"sets": ["model.size=16"]}, "model.size = 300, and 16 is asked for now"),
        ({"sets": ["training.batch=16"]}, "training.batch = 128, and 16 is asked for now"),
    ],
)
def test_a_different_search_is_refused(search: Searching, options: dict[str, Any], message: str) -> None:
    out = search(trials=1).out
    with pytest.raises(RunError) as error:
        search(**options)
    assert str(error.value) == (
        f"{trials_of(out)} was made with {message}; choose another output file, or remove it to start a new search"
    )
    assert search(trials=1, sets=["training.device=cpu"]).out == out  # the same search on another device


@pytest.mark.usefixtures("fake_training")
def test_trials_of_another_space_are_refused(search: Searching, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recipe, "space_of", lambda _: dict(list(space_of(load_settings(model="nrms")).items())[:2]))
        patch.setattr(recipe, "nearest", lambda _: {})
        out = search(trials=2).out
    with pytest.raises(RunError) as error:
        search(trials=3)
    assert str(error.value) == (
        f"{trials_of(out)} was made with a search of training.rate, training.decay, and now training.rate, "
        "training.decay, model.dropout are searched; choose another output file, or remove it to start a new search"
    )


@pytest.mark.usefixtures("fake_training")
def test_existing_files_are_not_overwritten(search: Searching, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[models.nrms]\ntraining.rate = 1\n")
    for trials_of_others in (False, True):  # those of naml
        with pytest.raises(OutputError) as refusal:
            search("mine.toml")
        assert str(refusal.value) == (
            f"{mine} has a table [models.nrms], and mine.toml.trials next to it has no trials of nrms; "
            "choose another file, or remove the table"
        )
        assert trials_of(mine).exists() == trials_of_others
        search("mine.toml", model="naml", trials=1)
    assert mine.read_text().startswith("[models.nrms]\ntraining.rate = 1\n\n# data, fingerprint ")
    mine.write_text("[models\n")
    with pytest.raises(SettingsError, match=r"mine\.toml is not valid TOML: "):
        search("mine.toml")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"folder is a folder; name a file, such as .*folder/tuned\.toml$"):
        search("folder")
    trials_of(tmp_path / "other.toml").write_text('{"shopping": "milk"}\n{"shopping": "bread"}\n')
    with pytest.raises(RunError, match=r"other\.toml\.trials does not hold the trials of a search; remove it to"):
        search("other.toml")


@pytest.mark.usefixtures("fake_training")
def test_a_folder_without_data_for_the_model_is_refused(search: Searching, tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"^gerl needs the neighbours of users, which .* lacks; prepare it again wi"):
        search("gerl.toml", model="gerl")
    with pytest.raises(SettingsError, match=r"^there is no model 'nmrs'; did you mean 'nrms'\?$"):
        search("nmrs.toml", model="nmrs")
    assert not list(tmp_path.glob("*.toml*"))

"""A setting that has no effect on a job is refused, or mentioned if it is in a file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import drpn as package
from drpn.dataset.folder import Dataset
from drpn.errors import SettingsError
from drpn.experiments.compare import compare
from drpn.experiments.tune import tune
from drpn.recipes.data_settings import note_other_data_settings
from drpn.recipes.prepare import prepare
from drpn.recipes.settings import SHIPPED
from small_comparison import Notes
from small_training import SETS, refused

REFUSED = "data.clicked=50 has no effect on a dataset that is prepared already; prepare the logs again with it"
HINT = "run: drpn prepare LOGS --out FOLDER --set data.clicked=50"


@pytest.mark.parametrize(
    "command",
    [
        ["train", "data", "--out", "run"],
        ["tune", "data", "--model", "nrms", "--out", "tuned.toml"],
        ["compare", "data", "--out", "tables", "--models", "nrms"],
    ],
)
def test_data_settings_are_refused_for_a_prepared_dataset(
    drpn, mind_data: Path, tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "data").symlink_to(mind_data)
    assert refused(drpn, *command, "--set", "data.clicked=50") == f"{REFUSED}; {HINT}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_data_settings_are_refused_in_python(tmp_path: Path) -> None:
    for job, options in ((package.train, {}), (package.compare, {"models": ["nrms"]})):
        with pytest.raises(SettingsError, match=REFUSED):
            job(tmp_path, tmp_path / "out", settings={"data.clicked": 50}, **options)


@pytest.mark.parametrize("assignment", ["training.epochs=3", " model.size=60"])
def test_settings_of_models_are_refused_when_logs_are_prepared(drpn, mind: Path, assignment: str) -> None:
    message = f"{assignment.strip()} has no effect on the preparation of logs; set it when you train"
    assert refused(drpn, "prepare", mind, "--out", "data", "--set", assignment) == f"{message}; pass it to drpn train"
    key, _, value = assignment.strip().partition("=")
    with pytest.raises(SettingsError, match=message):
        package.prepare(mind, "data", settings={key: int(value)})


def file_with(folder: Path, *lines: str) -> Path:
    file = folder / "own.toml"
    file.write_text("[data]\n" + "".join(f"{line}\n" for line in lines))
    return file


def test_other_data_settings_of_a_file_are_mentioned(mind_data: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(mind_data)
    notes = Notes()
    file = file_with(tmp_path, "clicked = 50", "words = 15", 'profile_days = "none"', "validation = 0.2")
    note_other_data_settings(file, dataset, notes)
    assert notes.messages == [
        f"own.toml has data.clicked = 50, but {dataset.path} was prepared with 30, which counts",
        f"own.toml has data.validation = 0.2, but {dataset.path} was prepared with None, which counts",
    ]


def test_equal_data_settings_of_a_file_are_not_mentioned(mind: Path, tmp_path: Path) -> None:
    from drpn.recipes.settings import load_data_settings

    for file in [file_with(tmp_path, "clicked = 50", "validation = 0.25"), *SHIPPED.glob("*.toml")]:
        notes = Notes()
        dataset = prepare(mind, tmp_path / "data", load_data_settings(file), replace=True)
        note_other_data_settings(file, dataset, notes)
        assert notes.messages == []


Job = Callable[..., Any]


@pytest.mark.parametrize("job", ["train", "train in Python", "tune", "compare"])
def test_every_job_mentions_other_data_settings(drpn, mind_data: Path, tmp_path: Path, job: str) -> None:
    data, file, notes = mind_data, file_with(tmp_path, "clicked = 50"), Notes()
    sets = [*SETS, "training.epochs=1"]
    if job == "train":
        options = [word for assignment in sets for word in ("--set", assignment)]
        notes.messages += drpn("train", data, "--out", "run", "--config", file, *options).stderr.splitlines()
    elif job == "train in Python":
        package.train(data, tmp_path / "run", config=file, settings=dict(_pairs(sets)), progress=notes)
    elif job == "tune":
        tune(data, tmp_path / "tuned.toml", model="drpn", trials=1, config=file, sets=sets, progress=notes)
    else:
        compare(data, tmp_path / "tables", models=["drpn"], seeds=1, config=file, sets=sets, progress=notes)
    assert notes.messages[0] == f"own.toml has data.clicked = 50, but {data} was prepared with 30, which counts"


def _pairs(sets: list[str]) -> list[tuple[str, Any]]:
    pairs = [assignment.split("=") for assignment in sets]
    return [(key, float(value) if "." in value else int(value) if value.isdigit() else value) for key, value in pairs]

"""Invalid runs, bundles and settings print one line, exit with 2, and leave no partial output."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from drpn.bundle.files import Bundle
from drpn.errors import RunError
from drpn.recipes.runs import Run
from drpn.versioned import write_versioned
from writing import MindLine, edit, write_mind

SMALL = ["model.size=8", "model.heads=2", "model.hidden=4", "training.epochs=1", "training.device=cpu"]
SETS = [word for setting in SMALL for word in ("--set", setting)]


def files_under(folder: Path) -> dict[str, bytes]:
    """Every file under a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def refused(drpn, tmp_path: Path) -> Callable[..., str]:
    """A function that runs a command, checks that it is refused and changes no file, and returns its error line."""

    def run(*arguments: object) -> str:
        before = files_under(tmp_path)
        done = drpn(*arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stdout == ""
        *stages, message = done.stderr.splitlines()
        assert message.startswith("drpn: "), done.stderr
        assert not any("Traceback" in line for line in stages)
        assert files_under(tmp_path) == before
        return message.removeprefix("drpn: ")

    return run


@pytest.fixture
def data(mind_data: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(mind_data, tmp_path / "data"))


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a very small model."""
    from drpn.models.drpn import DrpnSettings
    from drpn.recipes.prepare import prepare
    from drpn.recipes.train import train
    from drpn.training.settings import TrainingSettings

    folder = tmp_path_factory.mktemp("trained")
    days = [("9", "N1-1 N2-0"), ("10", "N3-1 N4-0"), ("11", "N1-0 N4-1"), ("11", "N2-0 N4-1")]
    lines = [
        MindLine(str(number), "U1", f"11/{day}/2019 {number + 1}:00:00 AM", shown)
        for number, (day, shown) in enumerate(days)
    ]
    prepare(write_mind(folder / "logs", lines), folder / "data")
    settings = DrpnSettings(size=8, heads=2, hidden=4)
    training = TrainingSettings(epochs=1, device="cpu")
    return train(folder / "data", folder / "run", settings=settings, training=training).path


@pytest.fixture
def run(trained_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that run, as `run` in the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained_once, tmp_path / "run")
    return Path("run")


def refusal(opening: Callable[[], object], hint: str = "") -> str:
    """The message with which a run or bundle is refused."""
    with pytest.raises(RunError) as raised:
        opening()
    assert raised.value.hint == hint
    return str(raised.value)


def test_a_valid_run_is_opened(run: Path) -> None:
    assert Run.open(run).bundle().manifest["model"] == "drpn"
    assert Run.open(run).dataset().statistics["users"] == 1


def test_a_folder_that_is_not_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").touch()
    for name in ("nowhere", "empty", "file"):
        message = f"{name} is not a run: it has no run.json; train a model first"
        hint = f"run: drpn train FOLDER --out {name}"
        assert refusal(lambda name=name: Run.open(Path(name)), hint) == message


@pytest.mark.parametrize("content", ["", "[]", "{}", "{", '"run"'])
def test_an_invalid_run_json(run: Path, content: str) -> None:
    (run / "run.json").write_text(content)
    assert refusal(lambda: Run.open(run)) == "run/run.json is not the description of a run; train again"


def test_a_run_of_a_newer_format(run: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"format": 99}))
    assert (
        refusal(lambda: Run.open(run)) == "run has format 99, this version of drpn reads 1; train again, or update drpn"
    )


def test_a_run_that_has_not_finished_training(run: Path) -> None:
    shutil.rmtree(run / "bundle")
    message = "run has not finished training; resume it"
    assert refusal(Run.open(run).bundle, "repeat its drpn train command with --resume") == message


def test_a_run_whose_dataset_was_prepared_again(run: Path, data: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"dataset": str(data)}))
    message = f"{data} is not the dataset that run was trained on; train again"
    assert refusal(Run.open(run).dataset) == message


def test_a_bundle_with_one_byte_changed(run: Path) -> None:
    files = sorted(path for path in (run / "bundle").rglob("*.*") if path.is_file() and path.stat().st_size)
    assert len(files) > 10
    for file in files:
        original = file.read_bytes()
        for place in (0, len(original) // 2, len(original) - 1):
            file.write_bytes(original[:place] + bytes([original[place] ^ 1]) + original[place + 1 :])
            assert refusal(Run.open(run).bundle) in (
                f"{file} has changed since it was written; train again, or copy the whole bundle again",
                f"{file} has changed since it was written; train again",
                f"{file} is not the manifest of a bundle; train again",
            )
        file.write_bytes(original)
    assert Run.open(run).bundle()


def test_a_bundle_with_one_file_missing(run: Path) -> None:
    for name in ("model.safetensors", "README.md", "news/words.npy", "users/clicked.npy"):
        file = run / "bundle" / name
        original = file.read_bytes()
        file.unlink()
        message = f"{file} is missing; train again, or copy the whole bundle again"
        assert refusal(Run.open(run).bundle) == message
        file.write_bytes(original)
    (run / "bundle" / "manifest.json").unlink()
    message = "run/bundle is not a bundle: it has no manifest.json; train a model first"
    assert refusal(Run.open(run).bundle, "run: drpn train FOLDER --out RUN") == message


def test_a_bundle_with_a_truncated_file(run: Path) -> None:
    file = run / "bundle" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    message = f"{file} has changed since it was written; train again, or copy the whole bundle again"
    assert refusal(Run.open(run).bundle) == message


def test_a_changed_setting_in_a_manifest_is_detected(run: Path) -> None:
    manifest = run / "bundle" / "manifest.json"
    text = manifest.read_text()
    assert '"heads": 2' in text
    manifest.write_text(text.replace('"heads": 2', '"heads": 4', 1))
    assert refusal(Run.open(run).bundle) == f"{manifest} has changed since it was written; train again"


def rewrite(folder: Path, **changes: object) -> None:
    """Change a manifest as another version of drpn could have written it, with a valid checksum."""
    manifest = folder / "manifest.json"
    document = json.loads(manifest.read_text())
    del document["checksum"]
    write_versioned(manifest, document | changes)


def test_a_bundle_of_a_newer_format(run: Path) -> None:
    rewrite(run / "bundle", format=99)
    message = "run/bundle has format 99, this version of drpn reads 1; train again, or update drpn"
    assert refusal(lambda: Bundle.open(run / "bundle")) == message


def test_a_bundle_of_a_model_that_is_not_in_the_catalogue(run: Path) -> None:
    rewrite(run / "bundle", model="drpn-2")
    message = "run/bundle holds the model 'drpn-2', which this version of drpn does not have; train again"
    assert refusal(lambda: Bundle.open(run / "bundle")) == message


def test_a_bundle_with_a_setting_this_version_does_not_have(run: Path) -> None:
    settings = json.loads((run / "bundle" / "manifest.json").read_text())["settings"]
    rewrite(run / "bundle", settings=settings | {"sise": 3})
    assert "sise" in refusal(lambda: Bundle.open(run / "bundle"))


def test_weights_that_do_not_fit_the_settings(run: Path) -> None:
    settings = json.loads((run / "bundle" / "manifest.json").read_text())["settings"]
    rewrite(run / "bundle", settings=settings | {"hidden": 5})
    assert "model.safetensors" in refusal(lambda: Bundle.open(run / "bundle"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("drnp", "there is no model 'drnp'; did you mean 'drpn'?"),
        ("DRPN-D", "there is no model 'DRPN-D'; "),
        ("xyz", "there is no model 'xyz'; choose from drpn, "),
    ],
)
def test_an_unknown_model(refused, data: Path, model: str, message: str) -> None:
    assert refused("train", data, "--out", "run", "--model", model).startswith(message)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("model.sise=3", "there is no setting 'model.sise'; did you mean 'size'?"),
        ("training.epoch=3", "there is no setting 'training.epoch'; did you mean 'epochs'?"),
        ("trainin.epochs=3", "setting 'trainin.epochs=3': there is no section 'trainin'; did you mean 'training'?"),
        ("model.size=big", "model.size is 'big'; it takes a whole number"),
        ("model.heads=7", "model.heads is 7; it takes a divisor of size, which is 300"),
        ("training.batch=0", "training.batch is 0; it takes 1 or more"),
        ("training.rate=0", "training.rate is 0.0; it takes a number above 0"),
        ("training.view_rate=0", "training.view_rate is 0.0; it takes a number above 0"),
        ("training.device=gpu", "training.device is 'gpu'; choose from 'auto', 'cpu', 'cuda'"),
    ],
)
def test_a_bad_setting(refused, data: Path, assignment: str, message: str) -> None:
    assert refused("train", data, "--out", "run", "--set", assignment) == message


@pytest.mark.parametrize(
    "assignment",
    [
        "training.seed=-1",
        "model.heads=0",
        "model.size=0",
        "model.size=-6",
        "model.hidden=0",
        "model.dropout=2",
        "model.id_dropout=-1",
    ],
)
def test_a_setting_out_of_its_range(refused, data: Path, assignment: str) -> None:
    name, _, value = assignment.partition("=")
    sets = [] if name == "model.size" else SETS
    assert refused("train", data, "--out", "run", *sets, "--set", assignment).startswith(f"{name} is {value}")


def test_a_folder_prepared_by_another_version(refused, data: Path) -> None:
    rewrite(data, format=99)
    assert refused("train", "data", "--out", "run", *SETS) == (
        "data has format 99, this version of drpn reads 1; prepare the logs again, or update drpn"
    )


def test_a_folder_that_is_not_a_dataset(refused, mind: Path) -> None:
    assert refused("train", "nowhere", "--out", "run", *SETS) == (
        "nowhere is missing; prepare it from logs; run: drpn prepare LOGS --out nowhere"
    )
    assert refused("train", mind, "--out", "run", *SETS) == (
        f"{mind} is not a dataset folder: it has no manifest.json; prepare one from logs; "
        "run: drpn prepare LOGS --out FOLDER"
    )


def test_training_into_a_folder_with_other_files(refused, data: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("all I have")
    assert refused("train", data, "--out", "home", *SETS) == "home holds other files; choose another folder"
    assert refused("train", data, "--out", "home", *SETS, "--resume") == "home holds other files; choose another folder"


def test_training_into_an_existing_run(refused, drpn, data: Path) -> None:
    assert drpn("train", data, "--out", "run", *SETS).returncode == 0
    assert refused("train", data, "--out", "run", *SETS) == (
        "run already holds a run; resume it or choose another folder; pass --resume to resume it"
    )


def test_training_into_an_empty_folder(drpn, data: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    done = drpn("train", data, "--out", "run", *SETS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("next: drpn evaluate run\n")


def test_training_into_a_file(refused, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("all I have")
    assert refused("train", data, "--out", "file", *SETS).startswith("file ")


def test_training_into_a_path_that_cannot_be_written(refused, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("all I have")
    assert refused("train", data, "--out", "file/run", *SETS).startswith("file/run cannot be written: ")


def test_a_log_with_nothing_to_train_on(refused, drpn, mind: Path) -> None:
    edit(mind / "behaviors.tsv", 3, "N3-1 N4-0", "N3-1 N4-1")  # the only impression of the training day
    assert drpn("prepare", mind, "--out", "data").returncode == 0
    refused("train", "data", "--out", "run", *SETS)


def test_a_log_with_nothing_to_validate_on(drpn, mind: Path) -> None:
    """Either the command is refused, or the model is trained without validation."""
    edit(mind / "behaviors.tsv", 4, "N1-0 N4-1", "N1-1 N4-1")  # the only impression for validation
    assert drpn("prepare", mind, "--out", "data").returncode == 0
    done = drpn("train", "data", "--out", "run", *SETS)
    assert done.returncode in (0, 2)
    assert "nan" not in done.stdout


def test_a_training_that_diverges_names_the_rate(drpn, data: Path) -> None:
    done = drpn("train", data, "--out", "run", *SETS, "--set", "training.rate=1e30", "--set", "training.epochs=3")
    assert done.returncode == 2
    assert "training.rate" in done.stderr.splitlines()[-1]

"""`drpn tune`, as a user types it."""

import sys
from pathlib import Path

import pytest

from small_comparison import AS_OPTIONS
from small_training import refused

TUNE = ["tune", "data", "--model", "nrms", "--out", "tuned.toml"]
SMALL = [*AS_OPTIONS, "--set", "training.epochs=1"]


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset folder."""
    from drpn.logs.simulate import SimulationSettings, simulate
    from drpn.preparation.settings import DataSettings
    from drpn.recipes.prepare import prepare

    folder = tmp_path_factory.mktemp("newsroom")
    simulate(folder / "logs", SimulationSettings(users=60, news=1_500, seed=3))
    prepare(folder / "logs", folder / "data", DataSettings(vector_size=8))
    return folder / "data"


@pytest.fixture(autouse=True)
def data(newsroom: Path, tmp_path: Path) -> Path:
    """A link to the newsroom, as `data` in the current folder."""
    (tmp_path / "data").symlink_to(newsroom)
    return tmp_path / "data"


def test_tune_then_train_with_the_best_settings(drpn) -> None:
    done = drpn(*TUNE, "--trials", 2, *SMALL)
    assert done.returncode == 0, done.stderr
    assert "trial 2 of 2: validation AUC 0." in done.stderr
    head, first, second, where, then = done.stdout.splitlines()
    assert head.split() == ["trial", "validation", "AUC", "training.rate", "training.decay", "model.dropout"]
    assert first.split()[2:5] == ["0.001", "0", "0.2"]
    assert first.endswith("best") != second.rstrip().endswith("best")
    assert where == "settings of the best trial: tuned.toml"
    assert then == "next: drpn train data --out run --model nrms --config tuned.toml"
    again = drpn(*TUNE, "--trials", 2, *SMALL)
    assert again.stdout == done.stdout
    assert again.stderr == "2 of 2 trials are finished already\n"
    assert drpn(*then.removeprefix("next: drpn ").split(), "--set", "training.device=cpu").returncode == 0


def test_ctrl_c_keeps_the_trials(drpn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from drpn.recipes import train

    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train, "validation_auc", interrupted)
        done = drpn(*TUNE, *SMALL)
    assert done.returncode == 130
    assert "drpn: repeat the command to continue; finished trials are not repeated\n" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"data", "tuned.toml.trials"}


def test_without_optuna_the_message_says_how_to_install_it(
    drpn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)  # importing it fails, whatever is installed
    assert refused(drpn, *TUNE) == 'tuning needs Optuna; install it with: pip install "drpn[tune]"'
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "nmrs"], "there is no model 'nmrs'; did you mean 'nrms'?"),
        (["--model", "gerl"], "gerl needs the neighbours of users, which data lacks; prepare it again with data.use"),
        (["--set", "model.denoise=true"], "there is no setting 'model.denoise'; "),
        (["--config", "nowhere.toml"], "nowhere.toml: there is no such settings file"),
        (["--out", "data"], "data is a folder; name a file, such as data/tuned.toml"),
    ],
)
def test_invalid_options(drpn, options: list[str], message: str, tmp_path: Path) -> None:
    assert refused(drpn, *TUNE, *options).startswith(message)
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_a_missing_folder(drpn) -> None:
    message = refused(drpn, "tune", "nowhere", "--model", "nrms", "--out", "tuned.toml")
    assert message == "nowhere is missing; prepare it from logs; run: drpn prepare LOGS --out nowhere"

"""Checkpoints: their contents, damaged files, and runs that cannot be resumed."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from drpn.errors import RunError
from drpn.training.checkpoint import Checkpoints, TrainingState, load_checkpoint
from drpn.training.loop import CHECKPOINT, CURVE
from small_training import AS_COMMAND, COMMAND, curve, reached, refused, train_small


def briefly_trained(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1 * seed)
    for _ in range(seed):
        optimiser.zero_grad()
        model(torch.rand(4, 3)).sum().backward()
        optimiser.step()
    return model, optimiser


def save(file: Path, *arguments: Any) -> None:
    with Checkpoints(file) as checkpoints:
        checkpoints.save(*arguments)


def test_a_checkpoint_restores_everything(tmp_path: Path) -> None:
    model, optimiser = briefly_trained(3)
    state = TrainingState(epoch=2, step=7, best_auc=0.6, best_epoch=1, seconds=3.5, loss=4.25)
    best = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    save(tmp_path / "one.safetensors", model, optimiser, state, best)
    drawn = torch.rand(3)
    other, other_optimiser = briefly_trained(1)
    loaded, loaded_best = load_checkpoint(tmp_path / "one.safetensors", other, other_optimiser)
    assert loaded == state
    assert all(torch.equal(loaded_best[name], value) for name, value in best.items())
    assert torch.equal(torch.rand(3), drawn)
    assert all(torch.equal(first, second) for first, second in zip(model.parameters(), other.parameters(), strict=True))
    expected, restored = optimiser.state_dict(), other_optimiser.state_dict()
    assert json.dumps(restored["param_groups"]) == json.dumps(expected["param_groups"])
    for index, slots in expected["state"].items():
        assert all(torch.equal(restored["state"][index][name], value) for name, value in slots.items())


def test_a_checkpoint_holds_the_state_at_the_time_of_saving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "one.safetensors"
    model, optimiser = briefly_trained(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state, may_write = TrainingState(step=7), threading.Event()

    def delayed(*arguments: Any, **options: Any) -> None:
        assert may_write.wait(120)
        save_file(*arguments, **options)

    monkeypatch.setattr("drpn.training.checkpoint.save_file", delayed)
    with Checkpoints(file) as checkpoints:
        checkpoints.save(model, optimiser, state, {})
        assert not file.exists()  # training continues while the file is written
        model(torch.rand(4, 3)).sum().backward()
        optimiser.step()
        state.step = 8
        may_write.set()
    loaded, _ = load_checkpoint(file, *(other := briefly_trained(1)))
    assert loaded.step == 7
    assert all(torch.equal(value, before[name]) for name, value in other[0].state_dict().items())


def test_a_failed_write_is_reported(tmp_path: Path) -> None:
    """With files limited to 2,000 bytes, safetensors raises an error that is not an OSError."""
    code = (
        "import resource, signal, sys, torch; from pathlib import Path; "
        "from drpn.training.checkpoint import Checkpoints, TrainingState; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)); "
        "model = torch.nn.Linear(100, 100); checkpoints = Checkpoints(Path(sys.argv[1])); "
        "checkpoints.save(model, torch.optim.Adam(model.parameters()), TrainingState(), {}); checkpoints.wait()"
    )
    process = subprocess.run([sys.executable, "-c", code, tmp_path / "one"], capture_output=True, text=True)
    assert "OutputError" in process.stderr.splitlines()[-1]
    assert "the disk is full" in process.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_any_changed_byte_is_detected(tmp_path: Path) -> None:
    """In the header, which holds the progress, and in the tensors; a damaged file leaves the model unchanged."""
    file = tmp_path / "one.safetensors"
    save(file, *briefly_trained(3), TrainingState(epoch=2, step=7), {"bias": torch.ones(2, dtype=torch.bfloat16)})
    whole = file.read_bytes()
    model, optimiser = briefly_trained(1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for place in range(0, len(whole), 5):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(RunError, match=r"one\.safetensors (is not a complete checkpoint|has format)"):
            load_checkpoint(file, model, optimiser)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_swapped_tensors_are_detected(tmp_path: Path) -> None:
    """A weight and an optimiser slot of the same shape, stored under each other's names."""
    file = tmp_path / "one.safetensors"
    model, optimiser = briefly_trained(3)
    save(file, model, optimiser, TrainingState(), {})
    with safe_open(file, framework="pt") as stream:
        metadata = stream.metadata()
    tensors = load_file(file)
    first, second = "model/weight", "optimiser/0/exp_avg"
    tensors[first], tensors[second] = tensors[second], tensors[first]
    save_file(tensors, file, metadata=metadata)
    with pytest.raises(RunError, match="is not a complete checkpoint; remove it and train again"):
        load_checkpoint(file, model, optimiser)


@pytest.fixture(scope="module")
def stopped_once(newsroom: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the settings of COMMAND, stopped before its first validation."""

    def stop(*_: object) -> float:
        raise KeyboardInterrupt

    run = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drpn.recipes.train.validation_auc", stop)
        with pytest.raises(KeyboardInterrupt):
            train_small(newsroom, run, **AS_COMMAND)
    assert reached(run / CHECKPOINT) == (0, 14)
    return run


@pytest.fixture
def stopped(stopped_once: Path, data: Path, tmp_path: Path) -> Path:
    """A copy of that run as `run` in the test's folder."""
    assert data.exists()
    return shutil.copytree(stopped_once, tmp_path / "run")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_truncated_checkpoint_is_refused(drpn, stopped: Path, share: float) -> None:
    whole = (stopped / CHECKPOINT).read_bytes()
    (stopped / CHECKPOINT).write_bytes(whole[: int(share * len(whole))])
    assert refused(drpn, *COMMAND, "--resume") == (
        f"run/{CHECKPOINT} is not a complete checkpoint; remove it and train again"
    )


def test_a_checkpoint_with_a_flipped_bit_is_refused(drpn, stopped: Path) -> None:
    whole = bytearray((stopped / CHECKPOINT).read_bytes())
    whole[len(whole) // 2] ^= 0x10
    (stopped / CHECKPOINT).write_bytes(whole)
    assert refused(drpn, *COMMAND, "--resume") == (
        f"run/{CHECKPOINT} is not a complete checkpoint; remove it and train again"
    )


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"drpn": "{"},
        {"other": "{}"},
        {"drpn": "[]"},
        {"drpn": "{}"},
    ],
)
def test_a_safetensors_file_that_is_no_checkpoint_is_refused(
    drpn, stopped: Path, metadata: dict[str, str] | None
) -> None:
    save_file({"model/weight": torch.zeros(2)}, stopped / CHECKPOINT, metadata=metadata)
    assert refused(drpn, *COMMAND, "--resume") == (
        f"run/{CHECKPOINT} is not a complete checkpoint; remove it and train again"
    )


def test_a_checkpoint_of_another_format_is_refused(drpn, stopped: Path) -> None:
    save_file({"model/weight": torch.zeros(2)}, stopped / CHECKPOINT, metadata={"drpn": '{"format": 99}'})
    assert refused(drpn, *COMMAND, "--resume") == (
        f"run/{CHECKPOINT} has format 99, this version of drpn reads format 3; train again"
    )


def test_a_truncated_curve_does_not_prevent_resuming(drpn, stopped: Path) -> None:
    """The curve is cut within its first line, as by a kill during the write."""
    (stopped / CURVE).write_text('{"epoch": 1, "lo')
    done = drpn(*COMMAND, "--resume")
    assert done.returncode == 0, done.stderr
    assert [point["epoch"] for point in curve(stopped)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("setting", "was", "asked"), [("training.rate", 0.001, 0.5), ("training.seed", 0, 9), ("model.dropout", 0.2, 0.1)]
)
def test_resuming_with_different_settings_is_refused(
    drpn, stopped: Path, setting: str, was: float, asked: float
) -> None:
    before = (stopped / CHECKPOINT).read_bytes()
    assert refused(drpn, *COMMAND, "--resume", "--set", f"{setting}={asked}") == (
        f"run was started with {setting} = {was}, and {asked} is asked for now; choose another folder"
    )
    assert (stopped / CHECKPOINT).read_bytes() == before


def test_resuming_allows_another_save_interval_and_settings_newer_than_the_run(drpn, stopped: Path) -> None:
    file = stopped / "run.json"
    facts = json.loads(file.read_text())
    del facts["settings"]["training"]["loss"]
    file.write_text(json.dumps(facts))
    assert 'training.loss = "softmax", and "tce" is asked for' in refused(
        drpn, *COMMAND, "--resume", "--set", "training.loss=tce"
    )
    assert drpn(*COMMAND, "--resume", "--set", "training.save_seconds=7").returncode == 0


def test_resuming_with_another_model_or_dataset_is_refused(drpn, stopped: Path, mind: Path) -> None:
    assert stopped.exists()
    message = refused(drpn, *COMMAND, "--resume", "--model", "drpn-d")
    assert message == "run was started with other model; choose another folder"
    assert drpn("prepare", mind, "--out", "other").returncode == 0
    message = refused(drpn, "train", "other", *COMMAND[2:], "--resume")
    assert message == "run was started with other data; choose another folder"


def test_training_again_without_resume_is_refused(drpn, stopped: Path) -> None:
    assert stopped.exists()
    assert refused(drpn, *COMMAND) == (
        "run already holds a run; resume it or choose another folder; pass --resume to resume it"
    )

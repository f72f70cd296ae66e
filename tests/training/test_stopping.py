"""A training that is stopped or killed and then resumed ends with the same weights."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from drpn.training.loop import CHECKPOINT, CURVE
from drpn.training.steps import Stepper
from drpn.training.stopping import Stopped
from small_training import AS_COMMAND, COMMAND, SETS, curve, reached, small, toy, train_small, weights
from terminal import start_command
from waiting import wait_until


@pytest.fixture(scope="module")
def uninterrupted(newsroom: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the settings of COMMAND that is never stopped."""
    torch.set_num_threads(1)
    run = train_small(newsroom, tmp_path_factory.mktemp("uninterrupted") / "run", **AS_COMMAND)
    assert small("drpn").dropout > 0
    assert len(curve(run)) == 4
    return run


@pytest.fixture
def start(data: Path, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start COMMAND in a subprocess and return it in the middle of its second epoch."""
    started: list[subprocess.Popen[str]] = []

    def run() -> subprocess.Popen[str]:
        assert data.exists()
        process = start_command(*COMMAND, cwd=tmp_path)
        started.append(process)
        wait_until(lambda: (1, 5) <= reached(tmp_path / "run" / CHECKPOINT) < (3, 0), process, pause=0.005)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def test_resuming_a_killed_run_gives_the_same_weights(start, drpn, tmp_path: Path, uninterrupted: Path) -> None:
    process = start()
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / "run" / "bundle").exists()
    assert len(curve(tmp_path / "run")) < 4
    done = drpn(*COMMAND, "--resume")
    assert done.returncode == 0, done.stderr
    assert "resumed in epoch" in done.stderr
    assert weights(tmp_path / "run") == weights(uninterrupted)
    resumed, expected = curve(tmp_path / "run"), curve(uninterrupted)
    seconds = [point["seconds"] for point in resumed]
    assert [point | {"seconds": 0} for point in resumed] == [point | {"seconds": 0} for point in expected]
    assert seconds == sorted(seconds)


def test_ctrl_c_writes_a_checkpoint_that_can_be_resumed(start, drpn, tmp_path: Path, uninterrupted: Path) -> None:
    process = start()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error
    run = tmp_path / "run"
    assert sorted(path.name for path in run.iterdir()) == [CHECKPOINT, CURVE, "run.json"]
    epoch, _ = reached(run / CHECKPOINT)
    assert len(curve(run)) == epoch
    # as after a kill between the write of the curve and that of the checkpoint
    with (run / CURVE).open("a") as stream:
        stream.write('{"epoch": 99, "loss": 0, "validation_auc": 0, "seconds": 0}\n')
    assert drpn(*COMMAND, "--resume").returncode == 0
    assert weights(run) == weights(uninterrupted)
    assert [point["epoch"] for point in curve(run)] == [1, 2, 3, 4]


def test_ctrl_c_prints_that_the_run_stopped(data: Path, drpn, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> float:
        raise KeyboardInterrupt

    assert data.exists()
    monkeypatch.setattr(Stepper, "__call__", stop)
    done = drpn(*COMMAND)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1].startswith("drpn: stopped")


def test_resuming_a_finished_run_changes_nothing(data: Path, drpn, tmp_path: Path) -> None:
    sets = [word for setting in [*SETS, "training.epochs=1"] for word in ("--set", setting)]
    assert drpn("train", data, "--out", "run", *sets).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    done = drpn("train", data, "--out", "run", *sets, "--resume")
    assert done.returncode == 0, done.stderr
    assert "run is already fully trained" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
@pytest.mark.parametrize("last", [False, True])
def test_ctrl_c_waits_for_the_end_of_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool, optimiser: str
) -> None:
    """After Ctrl-C within the third step the checkpoint includes that step, and resuming gives the same weights."""
    batch = 24 if last else 8  # three steps per epoch, or eight
    expected = toy(epochs=2, batch=batch, optimiser=optimiser)(tmp_path)
    expected.run(lambda _: 0.5, resume=False)
    (tmp_path / CHECKPOINT).unlink()
    previous = signal.getsignal(signal.SIGINT)
    step, steps = Stepper.__call__, []

    def third_is_interrupted(stepper: Stepper, *arguments: Any) -> Tensor:
        steps.append(0)
        if len(steps) == 3:
            signal.raise_signal(signal.SIGINT)
        return step(stepper, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "__call__", third_is_interrupted)
        with pytest.raises(Stopped, match=f"^stopped in epoch 1 at step 3 of {3 if last else 8}$"):
            toy(epochs=2, batch=batch, optimiser=optimiser)(tmp_path).run(lambda _: 0.5, resume=False)
    assert reached(tmp_path / CHECKPOINT) == (0, 3)
    assert signal.getsignal(signal.SIGINT) is previous
    resumed = toy(epochs=2, batch=batch, optimiser=optimiser)(tmp_path)
    resumed.run(lambda _: 0.5, resume=True)
    weights_after = resumed.model.state_dict()
    assert all(torch.equal(weights_after[name], value) for name, value in expected.model.state_dict().items())


def test_a_second_ctrl_c_interrupts_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted_twice(*_: Any) -> float:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the step continued")

    monkeypatch.setattr(Stepper, "__call__", interrupted_twice)
    with pytest.raises(KeyboardInterrupt) as raised:
        toy()(tmp_path).run(lambda _: 0.5, resume=False)
    assert not isinstance(raised.value, Stopped)
    assert not (tmp_path / CHECKPOINT).exists()

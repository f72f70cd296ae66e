"""Comparisons in subprocesses that are killed or stopped, then resumed."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from drpn.evaluation.metrics import METRICS
from drpn.experiments.compare import Compared, compare
from drpn.experiments.results import ARRAYS, RESULT
from drpn.training.loop import CHECKPOINT
from small_comparison import SETS, Notes
from small_training import curve, reached
from terminal import start_command
from waiting import wait_until

LONG = [*SETS, "training.epochs=12", "training.patience=12", "training.save_seconds=0"]
COMMAND = ["--models", "nrms", "--seeds", "2", *(word for assignment in LONG for word in ("--set", assignment))]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """The result without an interruption."""
    return compare(data, tmp_path_factory.mktemp("long") / "out", models=["nrms"], seeds=2, sets=LONG)


@pytest.fixture
def start(data: Path, tmp_path: Path) -> Iterator[Start]:
    """A function that starts the command and returns once all `runs` are in the middle of their training."""
    started: list[subprocess.Popen[str]] = []

    def run(*runs: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        command = ("compare", data, "--out", tmp_path / "out", *COMMAND, *options)
        process = start_command(*command, start_new_session=True)
        started.append(process)
        checkpoints = [tmp_path / "out" / "runs" / name / CHECKPOINT for name in runs]
        wait_until(lambda: all(reached(path) >= (2, 0) for path in checkpoints), process, pause=0.005)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def finish(data: Path, out: Path) -> list[str]:
    """Resume the comparison in this process and return its notes."""
    notes = Notes()
    compare(data, out, models=["nrms"], seeds=2, sets=LONG, progress=notes)
    return notes.messages


def assert_same(out: Path, other: Path) -> None:
    """Check that both comparisons have identical metrics."""
    for name in ("nrms-0", "nrms-1"):
        with np.load(out / "runs" / name / ARRAYS) as stored, np.load(other / "runs" / name / ARRAYS) as expected:
            assert all(np.array_equal(stored[metric], expected[metric], equal_nan=True) for metric in METRICS)


def test_resuming_a_killed_comparison_gives_the_same_metrics(
    start: Start, data: Path, uninterrupted: Compared, tmp_path: Path
) -> None:
    process = start("nrms-1")
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    runs = tmp_path / "out" / "runs"
    assert (runs / "nrms-0" / RESULT).exists()
    assert not (runs / "nrms-1" / RESULT).exists()
    notes = finish(data, tmp_path / "out")
    assert notes[0] == "1 of 2 runs are finished already"
    assert any(text.startswith("nrms-1: resumed in epoch ") for text in notes)
    assert not any(text.startswith("nrms-0: ") for text in notes)
    assert_same(tmp_path / "out", uninterrupted.out)


def test_ctrl_c_stops_all_parallel_runs(start: Start, tmp_path: Path) -> None:
    endless = ("--set", "training.epochs=4000", "--set", "training.patience=4000")
    process = start("nrms-0", "nrms-1", options=("--jobs", "2", *endless))
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to the whole group, too
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in error
    assert "stopped; the same command resumes it" in error
    wait_until_gone(process.pid)
    for name in ("nrms-0", "nrms-1"):
        run = tmp_path / "out" / "runs" / name
        assert not (run / RESULT).exists()
        assert (2, 0) <= reached(run / CHECKPOINT) < (4000, 0)
        assert len(curve(run)) == reached(run / CHECKPOINT)[0]


def wait_until_gone(group: int) -> None:
    """Wait until no process of the group is left."""

    def is_gone() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return False

    wait_until(is_gone)

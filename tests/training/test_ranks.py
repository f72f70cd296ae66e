"""Several processes that torchrun starts train as one would."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from drpn.ranks import Ranks
from torchrun_jobs import ENVIRONMENT, EVEN, SMALL, TESTS, curve, run, small_dataset, torchrun, train, weights

TRUNCATED = ("training.loss=tce", "training.tce_rate=0.5", "training.tce_steps=20")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset."""
    return small_dataset(tmp_path_factory.mktemp("ranks"))


def test_parts_of_a_batch_differ_by_one_sample_at_most() -> None:
    for length in range(40):
        for size in range(1, 7):
            parts = [Ranks(rank, size).part(length) for rank in range(size)]
            assert [number for part in parts for number in range(length)[part]] == list(range(length))
            lengths = [part.stop - part.start for part in parts]
            assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize(
    ("model", "sets"),
    [
        ("drpn", EVEN),
        pytest.param("drpn", (*EVEN, "training.optimiser=lazy-adam", "training.decay=0.1"), marks=pytest.mark.real),
        pytest.param("deepfm", (*EVEN, "training.loss=log"), marks=pytest.mark.real),
        pytest.param("drpn", (*EVEN, *TRUNCATED), marks=pytest.mark.real),
    ],
)
def test_fifty_steps_have_the_loss_of_one_process(folder: Path, model: str, sets: tuple[str, ...]) -> None:
    """Three processes and batches of 16: their parts differ in size, and the last batch is smaller than that."""
    own = SMALL if model == "drpn" else SMALL[3:]
    arguments = (TESTS / "ranks_worker.py", folder, model, 50, *own, *sets)
    one = json.loads(run([sys.executable, *map(str, arguments)]).stdout)
    several = json.loads(run(torchrun(3, *arguments)).stdout)
    assert several["stepper"] == "SharedStepper"
    compare(one, several)


@pytest.mark.real
@pytest.mark.parametrize(
    ("model", "sets"),
    [
        ("drpn", (*EVEN, "training.clip=0.5")),
        ("deepfm", (*EVEN, "training.loss=log")),
    ],
)
def test_steps_before_a_capture_have_the_loss_of_one_process(
    folder: Path, model: str, sets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a captured step but the capture, on a CPU."""
    monkeypatch.setenv("WARM_STEPS", "1")
    own = SMALL if model == "drpn" else SMALL[3:]
    arguments = (TESTS / "ranks_worker.py", folder, model, 50, *own, *sets)
    one = json.loads(run([sys.executable, *map(str, arguments)]).stdout)
    several = json.loads(run(torchrun(3, *arguments)).stdout)
    assert several["stepper"] == "WarmStepper"
    compare(one, several)


def compare(one: dict[str, Any], several: dict[str, Any]) -> None:
    """Check that two trainings have the same losses and almost the same weights."""
    assert len(one["losses"]) >= 40
    assert one["losses"] == pytest.approx(several["losses"], abs=1e-5)
    assert one["losses"][0] != one["losses"][-1]
    # the bias of a similarity has no effect: its gradient is rounding alone, which Adam makes large
    for name in [name for name in one["sums"] if name.endswith(("similar.out.bias", "contrary.out.bias"))]:
        del one["sums"][name], several["sums"][name]
    assert one["sums"] == pytest.approx(several["sums"], rel=1e-3, abs=1e-4)


@pytest.mark.real
def test_two_processes_train_and_evaluate_as_one(folder: Path, tmp_path: Path) -> None:
    run(train(1, folder, tmp_path / "one", *EVEN))
    done = run(train(2, folder, tmp_path / "two", *EVEN))
    assert done.stdout.count("next: drpn evaluate") == 1
    losses, aucs = ([[point[key] for point in curve(tmp_path / name)] for name in ("one", "two")]
                    for key in ("loss", "validation_auc"))  # fmt: skip
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert aucs[0] == pytest.approx(aucs[1], abs=1e-4)
    files = [
        sorted(str(file.relative_to(out)) for file in out.rglob("*")) for out in (tmp_path / "one", tmp_path / "two")
    ]
    assert files[0] == files[1]
    asked = ("-m", "drpn", "evaluate", tmp_path / "two", "--json")
    alone = json.loads(run([sys.executable, *map(str, asked)]).stdout)["rows"]
    together = json.loads(run(torchrun(2, *asked)).stdout)["rows"]
    for one, two in zip(alone, together, strict=True):
        assert {key: one[key] for key in ("auc", "mrr", "ndcg@5", "ndcg@10")} == pytest.approx(
            {key: two[key] for key in ("auc", "mrr", "ndcg@5", "ndcg@10")}, abs=1e-9
        )


def process_of(parent: int, rank: int) -> int:
    """The process with this rank among the children of torchrun."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_child = int(path.joinpath("stat").read_text().rpartition(")")[2].split()[1]) == parent
            if is_child and f"RANK={rank}".encode() in path.joinpath("environ").read_bytes().split(b"\0"):
                return int(path.name)
        except OSError:
            continue
    raise AssertionError(f"torchrun has no process of rank {rank}")


def errors_of(process: subprocess.Popen[str]) -> str:
    """The standard error of a process until it ends; it is killed if it does not."""
    try:
        return process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find a process")
def test_a_killed_process_ends_the_job_and_a_restart_gives_the_same_weights(folder: Path, tmp_path: Path) -> None:
    """With dropout, which is drawn by process and step."""
    often, whole, killed = "training.save_seconds=0.05", tmp_path / "whole", tmp_path / "killed"
    run(train(2, folder, whole, "training.epochs=4", often))
    restarting = train(2, folder, killed, "training.epochs=4", often)
    place = restarting.index("--nproc-per-node")
    restarting[place:place] = ["--max-restarts", "1"]
    with subprocess.Popen(restarting, env=os.environ | ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        while not (killed / "checkpoint.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process_of(process.pid, 1), signal.SIGKILL)
        errors = errors_of(process)
    assert process.returncode == 0, errors
    assert "another process of this training has ended" in errors or "SIGKILL" in errors
    assert "resumed in epoch" in errors
    one, two = weights(whole), weights(killed)
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find a process")
def test_a_checkpoint_is_resumed_by_another_number_of_processes(folder: Path, tmp_path: Path) -> None:
    run(train(1, folder, tmp_path / "whole", *EVEN, "training.epochs=2"))
    with subprocess.Popen(
        train(2, folder, tmp_path / "part", *EVEN, "training.save_seconds=0.05"),
        env=os.environ | ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while not (tmp_path / "part" / "checkpoint.safetensors").exists():
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process_of(process.pid, 1), signal.SIGKILL)
        errors = errors_of(process)
    assert process.returncode != 0
    assert "SIGKILL" in errors or "Signal 9" in errors
    assert (
        "resumed in epoch"
        in run(train(3, folder, tmp_path / "part", *EVEN, "training.save_seconds=0.05", resume=True)).stderr
    )
    losses = [[point["loss"] for point in curve(tmp_path / name)] for name in ("whole", "part")]
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


@pytest.mark.real
def test_an_error_of_the_first_process_is_told_once(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "taken"
    out.mkdir()
    (out / "other.txt").write_text("mine")
    errors = run(train(2, folder, out), fails=True).stderr
    assert errors.count("holds other files; choose another folder") == 1

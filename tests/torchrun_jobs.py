"""Trainings that torchrun starts, on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

TESTS = Path(__file__).parent
SMALL = ("model.size=16", "model.heads=2", "model.hidden=8", "training.batch=16", "training.precision=fp32")
EVEN = ("model.dropout=0", "model.id_dropout=0")
_PATHS = [str(TESTS.parent / "src"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(_PATHS)}


def small_dataset(path: Path) -> Path:
    """A small dataset in a new folder."""
    import drpn  # a machine that only trains lacks what these need
    from drpn.preparation.settings import DataSettings
    from drpn.recipes.prepare import prepare

    drpn.simulate(path / "logs", users=900, news=300, days=4, seed=5)
    prepare(path / "logs", path / "dataset", DataSettings(vector_size=16))
    return path / "dataset"


def torchrun(processes: int, *arguments: object, options: tuple[str, ...] = ()) -> list[str]:
    """The command that starts some processes on this machine."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return [*start, *options, *map(str, arguments)]


def run(command: list[str], *, fails: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command, which must succeed or, with `fails`, fail."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | ENVIRONMENT, timeout=400
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done


def train(processes: int, folder: Path, out: Path, *sets: str, resume: bool = False) -> list[str]:
    """The command that trains a small DRPN with some processes; one process starts without torchrun."""
    options = [part for one in (*SMALL, "training.epochs=2", *sets) for part in ("--set", one)]
    command = ["train", folder, "--out", out, "--model", "drpn", *options, *(["--resume"] if resume else [])]
    if processes == 1:
        return [sys.executable, "-m", "drpn", *map(str, command)]
    return torchrun(processes, "-m", "drpn", *command)


def weights(out: Path) -> dict[str, torch.Tensor]:
    """The final weights of a run."""
    return load_file(next((out / "bundle").rglob("*.safetensors")))


def curve(out: Path) -> list[dict[str, Any]]:
    """The points of the learning curve of a run."""
    return [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]

"""What is kept of one run of a comparison: `result.json` and `metrics.npz`. Both there means that it is finished."""

import hashlib
import json
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drpn.dataset.folder import Dataset
from drpn.errors import RunError
from drpn.evaluation.metrics import METRICS, Metrics
from drpn.output import atomic_file
from drpn.recipes.runs import BUNDLE, CURVE_PICTURE, RUN, Run, first_difference, sections
from drpn.training.loop import CHECKPOINT, CURVE
from drpn.training.settings import TrainingSettings
from drpn.versioned import read_versioned, write_versioned

FORMAT = 1
RESULT, ARRAYS = "result.json", "metrics.npz"


@dataclass(frozen=True)
class Task:
    """One training to be done and measured."""

    model: str
    settings: Any
    training: TrainingSettings
    folder: Path
    """The dataset."""
    data: str
    """The fingerprint of the dataset."""
    out: Path
    """The run folder."""
    keep: bool = False
    """Keep the weights when the run has been measured."""
    jobs: int = 1
    """Runs that go on at the same time, which is to be known of its speed."""

    @property
    def name(self) -> str:
        """What the run is called."""
        return f"{self.model}-{self.training.seed}"

    @property
    def asked(self) -> dict[str, Any]:
        """The settings, as they come back from JSON."""
        return sections(self.settings, self.training)

    @property
    def defaults(self) -> dict[str, Any]:
        """What a run had of settings that it does not name, having been made before they were there."""
        return sections(type(self.settings)(), TrainingSettings())


@dataclass(frozen=True)
class Result:
    """One finished run: facts for JSON, and the metrics of each impression."""

    facts: dict[str, Any]
    metrics: Metrics


def fingerprint(files: dict[str, str]) -> str:
    """Tells one dataset from another by the checksums of its files, wherever it lies."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def is_finished(task: Task) -> bool:
    """Whether the run has been trained and measured."""
    return all((task.out / name).is_file() for name in (RESULT, ARRAYS))


def difference(task: Task) -> str | None:
    """How what lies in the run folder differs from what is asked for, if it does."""
    if is_finished(task):
        facts = _read(task.out / RESULT)
        known, data = facts["settings"], facts["data"]
    elif (task.out / RUN).exists():
        facts = Run.open(task.out).facts
        known, data = facts["settings"], fingerprint(facts["dataset_files"])
    else:
        return None
    return first_difference(known, task.asked, task.defaults) or (None if data == task.data else "another dataset")


def write_result(task: Task, facts: dict[str, Any], metrics: Metrics) -> None:
    """Write both files, and unless the weights are to be kept remove all else of the run."""
    arrays = {name: values.astype(np.float32) for name, values in metrics.by_name().items()}
    with atomic_file(task.out / ARRAYS) as scratch, scratch.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # any name may be given
    about = {"format": FORMAT, "model": task.model, "seed": task.training.seed, "data": task.data}
    with atomic_file(task.out / RESULT) as scratch:
        write_versioned(scratch, about | {"settings": task.asked} | facts, checksum=False)
    if not task.keep:
        shutil.rmtree(task.out / BUNDLE, ignore_errors=True)
        for name in (CHECKPOINT, CURVE, CURVE_PICTURE, RUN):
            (task.out / name).unlink(missing_ok=True)


def read_result(task: Task, dataset: Dataset) -> Result:
    """The finished run, whose metrics must be those of the dataset's test impressions."""
    impressions = len(dataset.impressions("test"))
    file = task.out / ARRAYS
    try:
        with np.load(file) as stored:
            arrays = [stored[name].astype(np.float64) for name in METRICS]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"{file} does not hold the metrics of a run; remove {task.out} to train again") from error
    if any(values.shape != (impressions,) for values in arrays):
        raise RunError(f"{file} is not of the {impressions:,} test impressions here; remove {task.out} to train again")
    return Result(_read(task.out / RESULT), Metrics(*arrays))


def _read(file: Path) -> dict[str, Any]:
    return read_versioned(
        file,
        version=FORMAT,
        what="result",
        of="a run",
        error=RunError,
        remedy=f"remove {file.parent} to train again",
        keys=("settings", "data"),
        checksum=False,
    )

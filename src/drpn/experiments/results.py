"""The result of one run of a comparison: `result.json` and `metrics.npz`. A run with both files is finished."""

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from drpn import versioned
from drpn.dataset.folder import Dataset
from drpn.errors import RunError
from drpn.evaluation.diversity import DIVERSITY, Diversity
from drpn.evaluation.metrics import METRICS, Metrics
from drpn.output import atomic_file
from drpn.recipes.runs import BUNDLE, CURVE_PICTURE, RUN, Run, first_difference, former_settings, sections
from drpn.training.loop import CHECKPOINT, CURVE
from drpn.training.settings import TrainingSettings
from drpn.versioned import read_versioned, write_versioned

FORMAT = 1
RESULT, ARRAYS = "result.json", "metrics.npz"


@dataclass(frozen=True)
class Task:
    """One run to train and measure."""

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
    """Keep the weights after the run has been measured."""
    jobs: int = 1
    """Number of runs in parallel, stored because it affects the measured speed."""

    @property
    def name(self) -> str:
        """Return the name of the run: model and seed."""
        return f"{self.model}-{self.training.seed}"

    @property
    def passes(self) -> int:
        """Return the most passes over the samples that the run takes: its own and its teachers', twice with a refit."""
        trainings = 1 + (self.training.teachers if self.settings.context else 0)
        return self.training.epochs * trainings * (2 if self.training.refit else 1)

    @property
    def plain_settings(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return sections(self.settings, self.training)

    @property
    def defaults(self) -> dict[str, Any]:
        """Return the settings that fill in those that did not exist when an older run was made."""
        return former_settings(type(self.settings))


@dataclass(frozen=True)
class Result:
    """One finished run: facts for JSON, and the metrics of every impression."""

    facts: dict[str, Any]
    metrics: Metrics
    diversity: Diversity | None
    """None in results of older versions."""


def fingerprint(files: dict[str, str]) -> str:
    """Return a fingerprint of a dataset, from the checksums of its files."""
    return versioned.fingerprint(files)


def is_finished(task: Task) -> bool:
    """Tell whether the run has been trained and measured."""
    return all((task.out / name).is_file() for name in (RESULT, ARRAYS))


def difference(task: Task) -> str | None:
    """Return how the run in the folder differs from the task, or None."""
    if is_finished(task):
        facts = _read(task.out / RESULT)
        settings, data = facts["settings"], facts["data"]
    elif (task.out / RUN).exists():
        facts = Run.open(task.out).facts
        settings, data = facts["settings"], fingerprint(facts["dataset_files"])
    else:
        return None
    if other := first_difference(settings, task.plain_settings, task.defaults):
        return other
    return None if data == task.data else "another dataset"


def write_result(task: Task, facts: dict[str, Any], metrics: Metrics, diversity: Diversity) -> None:
    """Write both files; remove the other files of the run unless the weights are kept."""
    values_by_name = metrics.by_name() | diversity.by_name()
    arrays = {name: values.astype(np.float32) for name, values in values_by_name.items()}
    with atomic_file(task.out / ARRAYS) as scratch, scratch.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # mypy thinks a name could be `allow_pickle`
    header = {"format": FORMAT, "model": task.model, "seed": task.training.seed, "data": task.data}
    with atomic_file(task.out / RESULT) as scratch:
        write_versioned(scratch, header | {"settings": task.plain_settings} | facts, checksum=False)
    if not task.keep:
        shutil.rmtree(task.out / BUNDLE, ignore_errors=True)
        for name in (CHECKPOINT, CURVE, CURVE_PICTURE, RUN):
            (task.out / name).unlink(missing_ok=True)


def read_result(task: Task, dataset: Dataset) -> Result:
    """Return the finished run; its metrics must match the test impressions of the dataset."""
    impressions = len(dataset.impressions("test"))
    file = task.out / ARRAYS
    try:
        with np.load(file) as stored:
            arrays = [stored[name].astype(np.float64) for name in METRICS]
            has_diversity = all(name in stored for name in DIVERSITY)
            diverse = [stored[name].astype(np.float64) for name in DIVERSITY] if has_diversity else []
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise RunError(f"{file} does not hold the metrics of a run; remove {task.out} to train again") from error
    if any(values.shape != (impressions,) for values in (*arrays, *diverse)):
        raise RunError(
            f"{file} does not fit the {impressions:,} test impressions of the dataset; remove {task.out} to train again"
        )
    return Result(_read(task.out / RESULT), Metrics(*arrays), Diversity(*diverse) if diverse else None)


def _read(file: Path) -> dict[str, Any]:
    return read_versioned(
        file,
        version=FORMAT,
        what="result",
        of="a run",
        error=RunError,
        remedy=f"remove {file.parent} to train again",
        keys={"settings": dict, "data": str},
        checksum=False,
    )

"""The folder of one training: what was asked for, how it went, and the bundle that came of it."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import drpn
from drpn.bundle.files import Bundle
from drpn.dataset.folder import Dataset
from drpn.errors import RunError
from drpn.output import atomic_file, explain_write_errors
from drpn.provenance import commit
from drpn.training.settings import TrainingSettings, ignored_settings
from drpn.versioned import read_versioned, write_versioned

FORMAT = 1
RUN, BUNDLE, CURVE_PICTURE, TENSORBOARD = "run.json", "bundle", "curve.png", "tensorboard"


Sections = dict[str, dict[str, Any]]
"""Settings by section and key."""


@dataclass(frozen=True)
class Run:
    """A training's folder and what was asked for."""

    path: Path
    facts: dict[str, Any]

    @classmethod
    def start(cls, path: Path, facts: dict[str, Any], defaults: Sections, *, resume: bool) -> "Run":
        """A new run, or with `resume` the one that is there, if the same was asked for.

        `defaults` are what a run had of settings that it does not name, having been made before they were there.
        """
        file = path / RUN
        facts = {"format": FORMAT, **facts}
        if file.exists():
            if not resume:
                raise RunError(f"{path} is a run already; pass --resume to take it up, or choose another folder")
            known = _read(file)
            for name, words in (("model", "model"), ("dataset_files", "data")):
                if known.get(name) != facts[name]:
                    raise RunError(f"{path} was started with other {words}; choose another folder")
            if other := first_difference(known["settings"], facts["settings"], defaults):
                raise RunError(f"{path} was started with {other}; choose another folder")
            return cls(path, known)
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; choose another folder")
        if path.exists() and any(path.iterdir()):
            raise RunError(f"{path} holds other files; choose another folder")
        with explain_write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            with atomic_file(file) as scratch:
                write_versioned(scratch, facts, checksum=False)
        return cls(path, facts)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """The run at `path`."""
        if not (path / RUN).is_file():
            raise RunError(f"{path} is not a run: it has no {RUN}; make one with: drpn train FOLDER --out {path}")
        return cls(path, _read(path / RUN))

    def forget(self) -> None:
        """Remove a run of which nothing is worth keeping."""
        (self.path / RUN).unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def bundle(self) -> Bundle:
        """What the training gave."""
        if not (self.path / BUNDLE).exists():
            raise RunError(f"{self.path} has not been trained to its end; take it up with: drpn train … --resume")
        return Bundle.open(self.path / BUNDLE)

    def dataset(self) -> Dataset:
        """The dataset folder it was trained on, which must not have changed."""
        dataset = Dataset.open(Path(self.facts["dataset"]))
        if dataset.manifest["files"] != self.facts["dataset_files"]:
            raise RunError(f"{self.facts['dataset']} is not the dataset that {self.path} was trained on; train again")
        return dataset


def first_difference(known: Sections, asked: Sections, defaults: Sections) -> str | None:
    """The first setting that a run was not made with as it is asked for now; those without effect may be others."""
    idle = ignored_settings(asked["training"]["loss"])
    for section, values in asked.items():
        made = defaults[section] | known[section]
        for key in sorted({*made, *values} - set(idle)):
            before, now = made.get(key), values.get(key)
            if before != now:
                return f"{section}.{key} = {before}, and {now} is asked for now"
    return None


def sections(settings: Any, training: TrainingSettings) -> Sections:
    """The settings of a model and of its training, as they come back from JSON."""
    both = {"model": dataclasses.asdict(settings), "training": dataclasses.asdict(training)}
    plain: Sections = json.loads(json.dumps(both))
    return plain


def run_facts(dataset: Dataset, model: str, settings: Any, training: TrainingSettings) -> dict[str, Any]:
    """What a run is about."""
    return {
        "drpn": drpn.__version__,
        "commit": commit(),
        "model": model,
        "settings": sections(settings, training),
        "dataset": str(dataset.path.absolute()),
        "dataset_files": dataset.manifest["files"],
    }


def _read(file: Path) -> dict[str, Any]:
    return read_versioned(
        file, version=FORMAT, what="description", of="a run", error=RunError, remedy="train again", checksum=False
    )

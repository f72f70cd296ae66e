"""The run folder of one training: its settings, its learning curve and its bundle."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpn.bundle.files import Bundle, bundle_run, read_manifest
from drpn.dataset.folder import Dataset
from drpn.errors import RunError
from drpn.models.base import ModelSettings
from drpn.output import LOCK, atomic_file, explain_write_errors
from drpn.provenance import commit
from drpn.training.settings import TrainingSettings, ignored_settings
from drpn.version import VERSION
from drpn.versioned import fingerprint, read_versioned, write_versioned

FORMAT = 1
RUN, BUNDLE, CURVE_PICTURE, TENSORBOARD = "run.json", "bundle", "curve.png", "tensorboard"


Sections = dict[str, dict[str, Any]]
"""Settings by section and key."""


@dataclass(frozen=True)
class Run:
    """A run folder and the contents of its run.json."""

    path: Path
    facts: dict[str, Any]

    @classmethod
    def start(cls, path: Path, facts: dict[str, Any], defaults: Sections, *, resume: bool) -> "Run":
        """Create a run; with `resume`, open an existing one, which must have the same model, data and settings.

        `defaults` are the values of settings that are newer than an existing run and so missing from its run.json.
        """
        file = path / RUN
        facts = {"format": FORMAT, **facts}
        if file.exists():
            if not resume:
                raise RunError(
                    f"{path} already holds a run; resume it or choose another folder", hint="pass --resume to resume it"
                )
            existing = _read(file)
            for name, label in (("model", "model"), ("dataset_files", "data")):
                if existing.get(name) != facts[name]:
                    raise RunError(f"{path} was started with other {label}; choose another folder")
            if difference := first_difference(existing["settings"], facts["settings"], defaults):
                raise RunError(f"{path} was started with {difference}; choose another folder")
            return cls(path, existing)
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; choose another folder")
        if path.exists() and any(file.name != LOCK for file in path.iterdir()):
            raise RunError(f"{path} holds other files; choose another folder")
        with explain_write_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            with atomic_file(file) as scratch:
                write_versioned(scratch, facts, checksum=False)
        return cls(path, facts)

    @classmethod
    def open(cls, path: Path) -> "Run":
        """Open the run at `path`."""
        if not (path / RUN).is_file():
            raise RunError(
                f"{path} is not a run: it has no {RUN}; train a model first",
                hint=f"run: drpn train FOLDER --out {path}",
            )
        return cls(path, _read(path / RUN))

    def with_threads(self, threads: int) -> "Run":
        """Return the run with another number of threads, which is written to run.json."""
        facts = self.facts | {"threads": threads}
        with atomic_file(self.path / RUN) as scratch:
            write_versioned(scratch, facts, checksum=False)
        return Run(self.path, facts)

    def forget(self) -> None:
        """Remove run.json, and the folder if it is empty then."""
        (self.path / RUN).unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    def bundle(self) -> Bundle:
        """Open the trained model."""
        self.check_bundle()
        return Bundle.open(self.path / BUNDLE)

    @property
    def manifest(self) -> dict[str, Any]:
        """The facts of the trained model, read without opening it."""
        self.check_bundle()
        return read_manifest(self.path / BUNDLE)

    def check_bundle(self) -> None:
        """Fail if there is no bundle yet, or if it is that of another run."""
        if not (self.path / BUNDLE).exists():
            raise RunError(
                f"{self.path} has not finished training; resume it", hint="repeat its drpn train command with --resume"
            )
        if bundle_run(self.path / BUNDLE) != self.fingerprint:
            raise RunError(f"{self.path / BUNDLE} is the bundle of another run; put back the run's own, or train again")

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint that binds bundle and checkpoint to the run; None in runs of older versions."""
        stored: str | None = self.facts.get("fingerprint")
        return stored

    def dataset(self) -> Dataset:
        """Open the dataset folder that the run was trained on; fail if it has changed."""
        dataset = Dataset.open(Path(self.facts["dataset"]))
        if dataset.manifest["files"] != self.facts["dataset_files"]:
            raise RunError(f"{self.facts['dataset']} is not the dataset that {self.path} was trained on; train again")
        return dataset


def first_difference(known: Sections, asked: Sections, defaults: Sections) -> str | None:
    """Describe the first setting that differs between a run and a request; settings without effect are ignored."""
    training = asked["training"]
    plants = bool(training["planted"] or training["planted_passes"])
    ignored = ignored_settings(training["loss"], training["decay"], planted=plants)
    for section, values in asked.items():
        existing = defaults[section] | known[section]
        for key in sorted({*existing, *values} - set(ignored)):
            before, now = existing.get(key), values.get(key)
            if before != now:
                return f"{section}.{key} = {json.dumps(before)}, and {json.dumps(now)} is asked for now"
    return None


def sections(settings: Any, training: TrainingSettings) -> Sections:
    """Return the settings of a model and of its training as JSON stores them."""
    both = {"model": dataclasses.asdict(settings), "training": dataclasses.asdict(training)}
    plain: Sections = json.loads(json.dumps(both))
    return plain


def former_settings(kind: type[ModelSettings]) -> Sections:
    """Return what an older run did where it does not have a setting of today: mostly today's default."""
    former = sections(kind(), TrainingSettings(undecayed="", planted_trains="vectors"))
    former["model"] |= kind.former
    return former


def run_facts(dataset: Dataset, model: str, settings: Any, training: TrainingSettings) -> dict[str, Any]:
    """Return the contents of run.json: versions, model, settings, dataset and fingerprint.

    The fingerprint covers what decides the weights: model, settings with the seed, and dataset. Settings without effect
    on the weights and the place of the dataset are not part of it.
    """
    by_section, files = sections(settings, training), dataset.manifest["files"]
    ignored = ignored_settings(training.loss, training.decay, planted=training.plants)
    learned = {
        section: {key: value for key, value in values.items() if key not in ignored}
        for section, values in by_section.items()
    }
    return {
        "drpn": VERSION,
        "commit": commit(),
        "model": model,
        "settings": by_section,
        "dataset": str(dataset.path.absolute()),
        "dataset_files": files,
        "fingerprint": fingerprint({"model": model, "settings": learned, "files": files}),
    }


def _read(file: Path) -> dict[str, Any]:
    return read_versioned(
        file, version=FORMAT, what="description", of="a run", error=RunError, remedy="train again", checksum=False
    )

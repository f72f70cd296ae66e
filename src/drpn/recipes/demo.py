"""The whole workflow on simulated logs: prepare, train DRPN and two ablations, evaluate, explain one reader."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpn.dataset.folder import Dataset
from drpn.drawing.pictures import draw_readers
from drpn.errors import OutputError
from drpn.explanation.profiles import Reader, reader, typical_readers
from drpn.explanation.trace import Trace
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.output import MARK, atomic_folder, lock_target
from drpn.preparation.settings import DataSettings
from drpn.progress import Progress, Silent
from drpn.recipes.evaluate import Evaluation, measure_models
from drpn.recipes.explain import choose_user, explain
from drpn.recipes.prepare import prepare
from drpn.recipes.runs import Run
from drpn.recipes.settings import entry
from drpn.recipes.train import train as train_model
from drpn.training.settings import TrainingSettings

MODELS = ("drpn", "drpn-n", "drpn-d")
SMALL = {"size": 32, "hidden": 32, "heads": 2}
"""Vectors of size 32 in place of the paper's 300, to train in minutes on two cores."""
TRAINING = TrainingSettings(epochs=3, decay=1.0)
SEED = 7
"""Seed of the simulated newsroom; no setting was tuned on this newsroom (docs/results/README.md)."""


@dataclass(frozen=True)
class Demo:
    """The results of the demo."""

    out: Path
    statistics: dict[str, Any]
    readers: tuple[Reader, ...]
    trained: "Trained | None"


@dataclass(frozen=True)
class Trained:
    """The trained models: number of training clicks, evaluation, and the explanation of one reader."""

    clicks: int
    evaluation: Evaluation
    case: Trace


def demo(
    out: Path, *, users: int = 20_000, seed: int = SEED, train: bool = True, progress: Progress | None = None
) -> Demo:
    """Simulate and prepare into `out`, which replaces an earlier demo there; then train, evaluate and explain."""
    with lock_target(out):
        return _demo(out, users, seed, train, progress or Silent())


def _demo(out: Path, users: int, seed: int, train: bool, progress: Progress) -> Demo:
    if (out / MARK).exists() and not (out / "dataset").is_dir():
        raise OutputError(f"{out} was not made by a demo and will not be replaced; choose another folder")
    with atomic_folder(out, replace=True, locked=True) as folder:
        simulate(folder / "logs", SimulationSettings(users=users, seed=seed), progress=progress)
        settings = DataSettings(vector_size=SMALL["size"])
        prepare(folder / "logs", folder / "dataset", settings, progress=progress)
    dataset = Dataset.open(out / "dataset", verify=False)  # opened again, because the folder was renamed
    readers = tuple(reader(dataset, user) for user in typical_readers(dataset))
    draw_readers(readers, out / "readers.png")
    return Demo(out, dataset.statistics, readers, _train_all(out, dataset, progress) if train else None)


def _train_all(out: Path, dataset: Dataset, progress: Progress) -> Trained:
    runs = {name: _train(out, name, progress) for name in MODELS}
    models = {name: run.bundle().model for name, run in runs.items()}
    evaluation = measure_models(models, dataset, progress=progress)
    case = explain(out / MODELS[0], dataset.user_ids[choose_user(dataset)], out / "case.png", progress=progress)
    (out / "results.json").write_text(json.dumps(evaluation.as_dict(), indent=1) + "\n", encoding="utf-8")
    clicks = int(runs[MODELS[0]].bundle().manifest["training"]["clicks"])
    return Trained(clicks, evaluation, case)


def _train(out: Path, name: str, progress: Progress) -> Run:
    settings = dataclasses.replace(entry(name).settings, **SMALL)
    return train_model(out / "dataset", out / name, model=name, settings=settings, training=TRAINING, progress=progress)

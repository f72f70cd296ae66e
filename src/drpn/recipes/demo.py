"""The whole workflow on two simulated newsrooms: a live site, and one whose noise is personal and can be found."""

import dataclasses
import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpn.batches.tables import Tables
from drpn.bundle.files import pick_device
from drpn.dataset.folder import Dataset
from drpn.drawing.comparison import draw_comparison
from drpn.drawing.pictures import draw_readers
from drpn.errors import OutputError
from drpn.explanation.profiles import Reader, reader, typical_readers
from drpn.explanation.trace import Trace, require_drpn
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.models.base import ClickModel
from drpn.output import MARK, atomic_folder, lock_target
from drpn.preparation.settings import DataSettings
from drpn.progress import Progress, Silent
from drpn.recipes.evaluate import Evaluation, measure_models
from drpn.recipes.explain import choose_user, explain
from drpn.recipes.noise import measure_noise
from drpn.recipes.prepare import prepare
from drpn.recipes.runs import Run
from drpn.recipes.settings import entry
from drpn.recipes.train import train as train_model
from drpn.training.settings import TrainingSettings
from drpn.training.threads import choose_threads, use_threads

USERS = 3_000
"""Readers of each newsroom: both parts together take minutes on two cores."""
SEED = 17
"""Seed of the simulated newsrooms; settings were chosen on the newsrooms of seed 7."""


@dataclass(frozen=True)
class Newsroom:
    """One part of the demo: how its logs are simulated and prepared, and which models are trained."""

    folder: str
    about: str
    preset: str
    data: DataSettings
    sizes: Mapping[str, int]
    """Small vectors in place of the paper's 300, to train in minutes on two cores."""
    models: Mapping[str, Mapping[str, Any]]
    """The training settings of each model that differ from its defaults."""


SITE = Newsroom(
    folder="live",
    about="A live site: stories age within hours, readers tire of what they were shown, and models rank with what a "
    "site knows at that second.",
    preset="live",
    data=DataSettings(vector_size=32, protocol="live"),
    sizes={"size": 32, "hidden": 32, "heads": 2, "context_size": 64},
    models={
        # also for DRPN, to compare like with like; without teachers, who would take most of the time
        name: {**entry("drpn-live").training, "epochs": 3, "patience": 3, "teachers": 0}
        for name in ("drpn-live", "drpn-live-no-text", "drpn-live-no-user", "drpn")
    },
)
NOISY = Newsroom(
    folder="noise",
    about="Noise that can be found: 30 % of clicks are accidents and 30 % of skips missed interests, which only the "
    "rest of a reader's profile gives away.",
    preset="personal",
    data=DataSettings(vector_size=48),
    sizes={"size": 48, "hidden": 48, "heads": 3},
    models={
        "drpn-planted": {"epochs": 2, "decay": 1.0},
        "drpn": {"epochs": 2, "decay": 1.0},
    },
)
NEWSROOMS = (SITE, NOISY)


@dataclass(frozen=True)
class Demo:
    """The results of the demo."""

    out: Path
    live: dict[str, Any]
    """Statistics of the dataset of the live site."""
    noise: dict[str, Any]
    """Statistics of the dataset of the newsroom with noise."""
    readers: tuple[Reader, ...]
    """Typical readers of the newsroom with noise."""
    trained: "Trained | None"


@dataclass(frozen=True)
class Measured:
    """The models of one newsroom: number of training clicks and evaluation."""

    clicks: int
    evaluation: Evaluation


@dataclass(frozen=True)
class Trained:
    """The results of both newsrooms."""

    live: Measured
    noise: Measured
    noise_auc: list[dict[str, Any]]
    """Noise AUC by weights, such as "drpn-planted, titles", and sequence."""
    case: Trace
    """One reader of the newsroom with noise, as `drpn-planted` sees them."""

    def as_dict(self) -> dict[str, Any]:
        """Return the results as a JSON-ready dictionary."""
        return {
            "live": self.live.evaluation.as_dict(),
            "noise": self.noise.evaluation.as_dict() | {"noise_auc": self.noise_auc},
        }


def demo(
    out: Path, *, users: int = USERS, seed: int = SEED, train: bool = True, progress: Progress | None = None
) -> Demo:
    """Simulate and prepare into `out`, which replaces an earlier demo there; then train, evaluate and explain.

    `users` is the number of readers of each newsroom.
    """
    on_cpu = pick_device().type == "cpu"
    # two threads on cores that others use are many times slower than one
    with lock_target(out), use_threads(choose_threads(0)) if on_cpu else nullcontext():
        return _demo(out, users, seed, train, progress or Silent())


def _demo(out: Path, users: int, seed: int, train: bool, progress: Progress) -> Demo:
    # demos of older versions have the folder `dataset`
    if (out / MARK).exists() and not any((out / name).is_dir() for name in (SITE.folder, "dataset")):
        raise OutputError(f"{out} was not made by a demo and will not be replaced; choose another folder")
    with atomic_folder(out, replace=True, locked=True) as scratch:
        for newsroom in NEWSROOMS:
            progress.note(newsroom.about)
            folder = scratch / newsroom.folder
            folder.mkdir()
            simulate(
                folder / "logs", SimulationSettings(users=users, seed=seed, preset=newsroom.preset), progress=progress
            )
            prepare(folder / "logs", folder / "dataset", newsroom.data, progress=progress)
    # opened again, because the folder was renamed
    live, noise = (Dataset.open(out / newsroom.folder / "dataset", verify=False) for newsroom in NEWSROOMS)
    readers = tuple(reader(noise, user) for user in typical_readers(noise))
    draw_readers(readers, out / "readers.png")
    trained = _train_all(out, live, noise, progress) if train else None
    return Demo(out, live.statistics, noise.statistics, readers, trained)


def _train_all(out: Path, live: Dataset, noise: Dataset, progress: Progress) -> Trained:
    site, _ = _train(out, SITE, live, progress, weights=False)
    noisy, models = _train(out, NOISY, noise, progress, weights=True)
    noise_auc = _noise_auc(noisy.evaluation.noise or {}, models["drpn"], noise, progress)
    user = noise.user_ids[choose_user(noise)]
    case = explain(out / NOISY.folder / "drpn-planted", user, out / "case.png", progress=progress)
    draw_comparison(site.evaluation.rows, out / "live.png", base=None, trained=tuple(SITE.models), names={})
    trained = Trained(site, noisy, noise_auc, case)
    (out / "results.json").write_text(json.dumps(trained.as_dict(), indent=1) + "\n", encoding="utf-8")
    return trained


def _train(
    out: Path, newsroom: Newsroom, dataset: Dataset, progress: Progress, *, weights: bool
) -> tuple[Measured, dict[str, ClickModel]]:
    """Train and evaluate the models of a newsroom; return the results and the models."""
    progress.note(newsroom.about)
    runs = {name: _train_one(out, newsroom, name, progress) for name in newsroom.models}
    bundles = {name: run.bundle() for name, run in runs.items()}
    models = {name: bundle.model for name, bundle in bundles.items()}
    evaluation = measure_models(models, dataset, weights=weights, progress=progress)
    clicks = next(iter(bundles.values())).manifest["training"]["clicks"]
    return Measured(int(clicks), evaluation), models


def _train_one(out: Path, newsroom: Newsroom, name: str, progress: Progress) -> Run:
    progress.note(f"training {name}")
    folder, known = out / newsroom.folder, entry(name)
    settings = dataclasses.replace(known.settings, **newsroom.sizes)
    training = TrainingSettings(**{**known.training, **newsroom.models[name]})
    return train_model(
        folder / "dataset", folder / name, model=name, settings=settings, training=training, progress=progress
    )


def _noise_auc(
    planted: Mapping[str, Any], plain: ClickModel, dataset: Dataset, progress: Progress
) -> list[dict[str, Any]]:
    """Return the rows of the table of noise AUC: denoising weights of both models, a rule, and the ceilings."""
    model = require_drpn(plain)
    read = model.limit(dataset)
    tables = Tables.from_dataset(read, pick_device())
    others = measure_noise(model, tables, read, ceilings=False, progress=progress) or {}
    rows = [
        ("drpn-planted, titles", planted, "denoise"),
        ("drpn-planted, ids and graph", planted, "collaborative denoise"),
        ("drpn, titles", others, "denoise"),
        ("drpn, ids and graph", others, "collaborative denoise"),
        ("rule: TF-IDF similarity", planted, "tfidf rule"),
        ("ceiling: rest of the profile", planted, "personal ceiling"),
        ("ceiling: story alone", planted, "story ceiling"),
    ]
    return [
        {"weights": name} | {side: kinds[kind] for side, kinds in noise.items() if kind in kinds}
        for name, noise, kind in rows
    ]

"""Many models on one dataset folder, several seeds each: the paper's Tables 2 and 3 with intervals, and its claims."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import drpn
from drpn.batches.samples import Clicks
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset, SplitName
from drpn.errors import FolderError, RunError, SettingsError, TrainingError
from drpn.evaluation.baselines import chance
from drpn.evaluation.comparison import compared
from drpn.evaluation.metrics import Metrics, measure
from drpn.experiments.claims import Judged, judge_groups, write_claims
from drpn.experiments.jobs import run_tasks
from drpn.experiments.pages import write_pages
from drpn.experiments.paper import BASE, NAMES
from drpn.experiments.results import Result, Task, difference, fingerprint, is_finished, read_result
from drpn.experiments.table1 import is_mind_large
from drpn.models.catalogue import CATALOGUE
from drpn.output import atomic_file, explain_write_errors, lock_folder
from drpn.progress import Progress, Silent
from drpn.provenance import machine
from drpn.recipes.evaluate import has_profile, reference_scores
from drpn.recipes.needs import missing_requirements
from drpn.recipes.settings import Settings, find_config, load_settings_of, read_settings_file
from drpn.versioned import write_versioned

RUNS, DOCUMENT, PICTURE = "runs", "compare.json", "compare.png"
SPLIT: SplitName = "test"
FORMAT = 1


@dataclass(frozen=True)
class Compared:
    """What a comparison found."""

    out: Path
    about: dict[str, Any]
    """Data, models, seeds, machine and versions, ready for JSON."""
    rows: list[dict[str, Any]]
    """A row for each system and group of impressions."""
    runs: list[dict[str, Any]]
    """The facts of every run."""
    systems: dict[str, Metrics]
    """The metrics of each impression, (seeds, impressions) of those that were trained."""
    users: Array
    """The user of each impression."""
    has_profile: Array
    claims: dict[str, list[Judged]]
    """What came of the paper's claims, by group of impressions."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        judged = {group: [one.as_dict() for one in claims] for group, claims in self.claims.items()}
        return {"format": FORMAT, "about": self.about, "rows": self.rows, "claims": judged, "runs": self.runs}


def compare(
    folder: Path,
    out: Path,
    *,
    models: Sequence[str] | None = None,
    seeds: int = 3,
    config: Path | None = None,
    sets: Iterable[str] = (),
    configs: Path | None = None,
    jobs: int = 1,
    keep: bool = False,
    again: bool = False,
    progress: Progress | None = None,
) -> Compared:
    """Train and measure each model with each seed, and write tables, a picture and a JSON document into `out`.

    Without `models`, all that the folder has the data for. Runs that are finished are not repeated, runs that were
    stopped are taken up. Settings: those of the model, of the file `configs`, of `config`, of `sets`.
    """
    progress = progress or Silent()
    dataset = Dataset.open(folder)
    _check_test(dataset)
    sets = list(sets)
    settings = load_settings_of(models or CATALOGUE, config, sets, tuned=configs)
    asked = [find_config(config).name] if config else []
    if configs and any(name in settings for name in read_settings_file(configs).models):
        asked.insert(0, find_config(configs).name)
        progress.note(f"settings of each model: {find_config(configs)}")
    left_out = {
        name: problem for name, one in settings.items() if (problem := missing_requirements(name, one.model, dataset))
    }
    if models and left_out:
        raise FolderError(next(iter(left_out.values())))
    for problem in left_out.values():
        progress.note(f"left out: {problem}")
    chosen = {name: one for name, one in settings.items() if name not in left_out}
    tasks = _tasks(chosen, seeds, dataset, out, keep=keep, jobs=jobs)
    with lock_folder(out):
        _check(tasks, again=again)
        todo = [task for task in tasks if not is_finished(task)]
        if len(todo) < len(tasks):
            progress.note(f"{len(tasks) - len(todo)} of {len(tasks)} runs are finished already")
        failed = None
        try:
            run_tasks(todo, jobs, len(Clicks.of(dataset.impressions("train"), torch.device("cpu"))), progress)
        except TrainingError as error:
            failed = error
            unfinished = {task.model for task in tasks if not is_finished(task)}
            left_out |= {name: f"{name}, of which not every run ended well" for name in sorted(unfinished)}
            tasks = [task for task in tasks if task.model not in unfinished]
            if not tasks:
                raise
        with progress.stage("metrics and intervals"):
            found = _gather(tasks, dataset, out, seeds=seeds, asked=[*asked, *sets], left_out=left_out)
        with progress.stage("tables"):
            _write(found)
        if failed:
            raise failed
        return found


def _check_test(dataset: Dataset) -> None:
    impressions = dataset.impressions(SPLIT)
    if not measure(chance(impressions.candidates), impressions.clicked, impressions.offsets).counted.any():
        raise FolderError(f"{dataset.path} has nothing to test on: no impression there has a click and a skip")


def _tasks(
    settings: dict[str, Settings], seeds: int, dataset: Dataset, out: Path, *, keep: bool, jobs: int
) -> list[Task]:
    """Every model with the first seed, then every model with the second, and so on."""
    if any(one.training.seed for one in settings.values()):
        raise SettingsError("training.seed cannot be chosen here, every run has its own; say how many with --seeds")
    data = fingerprint(dataset.manifest["files"])
    return [
        Task(
            model=name,
            settings=one.model,
            training=replace(one.training, seed=seed),
            folder=dataset.path,
            data=data,
            out=out / RUNS / f"{name}-{seed}",
            keep=keep,
            jobs=jobs,
        )
        for seed in range(seeds)
        for name, one in settings.items()
    ]


def _check(tasks: list[Task], *, again: bool) -> None:
    """Refuse runs that were asked for differently before, or with `again` forget them."""
    others = {task: problem for task in tasks if (problem := difference(task))}
    for task, problem in others.items():
        if not again:
            raise RunError(f"{task.out} was run with {problem}; choose another --out, or pass --again to train it anew")
    for task in others:
        with explain_write_errors(task.out):
            shutil.rmtree(task.out)


def _gather(
    tasks: list[Task], dataset: Dataset, out: Path, *, seeds: int, asked: list[str], left_out: dict[str, str]
) -> Compared:
    impressions = dataset.impressions(SPLIT)
    users = np.asarray(impressions.users)
    known = has_profile(dataset, users)
    results: dict[str, list[Result]] = {}
    for task in tasks:
        results.setdefault(task.model, []).append(read_result(task, dataset))
    systems = {name: Metrics.of_seeds([one.metrics for one in found]) for name, found in results.items()}
    for name, scores in reference_scores(dataset, impressions).items():
        if name != "chance":
            systems[name] = measure(scores, impressions.clicked, impressions.offsets)
    runs = [one.facts for found in results.values() for one in found]
    about = {
        "drpn": drpn.__version__,
        "machine": machine(),
        "commits": sorted({run["machine"]["commit"] for run in runs}),
        "data": {
            "name": dataset.path.resolve().name,
            "fingerprint": fingerprint(dataset.manifest["files"]),
            "settings": dataset.manifest["settings"],
            "statistics": dataset.statistics,
            "mind_large": is_mind_large(dataset.manifest),
        },
        "split": SPLIT,
        "settings": asked,
        "models": list(results),
        "left_out": left_out,
        "seeds": list(range(seeds)),
        "base": BASE if BASE in systems else None,
        "comparisons": len(systems) - 1 if BASE in systems else 0,
    }
    rows = compared(systems, users, known, base=BASE)
    return Compared(out, about, rows, runs, systems, users, known, judge_groups(systems, users, known))


def _write(found: Compared) -> None:
    with explain_write_errors(found.out):
        found.out.mkdir(parents=True, exist_ok=True)
    with atomic_file(found.out / DOCUMENT) as scratch:
        write_versioned(scratch, found.as_dict(), checksum=False)
    write_pages(found.out, found.about, found.rows, found.runs)
    seeds, mind = len(found.about["seeds"]), found.about["data"]["mind_large"]
    write_claims(found.out, found.claims, seeds=seeds, mind=mind, document=DOCUMENT)
    try:
        from drpn.drawing.comparison import draw_comparison
    except ImportError:  # a machine that only trains may have no matplotlib
        return
    about = found.about
    drawn = [row for row in found.rows if row["model"] != "oracle"]  # so far above that all else would be one spot
    draw_comparison(drawn, found.out / PICTURE, base=about["base"], trained=about["models"], names=NAMES)

"""Compare many models on one dataset folder, several seeds each: the paper's Tables 2 and 3, and its claims."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.batches.samples import Clicks
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset, SplitName
from drpn.errors import FolderError, RunError, SettingsError, TrainingError
from drpn.evaluation.baselines import chance
from drpn.evaluation.comparison import compared
from drpn.evaluation.count_trees import check_trees, tree_scores
from drpn.evaluation.diversity import Diversity, DiversityMeter
from drpn.evaluation.metrics import Metrics, measure
from drpn.experiments.claims import Judged, judge_groups, write_claims
from drpn.experiments.jobs import run_tasks
from drpn.experiments.pages import About, names_of, write_pages
from drpn.experiments.paper import BASE
from drpn.experiments.results import Result, Task, difference, fingerprint, is_finished, read_result
from drpn.experiments.table1 import is_mind_large
from drpn.models.catalogue import CATALOGUE
from drpn.output import atomic_file, explain_write_errors, lock_folder
from drpn.progress import Progress, Silent
from drpn.provenance import machine
from drpn.recipes.data_settings import note_other_data_settings, refuse_data_settings
from drpn.recipes.evaluate import has_profile, reference_scores
from drpn.recipes.needs import missing_requirements, prepare_hint
from drpn.recipes.planted import check_planted
from drpn.recipes.settings import Settings, find_config, load_settings_of, read_settings_file
from drpn.version import VERSION
from drpn.versioned import write_versioned

LIVE = "drpn-live"
"""The system that others are compared with, where there is one."""
RUNS, DOCUMENT, PICTURE = "runs", "compare.json", "compare.png"
SPLIT: SplitName = "test"
FORMAT = 1


@dataclass(frozen=True)
class Compared:
    """The result of a comparison."""

    out: Path
    about: About
    """Data, models, seeds, machine and versions."""
    rows: list[dict[str, Any]]
    """One row for each system and group of impressions."""
    runs: list[dict[str, Any]]
    """The facts of every run."""
    systems: dict[str, Metrics]
    """Metrics of every impression; (seeds, impressions) for trained systems."""
    users: Array
    """The user of each impression."""
    has_profile: Array
    claims: dict[str, list[Judged]]
    """Verdicts on the paper's claims, by group of impressions."""

    def as_dict(self) -> dict[str, Any]:
        """Return everything that `compare.json` holds."""
        judged = {group: [claim.as_dict() for claim in claims] for group, claims in self.claims.items()}
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
    trees: bool = False,
    progress: Progress | None = None,
) -> Compared:
    """Train and measure each model with each seed; write tables, a picture and a JSON document into `out`.

    Without `models`, every model that the folder has the data for, those of the live protocol only on its folders.
    Finished runs are not repeated, stopped runs are resumed. Settings are the model's defaults, then the file
    `configs`, then `config`, then `sets`. With `trees`, LightGBM on the counts of the live protocol is one more system;
    it compares the stories of a list if a model does.
    """
    progress, sets = progress or Silent(), list(sets)
    refuse_data_settings(sets)
    dataset = Dataset.open(folder)
    _check_test_split(dataset)
    if trees:
        check_trees(dataset)
    for file in (configs, config):
        note_other_data_settings(file, dataset, progress)
    fitting = [name for name, entry in CATALOGUE.items() if dataset.live or not entry.live]
    settings = load_settings_of(models or fitting, config, sets, tuned=configs)
    for name, chosen in settings.items():
        check_planted(name, chosen.model, chosen.training)
    sources = [find_config(config).name] if config else []
    if configs and any(name in settings for name in read_settings_file(configs).models):
        sources.insert(0, find_config(configs).name)
        progress.note(f"settings of each model: {find_config(configs)}")
    left_out = {
        name: problem
        for name, chosen in settings.items()
        if (problem := missing_requirements(name, chosen.model, dataset))
    }
    if models and left_out:
        name = next(iter(left_out))
        raise FolderError(left_out[name], hint=prepare_hint(name, settings[name].model, dataset))
    for problem in left_out.values():
        progress.note(f"left out: {problem}")
    usable = {name: chosen for name, chosen in settings.items() if name not in left_out}
    tasks = _tasks(usable, seeds, dataset, out, keep=keep, jobs=jobs)
    with lock_folder(out):
        _check_existing_runs(tasks, again=again)
        todo = [task for task in tasks if not is_finished(task)]
        if len(todo) < len(tasks):
            progress.note(f"{len(tasks) - len(todo)} of {len(tasks)} runs are finished already")
        failed = None
        try:
            run_tasks(
                todo, jobs, len(Clicks.from_impressions(dataset.impressions("train"), torch.device("cpu"))), progress
            )
        except TrainingError as error:
            failed = error
            unfinished = {task.model for task in tasks if not is_finished(task)}
            left_out |= {name: f"{name}, because some of its runs failed" for name in sorted(unfinished)}
            tasks = [task for task in tasks if task.model not in unfinished]
            if not tasks:
                raise
        with progress.stage("metrics and intervals"):
            result = _gather(
                tasks, dataset, out, seeds=seeds, sources=[*sources, *sets], left_out=left_out, trees=trees
            )
        with progress.stage("tables"):
            _write(result)
        if failed:
            raise failed
        return result


def _check_test_split(dataset: Dataset) -> None:
    impressions = dataset.impressions(SPLIT)
    if not measure(chance(impressions.candidates), impressions.clicked, impressions.offsets).counted.any():
        raise FolderError(f"{dataset.path} has nothing to test on: no test impression has both a click and a skip")


def _tasks(
    settings: dict[str, Settings], seeds: int, dataset: Dataset, out: Path, *, keep: bool, jobs: int
) -> list[Task]:
    """Return the tasks: every model with the first seed, then every model with the second, and so on."""
    if any(chosen.training.seed for chosen in settings.values()):
        raise SettingsError(
            "training.seed cannot be set here, because every run has its own seed; set the number of seeds",
            hint="pass --seeds",
        )
    data = fingerprint(dataset.manifest["files"])
    return [
        Task(
            model=name,
            settings=chosen.model,
            training=replace(chosen.training, seed=seed),
            folder=dataset.path,
            data=data,
            out=out / RUNS / f"{name}-{seed}",
            keep=keep,
            jobs=jobs,
        )
        for seed in range(seeds)
        for name, chosen in settings.items()
    ]


def _check_existing_runs(tasks: list[Task], *, again: bool) -> None:
    """Refuse runs made with other settings or data; with `again`, remove them."""
    others = {task: problem for task in tasks if (problem := difference(task))}
    for task, problem in others.items():
        if not again:
            raise RunError(
                f"{task.out} was run with {problem}; choose another output folder or train it again",
                hint="pass --again to train it again",
            )
    for task in others:
        with explain_write_errors(task.out):
            shutil.rmtree(task.out)


def _gather(
    tasks: list[Task],
    dataset: Dataset,
    out: Path,
    *,
    seeds: int,
    sources: list[str],
    left_out: dict[str, str],
    trees: bool,
) -> Compared:
    impressions = dataset.impressions(SPLIT)
    users = np.asarray(impressions.users)
    profiled = has_profile(dataset, users)
    results: dict[str, list[Result]] = {}
    for task in tasks:
        results.setdefault(task.model, []).append(read_result(task, dataset))
    systems = {name: Metrics.of_seeds([run.metrics for run in by_seed]) for name, by_seed in results.items()}
    diversity = {
        name: Diversity.of_seeds(by_seed)
        for name, runs_of_model in results.items()
        if len(by_seed := [run.diversity for run in runs_of_model if run.diversity is not None]) == len(runs_of_model)
    }
    meter = DiversityMeter(dataset, impressions)
    references = reference_scores(dataset, impressions)
    if trees:
        in_view = any(task.settings.list_attention for task in tasks)
        references["lightgbm in view" if in_view else "lightgbm"] = tree_scores(dataset, SPLIT, in_view=in_view)
    for name, scores in references.items():
        if name != "chance":
            systems[name] = measure(scores, impressions.clicked, impressions.offsets)
            diversity[name] = meter.measure(scores)
    base = LIVE if LIVE in systems else BASE
    runs = [run.facts for by_seed in results.values() for run in by_seed]
    about: About = {
        "drpn": VERSION,
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
        "settings": sources,
        "models": list(results),
        "left_out": left_out,
        "seeds": list(range(seeds)),
        "base": base if base in systems else None,
        "comparisons": len(systems) - 1 if base in systems else 0,
    }
    rows = compared(systems, users, profiled, base=base, diversity=diversity)
    claims = judge_groups(systems, users, profiled)
    return Compared(out, about, rows, runs, systems, users, profiled, claims)


def _write(result: Compared) -> None:
    out, about = result.out, result.about
    with explain_write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    with atomic_file(out / DOCUMENT) as scratch:
        write_versioned(scratch, result.as_dict(), checksum=False)
    write_pages(out, about, result.rows, result.runs)
    mind = about["data"]["mind_large"]
    names = names_of(result.runs)
    write_claims(out, result.claims, names=names, seeds=len(about["seeds"]), mind=mind, document=DOCUMENT)
    try:
        from drpn.drawing.comparison import draw_comparison
    except ImportError:  # a machine that only trains may lack matplotlib
        return
    rows = [row for row in result.rows if row["model"] != "oracle"]  # its AUC would stretch the axis too far
    draw_comparison(rows, out / PICTURE, base=about["base"], trained=about["models"], names=names)

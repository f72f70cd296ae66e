"""Does denoising help? `python benchmarks/noise_study.py NEWSROOM NEWSROOM ... --out FOLDER --page PAGE.md`.

Each newsroom is a dataset folder prepared from simulated logs. On each of them DRPN, DRPN-D and DRPN with planted
feedback at several weights are trained with the same seeds. The page has test AUC, differences to DRPN and to DRPN-D
with 95 % intervals over newsrooms and seeds, and the noise AUC of the denoising weights of each view. Finished runs are
not repeated.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.experiments.compare import compare
from drpn.progress import Lines
from drpn.provenance import commit

BASES = ("drpn", "drpn-d")
PLANTED = "drpn-planted"
WEIGHTS = (0.0, 0.1, 0.3, 1.0)
POWER = 2.8
"""A difference of 2.8 standard errors is significant at 5 % in 80 % of studies: 1.96 + 0.84."""
T_QUANTILES = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom."""
NOISE = {
    "denoise": "semantic",
    "collaborative denoise": "collaborative",
    "tfidf rule": "TF-IDF rule",
    "personal ceiling": "ceiling, personal",
    "story ceiling": "ceiling, story",
}
"""Kinds of scores in the facts of a run, and how the page calls them."""


@dataclass(frozen=True)
class System:
    """A model with settings, trained on every newsroom with every seed."""

    name: str
    model: str
    sets: tuple[str, ...] = ()


class Estimate(NamedTuple):
    """A mean over newsrooms and seeds with its 95 % interval."""

    mean: float
    low: float
    high: float
    visible: float
    """The smallest difference that a study of this size finds in four of five cases."""


Runs = dict[str, dict[str, list[dict[str, Any]]]]
"""The facts of the runs, by newsroom and system, sorted by seed."""


def systems(weights: Sequence[float], extra: Sequence[str]) -> list[System]:
    """DRPN, DRPN-D, DRPN with planted feedback at each weight, and systems given as NAME:MODEL:KEY=VALUE,...."""
    planted = [System(f"{PLANTED} {weight:g}", PLANTED, (f"training.planted={weight}",)) for weight in weights]
    others = []
    for text in extra:
        name, model, *sets = text.split(":", 2)
        others.append(System(name, model, tuple(sets[0].split(",")) if sets and sets[0] else ()))
    return [*(System(name, name) for name in BASES), *planted, *others]


def estimate(values: NDArray[np.float64]) -> Estimate:
    """The mean of (newsrooms, seeds) numbers and its interval from Student's t.

    Runs on one newsroom resemble each other, so that each newsroom counts as one observation, the mean over its seeds.
    A single newsroom has its seeds as observations; the interval then says nothing about other newsrooms.
    """
    observed = values.mean(1) if len(values) > 1 else values[0]
    mean, count = float(observed.mean()), len(observed)
    if count < 2:
        return Estimate(mean, math.nan, math.nan, math.nan)
    error = float(observed.std(ddof=1)) / math.sqrt(count)
    quantile = T_QUANTILES[count - 2] if count - 2 < len(T_QUANTILES) else 1.96
    return Estimate(mean, mean - quantile * error, mean + quantile * error, POWER * error)


def values_of(runs: Runs, system: str, *keys: str) -> NDArray[np.float64]:
    """(newsrooms, seeds): a number of each run, found by keys in its facts; NaN where it is missing."""

    def number(facts: Any) -> float:
        for key in keys:
            facts = facts.get(key) if isinstance(facts, dict) else None
        return math.nan if facts is None else float(facts)

    return np.array([[number(run) for run in by_system[system]] for by_system in runs.values()])


def shown(one: Estimate, *, sign: bool = False) -> str:
    """An estimate with its interval; empty without numbers."""
    if math.isnan(one.mean):
        return ""
    form = "+.4f" if sign else ".3f"
    interval = "" if math.isnan(one.low) else f" ({one.low:{form}} to {one.high:{form}})"
    return f"{one.mean:{form}}{interval}"


def difference_rows(runs: Runs, names: Sequence[str]) -> list[str]:
    """Test AUC of each system, and its differences to DRPN and DRPN-D by newsroom and seed."""
    auc = {name: values_of(runs, name, "test", "auc") for name in names}
    lines = [
        "| | test AUC | minus DRPN's | could be seen | minus DRPN-D's | could be seen |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in names:
        cells = [name, f"{auc[name].mean():.4f}"]
        for base in BASES:
            gap = estimate(auc[name] - auc[base])
            seen = "" if math.isnan(gap.visible) else f"{gap.visible:.4f}"
            cells += ["", ""] if name == base else [shown(gap, sign=True), seen]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def noise_rows(runs: Runs, names: Sequence[str]) -> list[str]:
    """Noise AUC of clicked and skipped stories by view."""
    heads = [f"{side}, {label}" for side in ("clicked", "skipped") for label in NOISE.values()]
    lines = [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for name in names:
        cells = [
            shown(estimate(values_of(runs, name, "noise", side, kind, "auc")))
            for side in ("clicked", "skipped")
            for kind in NOISE
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def newsroom_rows(runs: Runs, names: Sequence[str]) -> list[str]:
    """Test AUC of each system on each newsroom, as a mean over seeds."""
    lines = [f"| | {' | '.join(runs)} |", f"|---|{'---:|' * len(runs)}"]
    for name in names:
        means = values_of(runs, name, "test", "auc").mean(1)
        lines.append(f"| {name} | {' | '.join(f'{mean:.4f}' for mean in means)} |")
    return lines


def shared_settings(options: argparse.Namespace) -> str:
    """The settings that all systems have, as given on the command line."""
    file = f"{options.configs.name}, then " if options.configs else ""
    return f"{file}{', '.join(options.sets) or 'none besides defaults'}"


def page(runs: Runs, chosen: Sequence[System], title: str, shared: str) -> list[str]:
    """The lines of the page; `shared` are the settings of all systems."""
    names = [system.name for system in chosen]
    first = next(iter(runs.values()))[names[0]]
    machine = first[0]["machine"]
    counts = f"{_count(len(runs), 'newsroom')}, {_count(len(first), 'seed')}"
    over = "newsrooms, each the mean of its seeds" if len(runs) > 1 else "seeds"
    by_settings = [f"`{system.name}`: {', '.join(system.sets)}" for system in chosen if system.sets]
    return [
        f"# {title}",
        "",
        f"{counts}; {machine.get('gpu') or machine['processor']}, {_commits(runs, names)}; page by "
        f"`benchmarks/noise_study.py`, commit {commit()}. Intervals (95 %) are over {over}. *Could be seen*: the "
        f"smallest difference that a study of this size finds in four of five cases, {POWER} standard errors.",
        "",
        " ".join([f"Settings of all systems: {shared}.", *(f"{settings}." for settings in by_settings)]),
        "",
        "## Test AUC",
        "",
        *difference_rows(runs, names),
        "",
        "## Noise AUC of the denoising weights (0.5 is chance)",
        "",
        *noise_rows(runs, names),
        "",
        "## Test AUC by newsroom",
        "",
        *newsroom_rows(runs, names),
    ]


def _commits(runs: Runs, names: Sequence[str]) -> str:
    """The commit of the runs or, if there are several, those of each system."""
    every = {
        name: " and ".join(dict.fromkeys(run["machine"]["commit"] for of in runs.values() for run in of[name]))
        for name in names
    }
    if len(set(every.values())) == 1:
        return f"commit {every[names[0]]}"
    return f"commits {', '.join(f'{commits} ({name})' for name, commits in every.items())}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def train_all(newsroom: Path, chosen: Sequence[System], options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """The facts of the runs of each system on a newsroom, sorted by seed; what is missing is trained."""
    runs = {}
    for system in chosen:
        done = compare(
            newsroom,
            options.out / newsroom.name / system.name.replace(" ", "-"),
            models=[system.model],
            seeds=options.seeds,
            configs=options.configs,
            sets=[*options.sets, *system.sets],
            jobs=options.jobs,
            progress=Lines(),
        )
        runs[system.name] = sorted(done.runs, key=lambda run: int(run["seed"]))
    return runs


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of every study of planted feedback."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--extra", nargs="*", default=[], metavar="NAME:MODEL:KEY=VALUE,...", help="further systems")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--configs", type=Path, help="a file with tuned settings of each model, such as newsroom")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help="for all systems")


def main() -> None:
    """Train what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("newsrooms", type=Path, nargs="+", help="dataset folders")
    parser.add_argument("--title", default="Planted feedback")
    parser.add_argument("--weights", type=float, nargs="*", default=list(WEIGHTS), help="of the planted loss")
    add_options(parser)
    options = parser.parse_args()
    chosen, runs = systems(options.weights, options.extra), Runs()
    for newsroom in options.newsrooms:
        runs[newsroom.name] = train_all(newsroom, chosen, options)
        options.page.write_text(
            "\n".join(page(runs, chosen, options.title, shared_settings(options))) + "\n", encoding="utf-8"
        )
        print(f"{options.page}, {newsroom.name}", flush=True)


if __name__ == "__main__":
    main()

"""Do weights of clicks predict that they were read? `python benchmarks/read_times.py RUN RUN ... --page PAGE.md`.

The runs are trainings on one dataset with read times, with several seeds of each model. The page has the AUC within
users of each kind of weights, as a mean over seeds, and by how much denoising weights are above the content-based ones
of their view and above the TF-IDF rule. Intervals (95 %) are over users and seeds.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drpn.batches.tables import Tables
from drpn.evaluation.bootstrap import Comparison, Interval, interval, paired
from drpn.explanation.trace import require_drpn
from drpn.provenance import commit
from drpn.recipes.noise import RULE, compared_weights, read_clicks
from drpn.recipes.runs import Run
from drpn.training.devices import choose_device
from drpn.training.settings import TrainingSettings

Aucs = dict[str, NDArray[np.float64]]
"""(seeds, users) by name of the weights."""


def measure(runs: Sequence[Run]) -> Aucs:
    """The AUC of each kind of weights, from one run for each seed."""
    by_seed = []
    for run in runs:
        device = choose_device(TrainingSettings())
        model = require_drpn(run.bundle().model.to(device))
        dataset = model.limit(run.dataset())
        clicks = read_clicks(model, Tables.from_dataset(dataset, device, moving=False), dataset)
        if clicks is None:
            raise SystemExit(
                f"{run.facts['dataset']} has no read times; prepare logs that have the column read_seconds"
            )
        by_seed.append(clicks.aucs)
    return {name: np.stack([aucs[name] for aucs in by_seed]) for name in by_seed[0]}


def check_alike(by_model: Mapping[str, Sequence[Run]]) -> None:
    """Stop unless all runs have one dataset, each model the same seeds, and its runs the same settings."""
    seeds = {
        model: sorted(run.facts["settings"]["training"]["seed"] for run in runs) for model, runs in by_model.items()
    }
    if len({tuple(own) for own in seeds.values()}) > 1:
        raise SystemExit(f"models have different seeds: {seeds}; give runs of the same seeds")
    for name in ("dataset_files", "commit"):
        if len({str(run.facts[name]) for runs in by_model.values() for run in runs}) > 1:
            raise SystemExit(f"runs differ in {name}; give runs on one dataset by one version")
    for model, runs in by_model.items():
        others = [{**run.facts["settings"]["training"], "seed": 0} for run in runs]
        if (
            any(other != others[0] for other in others)
            or len({str(run.facts["settings"]["model"]) for run in runs}) > 1
        ):
            raise SystemExit(f"runs of {model} differ in more than their seed; give runs with the same settings")


def auc_rows(measured: Mapping[str, Aucs]) -> list[str]:
    """A line for each kind of weights of each model, and one for the rule."""
    lines = ["| | weights | AUC within users | by seed |", "|---|---|---:|---|"]
    for model, aucs in measured.items():
        for name, values in aucs.items():
            if name != RULE:
                seeds = ", ".join(f"{value:.3f}" for value in np.nanmean(values, axis=1))
                lines.append(f"| {model} | {name} | {_shown(interval(values, *_draws(values)))} | {seeds} |")
    rule = next(iter(measured.values()))[RULE][:1]
    return [*lines, f"| {RULE} | | {_shown(interval(rule, *_draws(rule)))} | |"]


def difference_rows(measured: Mapping[str, Aucs]) -> list[str]:
    """A line for each kind of denoising weights of each model."""
    lines = ["| | weights | minus content-based | minus TF-IDF rule |", "|---|---|---:|---:|"]
    for model, aucs in measured.items():
        pairs: dict[str, list[str]] = {}
        for first, second in compared_weights(tuple(aucs)):
            gap = paired(aucs[first], aucs[second], *_draws(aucs[first]))
            pairs.setdefault(first, []).append(_shown(gap))
        lines += [f"| {model} | {name} | {' | '.join(cells)} |" for name, cells in pairs.items()]
    return lines


def _draws(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], np.random.Generator]:
    return np.arange(values.shape[-1]), np.random.default_rng(0)


def _shown(one: Interval | Comparison) -> str:
    value, form = (one.mean, ".3f") if isinstance(one, Interval) else (one.difference, "+.3f")
    return f"{value:{form}} ({one.low:{form}} to {one.high:{form}})"


def page(measured: Mapping[str, Aucs], runs: Sequence[Run]) -> list[str]:
    """The lines of the page."""
    some = next(iter(measured.values()))
    facts, seeds = runs[0].facts, len(some[RULE])
    training, users = facts["settings"]["training"], int(np.isfinite(some[RULE][0]).sum())
    settings = ", ".join(f"training.{name}={training[name]}" for name in ("batch", "rate", "decay", "epochs"))
    return [
        "# Weights of clicks and read times",
        "",
        f"{users:,} users with clicks that were read and clicks that were not; {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'} of each model; "
        f"model.size={facts['settings']['model']['size']}, {settings}; runs of commit {facts['commit']}, page by "
        f"`benchmarks/read_times.py`, commit {commit()}. Intervals (95 %) are over users and seeds; chance is 0.5. "
        "Weights without a view are the semantic ones.",
        "",
        *auc_rows(measured),
        "",
        *difference_rows(measured),
    ]


def main() -> None:
    """Measure the runs and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", help="run folders")
    parser.add_argument("--page", type=Path, required=True)
    options = parser.parse_args()
    by_model: dict[str, list[Run]] = {}
    for path in options.runs:
        run = Run.open(path)
        by_model.setdefault(run.facts["model"], []).append(run)
    check_alike(by_model)
    measured = {model: measure(runs) for model, runs in by_model.items()}
    lines = page(measured, [run for runs in by_model.values() for run in runs])
    options.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(options.page)


if __name__ == "__main__":
    main()

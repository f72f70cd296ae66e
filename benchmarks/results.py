"""Turn the runs of `variants.py` into a page: `python benchmarks/results.py DATA RUNS.json --out docs/results/PAGE.md`.

Means over seeds with their standard deviation, intervals over seeds and users, paired differences to DRPN, and what
needs no learning beside them; noise AUC where the truth is known.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from drpn.dataset.folder import Dataset
from drpn.evaluation.bootstrap import paired
from drpn.evaluation.groups import masks
from drpn.evaluation.metrics import METRICS, Metrics, measure
from drpn.recipes.evaluate import reference_scores
from variants import VARIANTS


def joined(files: list[Path]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The runs of several calls as those of one, DRPN first, and their arrays."""
    parts = [json.loads(file.read_text()) for file in files]
    arrays = {name: values for file in files for name, values in np.load(file.with_suffix(".npz")).items()}
    runs = sorted(
        (run for part in parts for run in part["runs"]), key=lambda run: (VARIANTS.index(run["model"]), run["seed"])
    )
    commits = dict.fromkeys(part["about"]["commit"] for part in parts)
    return {"about": parts[0]["about"] | {"commit": ", ".join(commits)}, "runs": runs}, arrays


def measured(data: Dataset, runs: dict[str, Any], arrays: Any) -> dict[str, Metrics]:
    """The metrics of every system, (seeds, impressions) for those that were trained."""
    found = {}
    for model in dict.fromkeys(run["model"] for run in runs["runs"]):
        seeds = [run["seed"] for run in runs["runs"] if run["model"] == model]
        found[model] = Metrics(*(np.stack([arrays[f"{model}/{seed}/{name}"] for seed in seeds]) for name in METRICS))
    impressions = data.impressions(runs["about"]["split"])
    for name, scores in reference_scores(data, impressions).items():
        found[name] = measure(scores, impressions.clicked, impressions.offsets)
    return found


def lines(data: Dataset, runs: dict[str, Any], systems: dict[str, Metrics]) -> list[str]:
    """The page."""
    impressions = data.impressions(runs["about"]["split"])
    users = np.asarray(impressions.users)
    has_profile = ((data.clicked[:, 0] > 0) | (data.skipped[:, 0] > 0))[users]
    page = []
    for group, mask in masks(has_profile).items():
        page += [f"## {group.replace('_', ' ')}: {int(systems['chance'][mask].counted.sum()):,} impressions", ""]
        page += [
            f"| | {' | '.join(METRICS)} | AUC less DRPN's, 95 % interval |",
            "|---|" + "---:|" * (len(METRICS) + 1),
        ]
        for name, metrics in systems.items():
            part = Metrics(*(each[..., mask] for each in metrics.by_name().values()))
            cells = [_mean(each) for each in part.by_name().values()]
            against = "" if name == "drpn" else _against(part.auc, systems["drpn"].auc[:, mask], users[mask])
            page.append(f"| {name} | {' | '.join(cells)} | {against} |")
        page.append("")
    return page + _noise(runs)


def _mean(values: Any) -> str:
    if values.ndim == 1:
        return f"{np.nanmean(values):.4f}"
    by_seed = np.nanmean(values, axis=1)
    return f"{by_seed.mean():.4f} ± {by_seed.std(ddof=1):.4f}" if len(by_seed) > 1 else f"{by_seed[0]:.4f}"


def _against(first: Any, second: Any, users: Any) -> str:
    found = paired(first, second, users, np.random.default_rng(0))
    return f"{found.difference:+.4f} ({found.low:+.4f} to {found.high:+.4f})"


def _noise(runs: dict[str, Any]) -> list[str]:
    known = [run for run in runs["runs"] if run.get("noise")]
    if not known:
        return []
    page = ["## noise AUC", "", "Within a user, 0.5 being chance; the mean over seeds.", ""]
    page += ["| | sequence | denoising weights | content-based weights | TF-IDF rule |", "|---|---|---:|---:|---:|"]
    for model in dict.fromkeys(run["model"] for run in known):
        for side in ("clicked", "skipped"):
            cells = []
            for kind in ("denoise", "content", "tfidf rule"):
                found = [run["noise"][side].get(kind) for run in known if run["model"] == model]
                values = [each["auc"] for each in found if each]
                cells.append(f"{np.mean(values):.3f}" if values else "")
            page.append(f"| {model} | {side} | {' | '.join(cells)} |")
    return [*page, ""]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the dataset folder that the runs were trained on")
    parser.add_argument(
        "runs", type=Path, nargs="+", help="each a .json that variants.py wrote; its .npz must lie beside it"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", required=True)
    given = parser.parse_args()
    runs, arrays = joined(given.runs)
    given.out.with_suffix(".json").write_text(json.dumps(runs, indent=1) + "\n")
    data = Dataset.open(given.data, verify=False)
    about, first = runs["about"], runs["runs"][0]
    seeds = sorted({run["seed"] for run in runs["runs"]})
    head = [
        f"# {given.title}",
        "",
        f"Trained on {first['training']['clicks']:,} clicks, measured on the {about['split']} split; seeds {seeds}; "
        f"{', '.join(about['sets'])}, the rest as by default (size {first['settings']['size']}). {about['device']}, "
        f"commit {about['commit']}; page by `benchmarks/results.py`, commit {commit()}.",
        "",
        "± is the standard deviation over seeds; intervals draw seeds and users. Each table compares all its lines "
        "with DRPN, so that one interval in twenty misses by chance.",
        "",
    ]
    systems = measured(data, runs, arrays)
    given.out.write_text("\n".join([*head, *lines(data, runs, systems)]))


if __name__ == "__main__":
    main()

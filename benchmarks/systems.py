"""Write the page of every system's speed and memory: `python benchmarks/systems.py`, after

    python benchmarks/training.py --models all --batches 128 2048 --seconds 1 --set training.compile=false --out FOLDER
    python benchmarks/evaluation.py --models all --shapes mind --seconds 0.6 --calls 100 --out FOLDER

on a GPU, with build/bench/systems as FOLDER.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from drpn.experiments.paper import NAMES
from provenance import ROOT
from reporting import OUT

EPOCHS = 5
"""Epochs of a training at MIND-large's size, as in mind-large.toml."""
PAGE = ROOT / "docs" / "results" / "bench" / "systems" / "README.md"


def page(training: dict[str, Any], evaluation: dict[str, Any], remarks: list[str]) -> list[str]:
    """The lines of the page: one table row for each system, in the paper's order."""
    batches = sorted({run["batch"] for run in training["runs"]})
    trained = {(run["model"], run["batch"]): run for run in training["runs"]}
    evaluated = {run["model"]: run for run in evaluation["runs"]}
    machine, clicks = training["machine"], training_clicks(training["data"])
    heads = [f"training, batch {batch:,}: samples/s | MB" for batch in batches]
    heads += [f"{EPOCHS} epochs at batch {batches[0]}, s", "evaluation, impressions/s", "MB", "one user, ms"]
    lines = [
        "# Speed and memory of every system at MIND-large's shape",
        "",
        f"{machine['gpu']}, torch {machine['torch']}, commit {machine['commit']}; {', '.join(training['sets'])}. "
        "Each system ran alone on the machine, at its paper's sizes. Training: median of five repeats. Evaluation: "
        "median of one to five repeats with 37 candidates for each impression; encoding all stories is included. One "
        f"user: median time to rank 37 candidates when all stories are encoded. The seconds are {EPOCHS} epochs of "
        f"about {clicks:,.0f} clicks at the training speed, without compiling, validation and checkpoints. Page by "
        "`benchmarks/systems.py`.",
        *(line for remark in remarks for line in ("", remark)),
        "",
        f"| | {' | '.join(heads)} |",
        "|---|" + "---:|" * (2 * len(batches) + 4),
    ]
    for model in [name for name in NAMES if name in evaluated]:
        runs = [trained[model, batch] for batch in batches]
        speeds = [cell for run in runs for cell in (f"{run['samples']['per_s']:,.0f}", f"{run['peak_mb']:,}")]
        seconds = EPOCHS * clicks / runs[0]["samples"]["per_s"]
        run = evaluated[model]
        cells = [f"{seconds:,.0f}", f"{run['impressions_with_encoding']['per_s']:,.0f}", f"{run['peak_mb']:,}"]
        lines.append(f"| {NAMES[model]} | {' | '.join([*speeds, *cells, format(run['one_user']['p50_ms'], '.1f')])} |")
    return lines


def training_clicks(data: dict[str, Any]) -> float:
    """Estimate of the clicks to train on: all clicks times the share of training impressions."""
    impressions = data["impressions"]
    return float(data["clicked_samples"]) * impressions["train"] / sum(impressions.values())


def main() -> None:
    """Read both files and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numbers", type=Path, default=OUT / "systems", help="the folder with both JSON files")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--remark", action="append", default=[], help="a sentence above the table")
    options = parser.parse_args()
    training, evaluation = (
        json.loads((options.numbers / f"{name}-cuda.json").read_text(encoding="utf-8"))
        for name in ("training", "evaluation")
    )
    options.page.write_text("\n".join(page(training, evaluation, options.remark)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

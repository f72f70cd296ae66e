"""Write the page of every system's speed and memory: `python benchmarks/systems.py`, after

    python benchmarks/training.py --models all --batches 128 2048 --seconds 1 --set training.compile=false --out SYSTEMS
    python benchmarks/evaluation.py --models all --shapes mind --seconds 0.6 --calls 100 --out SYSTEMS

on a GPU, SYSTEMS being docs/results/bench/systems.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from drpn.experiments.paper import NAMES
from reporting import OUT

PASSES = 5
"""Of a training at MIND-large's size, as src/drpn/configs/mind-large.toml has it."""


def page(training: dict[str, Any], evaluation: dict[str, Any], remarks: list[str]) -> list[str]:
    """One line for each system, in the paper's order."""
    batches = sorted({run["batch"] for run in training["runs"]})
    trained = {(run["model"], run["batch"]): run for run in training["runs"]}
    measured = {run["model"]: run for run in evaluation["runs"]}
    machine, clicks = training["machine"], _clicks(training["data"])
    heads = [f"training, batch {batch:,}: samples/s | MB" for batch in batches]
    heads += [f"{PASSES} passes at batch {batches[0]}, s", "evaluation, impressions/s", "MB", "one user, ms"]
    lines = [
        "# Speed and memory of every system at MIND-large's shape",
        "",
        f"{machine['gpu']}, torch {machine['torch']}, commit {machine['commit']}; {', '.join(training['sets'])}; each "
        "system alone on the machine, at its paper's sizes. Training: the median of five repeats; evaluation: of one "
        "to five, of 37 candidates each, the encoding of all news included; one user: the median of rankings of 37 "
        f"candidates over encoded news. Seconds are those of {PASSES} passes over about {clicks:,.0f} clicks at that "
        "speed, without compiling, validation and checkpoints. Page by `benchmarks/systems.py`.",
        *(line for one in remarks for line in ("", one)),
        "",
        f"| | {' | '.join(heads)} |",
        "|---|" + "---:|" * (2 * len(batches) + 4),
    ]
    for model in [name for name in NAMES if name in measured]:
        own = [trained[model, batch] for batch in batches]
        speeds = [cell for run in own for cell in (f"{run['samples']['per_s']:,.0f}", f"{run['peak_mb']:,}")]
        seconds = PASSES * clicks / own[0]["samples"]["per_s"]
        run = measured[model]
        cells = [f"{seconds:,.0f}", f"{run['impressions_with_encoding']['per_s']:,.0f}", f"{run['peak_mb']:,}"]
        lines.append(f"| {NAMES[model]} | {' | '.join([*speeds, *cells, format(run['one_user']['p50_ms'], '.1f')])} |")
    return lines


def _clicks(data: dict[str, Any]) -> float:
    """Clicks to train on: those of the training impressions' share."""
    impressions = data["impressions"]
    return float(data["clicked_samples"]) * impressions["train"] / sum(impressions.values())


def main() -> None:
    """Read both files, write the page beside them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT / "systems")
    parser.add_argument("--remark", action="append", default=[], help="a sentence above the table")
    given = parser.parse_args()
    folder = given.out
    training, evaluation = (
        json.loads((folder / f"{name}-cuda.json").read_text(encoding="utf-8")) for name in ("training", "evaluation")
    )
    (folder / "README.md").write_text("\n".join(page(training, evaluation, given.remark)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

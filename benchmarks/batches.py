"""Compare batch sizes on a log of MIND-large's size with tastes to learn: `python benchmarks/batches.py RESULTS`.

RESULTS is a file of JSON lines, one for each finished training; trainings that it holds are not repeated, so that a
study can be spread over several calls. Every batch has the settings that it implies (`training/large_batch.py`), and
128 the best of those tried for it. AUC is that of the best epoch on the validation split. `--page` writes the table.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from drpn.progress import Lines
from drpn.recipes.settings import load_settings
from drpn.recipes.train import train
from noise_study import estimate, shown
from provenance import machine
from shape import ShapeSettings, kept_shape

TUNED_128 = [
    "training.schedule=one-cycle",
    "training.rate=5e-4",
    "training.decay=1",
    "training.epochs=3",
    "training.patience=3",
]
"""Settings for batch 128: better than the defaults, which are those of the paper's authors."""


def run(batch: int, seed: int, sets: list[str], folder: Path) -> dict[str, Any]:
    """Train once; return the curve and where it was measured."""
    sets = [f"training.batch={batch}", f"training.seed={seed}", *(TUNED_128 if batch == 128 else []), *sets]
    settings = load_settings(None, sets)
    with tempfile.TemporaryDirectory() as scratch:
        trained = train(
            folder, Path(scratch) / "run", settings=settings.model, training=settings.training, progress=Lines()
        )
        curve = [json.loads(line) for line in (trained.path / "curve.jsonl").read_text().splitlines()]
    facts = machine()
    where = {"commit": facts["commit"], "gpu": facts.get("gpu", "no GPU")}
    return {"batch": batch, "seed": seed, "auc": [point["validation_auc"] for point in curve], **where}


def write_page(results: list[dict[str, Any]], page: Path) -> None:
    """Write the table: each batch with its seeds, and its paired difference from batch 128."""
    best = {(one["batch"], one["seed"]): max(one["auc"]) for one in results}
    lines = [
        "# Batch sizes",
        "",
        "`python benchmarks/batches.py RESULTS --page PAGE`. Half a million clicks of readers with tastes, in the",
        "shape of MIND-large (`benchmarks/shape.py --tastes`; the true tastes have an AUC of 0.83). Validation AUC of",
        "the best epoch; differences are paired by seed, with 95 % intervals from Student's t over the seeds.",
        "",
        "| batch | AUC | seeds | minus batch 128 |",
        "|---:|---:|---|---:|",
    ]
    for batch in sorted({one["batch"] for one in results}):
        seeds = sorted(seed for size, seed in best if size == batch)
        values = [best[batch, seed] for seed in seeds]
        paired = [best[batch, seed] - best[128, seed] for seed in seeds if (128, seed) in best]
        difference = "" if batch == 128 or not paired else shown(estimate(np.array([paired])), sign=True)
        each = ", ".join(f"{value:.4f}" for value in values)
        lines.append(f"| {batch:,} | {sum(values) / len(values):.4f} | {each} | {difference} |")
    sources = sorted({(one["commit"], one["gpu"]) for one in results})
    lines += ["", *(f"Commit {commit}, {where}." for commit, where in sources), ""]
    page.write_text("\n".join(lines))


def main() -> None:
    """Train what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="file of JSON lines")
    parser.add_argument("--batches", type=int, nargs="*", default=[128, 2_048, 8_192])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="scale of MIND-large's shape")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--page", type=Path, help="Markdown page to write")
    options = parser.parse_args()
    text = options.results.read_text() if options.results.exists() else ""
    results = [json.loads(line) for line in text.splitlines()]
    done = {(one["batch"], one["seed"]) for one in results}
    for batch, seed in ((batch, seed) for seed in range(options.seeds) for batch in options.batches):
        if (batch, seed) in done:
            continue
        folder = kept_shape(ShapeSettings(tastes=True).scaled(options.scale)).path
        results.append(run(batch, seed, options.sets, folder))
        with options.results.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
    if options.page:
        write_page(results, options.page)


if __name__ == "__main__":
    main()

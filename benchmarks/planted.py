"""Measure what planted feedback costs: `python benchmarks/planted.py`.

Trains DRPN with and without planted feedback, and `drpn-planted`, on the same data, in turn, and prints samples per
second and the speed relative to plain DRPN. Also measures planted passes of `drpn-planted` alone, in readers per
second. Warm-up steps, which include compiling, are not timed.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.batches.planted import profile_plan
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.models.base import ClickModel
from drpn.recipes.settings import Settings, load_settings
from drpn.training import steps
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from measuring import Peak, choose, network, rate, significant, synchronise
from reporting import OUT, leave, table
from shape import ShapeSettings, kept_shape
from training import WARM, measure

PLAIN, BEST = "drpn", "drpn-planted"
VECTORS, LABELS = "training.planted_trains=vectors", "training.planted_trains=labels"
KINDS: dict[str, tuple[str, list[str]]] = {
    PLAIN: (PLAIN, []),
    "drpn, planted from skips": (PLAIN, ["training.planted=1", "training.planted_from=skips", VECTORS]),
    "drpn, planted from others": (PLAIN, ["training.planted=1", "training.planted_from=others", VECTORS]),
    "drpn-planted, trains vectors": (BEST, [VECTORS]),
    "drpn-planted, trains labels": (BEST, [LABELS]),
}
"""The measured trainings: name, model and settings."""
PASSES = {"passes that train vectors": VECTORS, "passes that train labels": LABELS}
"""The measured planted passes of `drpn-planted`, by name."""


def pass_steps(model: ClickModel, tables: Tables, settings: TrainingSettings) -> Iterator[int]:
    """Each `next` takes one step of a planted pass and yields its number of readers."""
    step = steps.choose_stepper(model, tables, build_optimiser(model, settings), settings, clicks=False)
    model.train()
    for number in itertools.count():
        plan = profile_plan(tables, settings.seed, number)
        step.prepare(plan)
        for samples in step.batches(plan):
            step(samples)
            yield samples.size


def measure_passes(settings: Settings, dataset: Dataset, device: torch.device, **options: Any) -> dict[str, Any]:
    """Speed and memory of planted passes."""
    training, peak = replace(settings.training, batch=options["batch"], planted_passes=1), Peak(device)
    model, tables = network(BEST, settings.model, dataset, device)
    taken = pass_steps(model, tables, training)
    start = time.perf_counter()
    for _ in range(options["warm"]):
        next(taken)
    synchronise(device)
    first = time.perf_counter() - start
    speed, step = rate(lambda: next(taken), device, seconds=options["seconds"])
    return {
        "batch": options["batch"],
        "samples": speed.rounded(),
        "warm_up_s": significant(first),
        "step_ms": significant(step * 1e3),
        "peak_mb": peak.megabytes(),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a dataset folder; default: generated at MIND-large's shape")
    parser.add_argument("--scale", type=float, default=1.0, help="scale of the generated folder")
    parser.add_argument("--batch", type=int, default=2_048)
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured, in turn")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each measurement, without warm-up")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    device = choose(options.device)
    dataset = Dataset.open(options.data) if options.data else kept_shape(ShapeSettings().scaled(options.scale))
    how = {"batch": options.batch, "warm": WARM[device.type], "seconds": options.seconds}
    rows: list[dict[str, Any]] = []
    for _ in range(options.rounds):
        for kind, (name, sets) in KINDS.items():
            settings = load_settings(None, [*options.sets, *sets], model=name)
            rows.append(measure(name, settings, dataset, device, **how) | {"kind": kind})
            print(rows[-1], flush=True)
            torch.compiler.reset()
    for kind, part in PASSES.items():
        settings = load_settings(None, [*options.sets, part], model=BEST)
        rows.append(measure_passes(settings, dataset, device, **how) | {"kind": kind})
        torch.compiler.reset()
    done = [row for row in rows if "samples" in row]
    speed = {
        kind: float(np.median([row["samples"]["per_s"] for row in done if row["kind"] == kind]))
        for kind in dict.fromkeys(row["kind"] for row in done)
    }
    relative = {kind: round(value / speed[PLAIN], 3) for kind, value in speed.items() if kind in KINDS}
    print()
    table(
        ["", "batch", "samples/s", "slowest", "fastest", "step ms", "peak MB", "relative"],
        [[row["kind"], row["batch"], row["samples"]["per_s"], *row["samples"]["range"], row["step_ms"], row["peak_mb"],
          relative.get(row["kind"])] for row in done],
    )  # fmt: skip
    facts = {
        "device": device.type,
        "sets": options.sets,
        "data": dataset.statistics,
        "runs": rows,
        "relative": relative,
    }
    leave(f"planted-{device.type}", facts, [], options.out)


if __name__ == "__main__":
    main()

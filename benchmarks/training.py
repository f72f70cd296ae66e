"""Measure training speed and memory: `python benchmarks/training.py`.

Reports samples per second (a sample is a click with its negatives) for each model and batch size, on a GPU if there is
one. Warm-up steps, which include compiling, are not timed. Then as many steps as `--seconds` allows are timed in
repeats; the output has their median, slowest and fastest.

`torchrun --nproc-per-node 2 benchmarks/training.py` measures processes that train together; the batch size is that of
all of them. With `--set training.record=false` their steps are not captured.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from drpn.batches.samples import Clicks, Sampler
from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset
from drpn.models.base import ClickModel
from drpn.ranks import current
from drpn.recipes.settings import Settings, load_settings
from drpn.training import steps
from drpn.training.memory import keep_freed_memory
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings
from drpn.training.shared import SharedModel
from drpn.training.shared_captured import choose_shared_stepper
from measuring import Peak, available, choose, network, rate, significant, synchronise, threads
from reporting import OUT, Panel, leave, table
from shape import ShapeSettings, kept_shape

BATCHES = {"cpu": [32, 128], "cuda": [128, 512, 2_048, 8_192]}
WARM = {"cpu": 1, "cuda": 10}


def training_steps(model: ClickModel, tables: Tables, sampler: Sampler, settings: TrainingSettings) -> Iterator[int]:
    """Each `next` takes one training step, as the training loop does, and yields its number of samples."""
    optimiser, ranks = build_optimiser(model, settings), current()
    step: steps.Stepper
    if ranks.together:
        step = choose_shared_stepper(SharedModel(model, ranks), tables, optimiser, settings)
    else:
        step = steps.choose_stepper(model, tables, optimiser, settings)
    model.train()
    for epoch in itertools.count():
        plan = sampler.plan(epoch)
        step.prepare(plan)
        for samples in step.batches(plan):
            step(samples)
            yield samples.size


def measure(
    name: str, settings: Settings, dataset: Dataset, device: torch.device, *, batch: int, warm: int, seconds: float
) -> dict[str, Any]:
    """Speed and memory of one model at one batch size."""
    training, row = replace(settings.training, batch=batch), {"model": name, "batch": batch}
    peak = Peak(device)
    try:
        model, tables = network(name, settings.model, dataset, device)
        clicks = Clicks.from_impressions(dataset.impressions("train"), device)
        taken = training_steps(
            model, tables, Sampler(clicks, tables, batch, training.negatives, training.seed), training
        )
        start = time.perf_counter()
        for _ in range(warm):
            next(taken)
        synchronise(device)
        first = time.perf_counter() - start
        speed, step = rate(lambda: next(taken), device, seconds=seconds)
    except torch.OutOfMemoryError:
        return row | {"out_of_memory": True}
    return row | {
        "samples": speed.rounded(),
        "warm_up_s": significant(first),
        "step_ms": significant(step * 1e3),
        "peak_mb": peak.megabytes(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a dataset folder; default: generated at MIND-large's shape")
    parser.add_argument("--scale", type=float, default=1.0, help="scale of the generated folder")
    parser.add_argument("--models", nargs="+", default=["drpn", "nrms"])
    parser.add_argument("--batches", nargs="+", type=int, help="default: 32 and 128 on a CPU, 128 to 8,192 on a GPU")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", type=int, help="CPU threads; default: all")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each model and batch size, without warm-up")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    ranks = current()
    ranks.join()
    device = choose(options.device)
    dataset = Dataset.open(
        options.data or ranks.from_first(lambda: kept_shape(ShapeSettings().scaled(options.scale)).path)
    )
    rows = []
    with threads(options.threads), keep_freed_memory() if device.type == "cpu" else nullcontext():
        for name in available(options.models):
            settings = load_settings(None, options.sets, model=name)
            for batch in options.batches or BATCHES[device.type]:
                row = measure(name, settings, dataset, device, batch=batch, warm=WARM[device.type],
                              seconds=options.seconds)  # fmt: skip
                rows.append(row)
                if ranks.first:
                    print(row, flush=True)
        facts = {"device": device.type, "threads": torch.get_num_threads(), "sets": options.sets,
                 "data": dataset.statistics, "runs": rows}  # fmt: skip
    ranks.leave()
    if not ranks.first:
        return
    print()
    done = [row for row in rows if "samples" in row]
    table(
        ["model", "batch", "samples/s", "slowest", "fastest", "step ms", "warm-up s", "peak MB"],
        [[row["model"], row["batch"], row["samples"]["per_s"], *row["samples"]["range"], row["step_ms"],
          row["warm_up_s"], row["peak_mb"]] for row in done],
    )  # fmt: skip
    lines = {name: [row for row in done if row["model"] == name] for name in available(options.models)}
    leave(
        f"training-{device.type}" + (f"-{ranks.size}-processes" if ranks.together else ""),
        facts,
        [
            Panel("batch size", "samples/s", {
                name: [(row["batch"], row["samples"]["per_s"]) for row in own] for name, own in lines.items()}),
            Panel("batch size", "peak MB", {
                name: [(row["batch"], row["peak_mb"]) for row in own] for name, own in lines.items()}),
        ],
        options.out,
    )  # fmt: skip


if __name__ == "__main__":
    main()

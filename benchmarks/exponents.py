"""How cost grows with impressions, users, stories and candidates: `python benchmarks/exponents.py`.

Doubles one size at a time. The exponent is the slope of the logarithms: 1 is linear growth, 0 none. Cost is processor
time, which other work on the machine affects least: evaluation and training steps on one thread, `drpn prepare` in its
own process with all its threads and its start-up.
"""

import argparse
import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.batches.samples import Clicks, Sampler
from drpn.dataset.arrays import Strings
from drpn.dataset.folder import Dataset, Impressions
from drpn.evaluation.scoring import score_impressions
from drpn.models.encode import encode_all
from drpn.progress import Silent
from drpn.recipes.settings import load_settings
from measuring import available, network, significant, slope, threads
from prepare import measure, write_logs
from reporting import OUT, Panel, leave, table
from shape import ShapeSettings, kept_shape, write_shape
from training import training_steps

CPU = torch.device("cpu")
BASE = ShapeSettings(news=16_000, vocabulary=8_000, users=8_000, impressions=4_000, validation=100, test=100)
"""The data for evaluation and training; the logs for `drpn prepare` are of similar size."""
LOGS = {"impressions": 50_000, "candidates": 20, "news": 4_000, "users": 4_000}
BATCH = 32
DOUBLED = 4
"""Values of a sweep; the exponent uses the three largest, where fixed costs matter least."""

Run = Callable[[], float]
"""Does the work once and returns its seconds."""


@dataclass(frozen=True)
class Sweep:
    """One cost against one size."""

    cost: str
    varied: str
    values: list[int]
    make: Callable[[int], Run]
    rounds: int = 5
    """Repeats; each goes through all values, so a slow moment affects all of them."""


def doubled(first: int) -> list[int]:
    """The values of a sweep."""
    return [first << place for place in range(DOUBLED)]


def shown(dataset: Dataset, *, impressions: int, users: int, candidates: int) -> Impressions:
    """Random impressions of these sizes."""
    rng = np.random.default_rng(0)
    readers = np.concatenate([np.arange(users), rng.integers(0, users, max(impressions - users, 0))])[:impressions]
    flat = rng.integers(1, len(dataset.news_ids), impressions * candidates, dtype=np.int32)
    return Impressions(
        ids=Strings.of([]),
        users=rng.permutation(readers + 1).astype(np.int32),
        times=np.zeros(impressions, "datetime64[us]"),
        offsets=np.arange(impressions + 1) * candidates,
        candidates=flat,
        clicked=np.arange(len(flat)) % candidates == 0,
        extras={},
    )


def evaluation_sweeps(name: str) -> Iterator[Sweep]:
    """Scoring with encoded stories, and encoding stories."""
    dataset = kept_shape(BASE)
    model, tables = network(name, load_settings(model=name).model, dataset, CPU)
    model.eval()
    with torch.no_grad():
        encoded = encode_all(model, tables.news)

    def scoring(**sizes: int) -> Run:
        part = shown(dataset, **({"impressions": 500, "users": 500, "candidates": 37} | sizes))
        return lambda: timed(lambda: score_impressions(model, tables, part, Silent(), encoded=encoded))

    @torch.no_grad()
    def encode(news: int) -> None:
        encode_all(model, tables.news[:news])

    cost = f"{name}, scoring"
    yield Sweep(cost, "impressions", doubled(250), lambda value: scoring(impressions=value, users=value))
    yield Sweep(cost, "users", doubled(60), lambda value: scoring(users=value))
    yield Sweep(cost, "candidates", doubled(20), lambda value: scoring(candidates=value))
    yield Sweep(f"{name}, encoding", "news", doubled(2_000), lambda value: lambda: timed(lambda: encode(value)))


def training_sweeps(name: str, scratch: Path) -> Iterator[Sweep]:
    """One training step on data of different sizes."""

    def step(**sizes: int) -> Run:
        folder = scratch / "-".join([name, *(f"{key}-{value}" for key, value in sizes.items())])
        dataset = write_shape(folder, replace(BASE, **sizes))
        settings = load_settings(None, [f"training.batch={BATCH}"], model=name)
        model, tables = network(name, settings.model, dataset, CPU)
        clicks = Clicks.from_impressions(dataset.impressions("train"), CPU)
        steps = training_steps(model, tables, Sampler(clicks, tables, BATCH, 4, 0), settings.training)
        return lambda: timed(lambda: next(steps))

    cost = f"{name}, a step of {BATCH}"
    yield Sweep(cost, "news", doubled(8_000), lambda value: step(news=value), rounds=3)
    yield Sweep(cost, "users", doubled(8_000), lambda value: step(users=value), rounds=3)


def prepare_sweeps(scratch: Path) -> Iterator[Sweep]:
    """`drpn prepare`."""

    def preparing(varied: str, value: int) -> Run:
        logs, out = scratch / f"{varied}-{value}", scratch / "dataset"
        write_logs(logs, **(LOGS | {varied: value}), seed=0)

        def run() -> float:
            shutil.rmtree(out, ignore_errors=True)
            return measure(logs, out, "2GB")["cpu_seconds"]

        return run

    for varied, first in LOGS.items():
        yield Sweep(
            "prepare", varied, doubled(first)[1:], lambda value, varied=varied: preparing(varied, value), rounds=1
        )


def timed(run: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measured(sweep: Sweep, seconds: float) -> dict[str, Any]:
    """Times at each value and the exponent; starts no further round after `seconds`."""
    runs = {value: sweep.make(value) for value in sweep.values}
    if sweep.rounds > 1:
        for run in runs.values():
            run()
    begin = time.perf_counter()
    rounds: list[list[float]] = []
    while len(rounds) < sweep.rounds and (not rounds or time.perf_counter() - begin < seconds):
        rounds.append([run() for run in runs.values()])
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    slopes = [slope(sweep.values[-3:], times[-3:]) for times in rounds]
    return {
        "cost": sweep.cost,
        "varied": sweep.varied,
        "values": sweep.values,
        "seconds": [significant(median) for median in medians],
        "exponent": slope(sweep.values[-3:], medians[-3:]),
        "of_single_rounds": [min(slopes), max(slopes)],
        "rounds": len(rounds),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["drpn", "nrms"])
    parser.add_argument("--parts", nargs="+", default=["evaluation", "training", "prepare"])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each sweep, without its first round")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    # threads that wait for each other also use processor time
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = []
    with threads(1), tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sweeps = [evaluation_sweeps(name) for name in available(options.models) if "evaluation" in options.parts]
        sweeps += [training_sweeps(name, scratch) for name in available(options.models) if "training" in options.parts]
        sweeps += [prepare_sweeps(scratch)] if "prepare" in options.parts else []
        for sweep in itertools.chain.from_iterable(sweeps):
            rows.append(measured(sweep, options.seconds))
            print(rows[-1], flush=True)
    print()
    table(
        ["cost", "grows with", "from", "to", "exponent", "lowest", "highest", "CPU s at largest"],
        [[row["cost"], row["varied"], row["values"][-3], row["values"][-1], f"{row['exponent']:.2f}",
          *(f"{exponent:.2f}" for exponent in row["of_single_rounds"]), row["seconds"][-1]] for row in rows],
    )  # fmt: skip
    panels = [
        Panel("stories" if varied == "news" else varied, "seconds of processor time", {
            f"{row['cost']}: {row['exponent']:.2f}": list(zip(row["values"], row["seconds"], strict=True))
            for row in rows if row["varied"] == varied
        })
        for varied in dict.fromkeys(row["varied"] for row in rows)
    ]  # fmt: skip
    leave("exponents", {"base": {"shape": asdict(BASE), "logs": LOGS}, "runs": rows}, panels, options.out)


if __name__ == "__main__":
    main()

"""Compare the speed of two source trees: `python benchmarks/side_by_side.py OTHER`.

OTHER is the root of another checkout, for instance of an earlier commit. Each tree runs in its own process, with its
own `src` and `benchmarks`. The two take turns in every measurement, so that a slow moment of the machine affects both.
The result is the ratio of this tree's speed to the other's: the median, smallest and largest of the repeats.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch  # noqa: F401 (the page names the GPU)

from drpn.provenance import machine
from shape import ShapeSettings, kept_shape

ROOT = Path(__file__).parents[1]

WORKER = """
import json, sys, time
from dataclasses import replace
from pathlib import Path
import torch
import training
from drpn.batches.samples import Clicks, Sampler
from drpn.dataset.folder import Dataset
from drpn.evaluation.scoring import score_on_device
from drpn.progress import Silent
from drpn.recipes.settings import load_settings
from measuring import network

asked = json.loads(sys.argv[1])
device = torch.device(asked["device"])
torch.set_num_threads(asked["threads"])
dataset = Dataset.open(Path(asked["data"]), verify=False)
impressions = dataset.impressions("test")
take_steps = getattr(training, "training_steps", None) or training.stepper
load_clicks = getattr(Clicks, "from_impressions", None) or Clicks.of


def synchronise():
    if device.type == "cuda":
        torch.cuda.synchronize()


def prepare(name, batch):
    settings = load_settings(None, asked["sets"], model=name)
    model, tables = network(name, settings.model, dataset, device)
    if batch is None:
        def run():
            score_on_device(model, tables, impressions, Silent())
            return len(impressions)
        return run
    chosen = replace(settings.training, batch=batch)
    clicks = load_clicks(dataset.impressions("train"), device)
    steps = take_steps(model, tables, Sampler(clicks, tables, batch, chosen.negatives, chosen.seed), chosen)
    return lambda: next(steps)


jobs = {}
for name, batch in asked["jobs"]:
    run = prepare(name, batch)
    for _ in range(asked["warm"] if batch else 1):
        run()
    synchronise()
    start = time.perf_counter()
    run()
    synchronise()
    once = time.perf_counter() - start
    jobs[name, batch] = run, max(1, int(asked["seconds"] / once))
    print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    name, batch = json.loads(line)
    run, calls = jobs[name, batch]
    synchronise()
    start = time.perf_counter()
    done = sum(run() for _ in range(calls))
    synchronise()
    print(json.dumps(done / (time.perf_counter() - start)), flush=True)
"""


class Worker:
    """Measures one tree in a separate process."""

    def __init__(self, root: Path, asked: dict[str, Any]) -> None:
        path = [root / "src", root / "benchmarks"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))},
        )

    def receive(self) -> Any:
        """The next answer of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a tree could not be measured; see its error above")
        return json.loads(line)

    def measure(self, job: tuple[str, int | None]) -> float:
        """Measure a job and return samples or impressions per second."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return float(self.receive())

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="root of the other tree")
    parser.add_argument("--models", nargs="+", default=["drpn", "nrms"])
    parser.add_argument(
        "--batches", nargs="*", type=int, default=[128, 2_048], help="batch sizes for training; none: only evaluation"
    )
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--scale", type=float, default=1.0, help="scale of MIND-large's shape")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no further repeat begins")
    parser.add_argument("--warm", type=int, default=10, help="training steps before measuring")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--name", default="the other tree", help="how the page calls the other tree, such as its commit"
    )
    parser.add_argument("--page", type=Path, help="Markdown page to write")
    options = parser.parse_args()
    jobs = [(name, batch) for name in options.models for batch in (*options.batches, None)]
    asked = {key: getattr(options, key) for key in ("device", "threads", "scale", "seconds", "warm", "sets")}
    asked["data"] = str(kept_shape(ShapeSettings().scaled(options.scale)).path)
    workers = [Worker(root, asked | {"jobs": jobs}) for root in (ROOT, options.other)]
    for worker in workers:  # both compile at the same time
        for _ in jobs:
            worker.receive()
    speeds: dict[tuple[str, int | None], list[list[float]]] = {job: [] for job in jobs}
    start = time.monotonic()
    for repeat in range(options.repeats):
        if time.monotonic() - start > options.limit:
            break
        for job in jobs:
            order = (0, 1) if repeat % 2 else (1, 0)
            pair = {which: workers[which].measure(job) for which in order}
            speeds[job].append([pair[0], pair[1]])
    for worker in workers:
        worker.stop()
    rows = []
    for (name, batch), pairs in speeds.items():
        ratios = [this / other for this, other in pairs]
        rows.append(
            {
                "model": name,
                "what": "evaluation" if batch is None else f"training, batch {batch}",
                "this": round(statistics.median(this for this, _ in pairs), 1),
                "other": round(statistics.median(other for _, other in pairs), 1),
                "ratio": round(statistics.median(ratios), 3),
                "range": [round(min(ratios), 3), round(max(ratios), 3)],
            }
        )
        print("{model:6} {what:22} this {this:>12,} other {other:>12,} ratio {ratio} {range}".format(**rows[-1]))
    if options.page:
        options.page.write_text(_page(rows, options.name, len(speeds[jobs[0]]), options.scale), encoding="utf-8")


def _page(rows: list[dict[str, Any]], other: str, repeats: int, scale: float) -> str:
    about = machine()
    hardware = about.get("gpu", f"{about['processor']}, {about['cores']} cores")
    cells = (
        f"| {row['model']} | {row['what']} | {row['this']:,.0f} | {row['other']:,.0f} | {row['ratio']:.3f} | "
        f"{row['range'][0]:.3f} to {row['range'][1]:.3f} |"
        for row in rows
    )
    return f"""# Speed of two source trees, side by side

This tree: commit {about["commit"]}. The other: {other}. {hardware}, PyTorch {about["torch"]}.
Data: {scale:g} times MIND-large's shape. Every measurement was taken {repeats} times, by the two trees in turn.
Samples or impressions per second are medians; so is the ratio, which is shown with its range.

| model | what | this | other | ratio | range |
|---|---|---:|---:|---:|---:|
{chr(10).join(cells)}

Written by `python benchmarks/side_by_side.py OTHER --page FILE`.
"""


if __name__ == "__main__":
    main()

"""Profile a training step and an evaluation on a GPU: `python benchmarks/parts.py`.

Reports the time of kernels, summed by their purpose, and the ten longest kernels.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from drpn.batches.samples import Clicks, Sampler
from drpn.dataset.folder import Dataset
from drpn.evaluation.scoring import score_on_device
from drpn.progress import Silent
from drpn.recipes.settings import load_settings
from measuring import network, significant
from reporting import OUT, leave, table
from shape import ShapeSettings, kept_shape
from training import WARM, training_steps

PARTS = {
    "fused by the compiler": r"^triton_",
    "sums of gradients by row": r"segment_sum",
    "self-attention": r"_attention_(forward|backward)",
    "denoising": r"_similarities",
    "scores of candidates": r"_fused_scores",
    "optimiser": r"[Aa]dam",
    "matrix products": r"gemm|cutlass|nvjet|xmma|cublas|gemv|splitK|sm90_|sm80_",
    "sorting, distinct stories": r"[Ss]ort|[Rr]adix|scan|scatter|reduce_by_key|DeviceSelect|index_fill",
    "row look-ups": r"gather|index_elementwise|indexSelect|embedding",
    "random numbers": r"philox|random|distribution|bernoulli|_rand",
    "copies": r"[Mm]emcpy|[Mm]emset|copy|[Ff]ill",
}
LONGEST = 10


def part_of(kernel: str) -> str:
    """The purpose of a kernel, by its name."""
    return next((part for part, pattern in PARTS.items() if re.search(pattern, kernel)), "other")


def kernels(run: Callable[[], object], times: int) -> dict[str, Any]:
    """Milliseconds of one run by part and by kernel, and its time without the profiler."""
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    whole = (time.perf_counter() - start) / times * 1e3
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(times):
            run()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for event in seen.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent[event.name] += event.self_device_time_total / times / 1e3
            counts[event.name] += 1
    parts: Counter[str] = Counter()
    for name, milliseconds in spent.items():
        parts[part_of(name)] += milliseconds
    return {
        "ms": significant(whole),
        "kernels_ms": significant(sum(spent.values())),
        "kernels": round(sum(counts.values()) / times),
        "parts": {name: significant(value) for name, value in parts.most_common()},
        "longest": [
            {"kernel": name[:160], "ms": significant(value), "calls": round(counts[name] / times, 1)}
            for name, value in spent.most_common(LONGEST)
        ],
    }


def step_parts(name: str, dataset: Dataset, batch: int, sets: list[str]) -> dict[str, Any]:
    """Profile of one training step."""
    device = torch.device("cuda")
    settings = load_settings(None, sets, model=name)
    training = replace(settings.training, batch=batch)
    model, tables = network(name, settings.model, dataset, device)
    clicks = Clicks.from_impressions(dataset.impressions("train"), device)
    taken = training_steps(model, tables, Sampler(clicks, tables, batch, training.negatives, training.seed), training)
    for _ in range(WARM["cuda"]):
        next(taken)
    return kernels(lambda: next(taken), 10)


def evaluation_parts(name: str, dataset: Dataset, sets: list[str]) -> dict[str, Any]:
    """Profile of encoding all stories and scoring the test split."""
    device = torch.device("cuda")
    model, tables = network(name, load_settings(None, sets, model=name).model, dataset, device)
    return kernels(lambda: score_on_device(model, tables, dataset.impressions("test"), Silent()), 2)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["drpn", "nrms"])
    parser.add_argument("--batches", nargs="+", type=int, default=[2_048])
    parser.add_argument("--no-evaluation", action="store_true")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU found; this program measures GPU kernels")
    dataset = kept_shape(ShapeSettings())
    runs = []
    for name in options.models:
        runs += [
            {"model": name, "what": f"step of {batch:,}", **step_parts(name, dataset, batch, options.sets)}
            for batch in options.batches
        ]
        if not options.no_evaluation:
            runs.append({"model": name, "what": "evaluation", **evaluation_parts(name, dataset, options.sets)})
    for run in runs:
        print(f"\n{run['model']}, {run['what']}: {run['ms']} ms, {run['kernels']} kernels of {run['kernels_ms']} ms")
        table(["part", "ms"], [[part, value] for part, value in run["parts"].items()])
        for kernel in run["longest"]:
            print(f"  {kernel['ms']:8.3f} ms {kernel['calls']:6} x {kernel['kernel']}")
    leave("parts-cuda", {"sets": options.sets, "runs": runs}, [], options.out)


if __name__ == "__main__":
    main()

"""Measure evaluation and ranking speed: `python benchmarks/evaluation.py`.

Reports for each model, data shape and number of threads: stories encoded per second; impressions of 37 candidates
scored per second, without and with encoding all stories; and the time to rank 37 candidates for one user. The shape
`library` has the defaults of public libraries: titles of 20 words and 50 clicked stories, with every profile full.
"""

import argparse
import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.batches.tables import Tables
from drpn.dataset.folder import Dataset, Impressions
from drpn.evaluation.scoring import score_impressions
from drpn.models.base import ClickModel
from drpn.models.encode import encode_all
from drpn.progress import Silent
from drpn.recipes.settings import load_settings
from measuring import Peak, available, choose, network, percentiles, rate, threads
from reporting import OUT, Panel, leave, table
from shape import ShapeSettings, kept_shape

TEST = 338_824
"""The paper's test set: the last 90 % of the 376,471 impressions of MIND-large's dev part."""
SHAPES = {
    "mind": ShapeSettings(fixed=True, test=TEST),
    "library": ShapeSettings(fixed=True, test=TEST, words=20, clicked=50, full=True),
}
WORDS = ShapeSettings().vocabulary
"""Vocabulary at every scale: a smaller word table would fit the processor's cache."""
LIBRARY = ("nrms", "library")
"""The model and shape for which other libraries have published numbers."""


def shaped(shape: str, scale: float) -> Dataset:
    """The dataset folder of a shape at a scale."""
    return kept_shape(dataclasses.replace(SHAPES[shape].scaled(scale), vocabulary=WORDS))


@torch.no_grad()
def measure(
    model: ClickModel, tables: Tables, impressions: Impressions, *, seconds: float, calls: int
) -> dict[str, Any]:
    """Stories and impressions per second, and the latency of one ranking."""
    model.eval()
    device = tables.clicked.device
    peak = Peak(device)

    def encode() -> int:
        encode_all(model, tables.news)
        return len(tables.news)

    def score(encoded: Any | None = None) -> int:
        score_impressions(model, tables, impressions, Silent(), encoded=encoded)
        return len(impressions)

    news, _ = rate(encode, device, seconds=seconds, warm=1)
    encoded = encode_all(model, tables.news)
    scored, _ = rate(partial(score, encoded), device, seconds=seconds, warm=device.type == "cuda")
    latency = _latency(model, tables, impressions, encoded, seconds=seconds, calls=calls)
    del encoded
    everything, _ = rate(score, device, seconds=seconds)
    return {
        "news_encoded": news.rounded(),
        "impressions_scored": scored.rounded(),
        "impressions_with_encoding": everything.rounded(),
        "one_user": latency,
        "peak_mb": peak.megabytes(),
    }


def _latency(
    model: ClickModel, tables: Tables, impressions: Impressions, encoded: Any, *, seconds: float, calls: int
) -> dict[str, float]:
    """Latency of ranking one user's candidates, from row numbers to their order; all stories are already encoded."""
    device = tables.clicked.device
    users, offsets, flat = (np.array(part) for part in (impressions.users, impressions.offsets, impressions.candidates))

    def rank(number: int) -> list[int]:
        which = number % len(users)
        candidates = torch.from_numpy(flat[offsets[which] : offsets[which + 1]][None]).to(device)
        batch = tables.batch(torch.tensor([users[which]], device=device), candidates)
        order: list[int] = model.score(encoded, batch.of_all_stories())[0].argsort(descending=True).tolist()
        return order

    return percentiles(rank, device, seconds=seconds, most=calls)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a dataset folder; default: generated, of each shape")
    parser.add_argument("--scale", type=float, help="scale of MIND-large's shape; default: 0.05 on a CPU, 1 on a GPU")
    parser.add_argument("--models", nargs="+", default=["drpn", "nrms"])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="CPU threads")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each number")
    parser.add_argument("--calls", type=int, default=1_000, help="upper limit of timed rankings")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    device = choose(options.device)
    scale = options.scale or (0.05 if device.type == "cpu" else 1.0)
    rows, data = [], {}
    names = available(options.models)
    cases = [(name, "data" if options.data else "mind") for name in names]
    cases += [LIBRARY] if "nrms" in names and not options.data else []
    for name, shape in cases:
        if not options.data and shape not in options.shapes:
            continue
        dataset = Dataset.open(options.data) if options.data else shaped(shape, scale)
        data[shape] = dataset.statistics | {"settings": dataset.manifest["settings"]}
        model, tables = network(name, load_settings(None, options.sets, model=name).model, dataset, device)
        for count in options.threads if device.type == "cpu" else [None]:
            # a GPU evaluates in bf16
            with threads(count), torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):
                speeds = measure(
                    model, tables, dataset.impressions("test"), seconds=options.seconds, calls=options.calls
                )
            rows.append({"model": name, "shape": shape, "threads": count, **speeds})
            print(rows[-1], flush=True)
    print()
    table(
        ["model", "shape", "threads", "stories/s", "impressions/s", "with encoding", "user ms", "p95 ms", "peak MB"],
        [[row["model"], row["shape"], row["threads"], row["news_encoded"]["per_s"], row["impressions_scored"]["per_s"],
          row["impressions_with_encoding"]["per_s"], row["one_user"]["p50_ms"], row["one_user"]["p95_ms"],
          row["peak_mb"]] for row in rows],
    )  # fmt: skip
    leave(f"evaluation-{device.type}", {"device": device.type, "sets": options.sets, "data": data, "runs": rows},
          panels(rows), options.out)  # fmt: skip


def panels(rows: list[dict[str, Any]]) -> list[Panel]:
    """Panels of rates and latency against the number of threads."""
    names = list(dict.fromkeys(f"{row['model']}, {row['shape']}" for row in rows))

    def lines(part: str, key: str) -> dict[str, list[tuple[float, float]]]:
        return {
            name: [(row["threads"] or 1, row[part][key]) for row in rows if f"{row['model']}, {row['shape']}" == name]
            for name in names
        }

    return [
        Panel("threads", "stories encoded/s", lines("news_encoded", "per_s")),
        Panel("threads", "impressions/s, encoding included", lines("impressions_with_encoding", "per_s")),
        Panel("threads", "ms to rank for one user, p95", lines("one_user", "p95_ms")),
    ]


if __name__ == "__main__":
    main()

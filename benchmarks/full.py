"""Time a whole training of the paper's size, from a dataset folder to a bundle: `python benchmarks/full.py`.

MIND-large's shape: half a million clicks an epoch, five epochs, validation and a checkpoint after each, compiling
included. The generated data contain nothing to learn; only the time matters.
"""

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path

import torch

from drpn.progress import Lines
from drpn.recipes.settings import load_settings
from drpn.recipes.train import train
from measuring import significant
from reporting import OUT, leave, table
from shape import ShapeSettings, kept_shape

SETS = ["training.epochs=5", "training.patience=5", "training.batch=2048"]


def main() -> None:
    """Train, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="drpn")
    parser.add_argument("--scale", type=float, default=1.0, help="scale of MIND-large's shape")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    dataset = kept_shape(ShapeSettings().scaled(options.scale))
    settings = load_settings(None, [*SETS, *options.sets], model=options.model)
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        run = train(dataset.path, Path(scratch) / "run", model=options.model, settings=settings.model,
                    training=settings.training, progress=Lines())  # fmt: skip
        seconds = time.perf_counter() - start
        curve = [json.loads(line) for line in (run.path / "curve.jsonl").read_text().splitlines()]
        clicks = run.bundle().manifest["training"]["clicks"]
    epochs = [curve[0]["seconds"], *(b["seconds"] - a["seconds"] for a, b in itertools.pairwise(curve))]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    facts = {
        "device": device,
        "model": options.model,
        "sets": [*SETS, *options.sets],
        "clicks": clicks,
        "seconds": significant(seconds),
        "epochs_s": [significant(epoch) for epoch in epochs],
        "rest_s": significant(seconds - sum(epochs)),
        "data": dataset.statistics,
    }
    table(["what", "s"], [["whole", seconds], *([f"epoch {n}", epoch] for n, epoch in enumerate(epochs, start=1)),
                          ["opening, validation, checkpoints, bundle", seconds - sum(epochs)]])  # fmt: skip
    leave(f"full-{device}", facts, [], options.out)


if __name__ == "__main__":
    main()

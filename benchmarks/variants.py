"""DRPN and its five ablations on one dataset folder, several seeds: `python benchmarks/variants.py DATA --out FILE`.

Trains each, measures each on the test split, and writes one JSON file with the table, the paired differences to DRPN,
and the settings. Per-impression metrics of every run lie beside it as `.npz`, so that several calls can be joined:
runs that the file already holds are not repeated.
"""

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from drpn.models.encoded import at_positions

from drpn.batches.tables import Tables
from drpn.bundle.files import pick_device
from drpn.dataset.folder import Dataset
from drpn.evaluation.metrics import measure
from drpn.evaluation.scoring import score_impressions
from drpn.layers import attention, gather
from drpn.models import drpn
from drpn.models.drpn import Drpn
from drpn.progress import Lines, Silent
from drpn.recipes.noise import measure_noise
from drpn.recipes.settings import load_settings
from drpn.recipes.train import train
from provenance import machine

VARIANTS = ["drpn", "drpn-d", "drpn-g", "drpn-dg", "drpn-n", "drpn-p"]


def without_kernels() -> None:
    """From now on the plain formulations alone, also on a GPU."""
    attention.fits_kernels = lambda *_: False
    gather.segment_sum = gather.plain_segment_sum
    drpn.View.score_quickly = lambda view, rows, readers, at: (
        view.match(readers, *at_positions((rows.plain, rows.candidate), at)).score
    )


def one_run(data: Path, model: str, seed: int, sets: list[str], split: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train and measure; gives facts for JSON, and arrays."""
    settings = load_settings(None, [*sets, f"training.seed={seed}"], model=model)
    shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=shared) as scratch:
        start = time.perf_counter()
        run = train(data, Path(scratch) / "run", model=model, settings=settings.model, training=settings.training,
                    progress=Lines())  # fmt: skip
        seconds = time.perf_counter() - start
        bundle, dataset = run.bundle(), Dataset.open(data, verify=False)
        curve = [json.loads(line) for line in (run.path / "curve.jsonl").read_text().splitlines()]
        tables, impressions = Tables.from_dataset(dataset, pick_device()), dataset.impressions(split)
        network = bundle.model.to(pick_device())
        scores = score_impressions(network, tables, impressions, Silent())
        metrics = measure(scores, impressions.clicked, impressions.offsets)
        gammas = {name: round(value.item(), 4) for name, value in network.named_parameters() if name.endswith("gamma")}
        noise = measure_noise(network, tables, dataset) if isinstance(network, Drpn) else None
        shutil.rmtree(Path(scratch) / "run")
    facts = {
        "model": model,
        "seed": seed,
        **{key: round(value, 5) for key, value in metrics.mean().items()},
        "seconds": round(seconds, 1),
        "training": bundle.manifest["training"],
        "settings": bundle.manifest["settings"],
        "curve": curve,
        "gamma": gammas,
        "noise": noise,
    }
    return facts, {name: np.asarray(values, dtype=np.float32) for name, values in metrics.by_name().items()}


def main() -> None:
    """Run what is missing, as long as there is time, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a .json file; a .npz of the same name lies beside it")
    parser.add_argument("--models", nargs="+", default=VARIANTS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--split", default="test", choices=["validation", "test"])
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--plain", action="store_true", help="none of the GPU's kernels, each step as it comes, fp32")
    parser.add_argument("--minutes", type=float, default=1e9, help="start no further run after so many minutes")
    given = parser.parse_args()
    if given.plain:
        given.sets += ["training.record=false", "training.precision=fp32"]
        without_kernels()
    arrays_file = given.out.with_suffix(".npz")
    runs = json.loads(given.out.read_text())["runs"] if given.out.exists() else []
    arrays = dict(np.load(arrays_file)) if arrays_file.exists() else {}
    if runs and (before := json.loads(given.out.read_text())["about"]["sets"]) != given.sets:
        raise SystemExit(f"{given.out} holds runs with {before}; choose another --out for {given.sets}")
    begin = time.monotonic()
    for seed in given.seeds:
        for model in given.models:
            if any(run["model"] == model and run["seed"] == seed for run in runs):
                continue
            if (time.monotonic() - begin) / 60 > given.minutes:
                print("out of time; run again to go on")
                return
            facts, found = one_run(given.data, model, seed, given.sets, given.split)
            runs.append(facts)
            arrays |= {f"{model}/{seed}/{name}": values for name, values in found.items()}
            print({key: facts[key] for key in ("model", "seed", "auc", "mrr", "ndcg@10", "seconds")}, flush=True)
            device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
            about = {"data": given.data.name, "split": given.split, "sets": given.sets, "device": device, **machine()}
            given.out.parent.mkdir(parents=True, exist_ok=True)
            np.savez(arrays_file, **arrays)
            given.out.write_text(json.dumps({"about": about, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Whether other settings learn as well: `python benchmarks/alike.py DATA RUNS.json RUNS.json ... --out PAGE.md`.

Each file is one setting of one model, several seeds, as `variants.py` wrote it; all are compared with the first, seed
by seed, on the same impressions.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from drpn.dataset.folder import Dataset
from drpn.evaluation.bootstrap import paired
from provenance import commit


def aucs(file: Path, runs: list[dict[str, Any]]) -> Any:
    """(seeds, impressions)."""
    arrays = np.load(file.with_suffix(".npz"))
    return np.stack([arrays[f"{run['model']}/{run['seed']}/auc"] for run in runs])


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the dataset folder that the runs were trained on")
    parser.add_argument("runs", type=Path, nargs="+", help="each a .json of variants.py; its .npz must lie beside it")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", required=True)
    given = parser.parse_args()
    data = Dataset.open(given.data, verify=False)
    parts = {file.stem: json.loads(file.read_text()) for file in given.runs}
    for part in parts.values():
        part["runs"].sort(key=lambda run: run["seed"])
    if len({tuple(run["seed"] for run in part["runs"]) for part in parts.values()}) > 1:
        raise SystemExit("the files have other seeds than each other; only equal ones can be compared")
    measured = {file.stem: aucs(file, parts[file.stem]["runs"]) for file in given.runs}
    first = next(iter(parts))
    about = parts[first]["about"]
    users = np.asarray(data.impressions(about["split"]).users)
    split = about["split"]
    page = [
        f"# {given.title}",
        "",
        f"{about['device']}, commit {about['commit']}; page by `benchmarks/alike.py`, commit {commit()}. AUC is "
        f"the mean over the {split} split; ± is the standard deviation over seeds, intervals draw seeds and users. "
        "Validation is that of each run's best pass.",
        "",
        f"| | settings | seeds | best pass | validation AUC | {split} AUC | less {first}'s, 95 % interval |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, part in parts.items():
        best = [max(run["curve"], key=lambda point: point["validation_auc"]) for run in part["runs"]]
        means = np.nanmean(measured[name], axis=1)
        against = paired(measured[name], measured[first], users, np.random.default_rng(0))
        difference = f"{against.difference:+.4f} ({against.low:+.4f} to {against.high:+.4f})" if name != first else ""
        sets = ", ".join(one.removeprefix("training.") for one in part["about"]["sets"] if "compile" not in one)
        page.append(
            f"| {name} | {sets} | {len(means)} | {', '.join(str(point['epoch']) for point in best)} "
            f"| {np.mean([point['validation_auc'] for point in best]):.4f} "
            f"| {means.mean():.4f} ± {means.std(ddof=1):.4f} | {difference} |"
        )
    given.out.write_text("\n".join([*page, ""]))
    given.out.with_suffix(".json").write_text(json.dumps(parts, indent=1) + "\n")


if __name__ == "__main__":
    main()

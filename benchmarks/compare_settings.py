"""Compare several settings of one model: `python benchmarks/compare_settings.py DATA FOLDER FOLDER ... --out PAGE.md`.

Each folder is the output of `drpn compare DATA --models MODEL --set ...` with the same seeds. Every folder is compared
with the first one, seed by seed, on the same test impressions.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from drpn.dataset.folder import Dataset
from drpn.evaluation.bootstrap import paired
from drpn.experiments.compare import DOCUMENT, RUNS
from drpn.experiments.results import ARRAYS
from drpn.provenance import commit

HEADS = "| | settings | seeds | best epoch | validation AUC | test AUC | minus {first}'s, 95 % interval |"


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """The runs of one comparison, sorted by seed; it must hold a single model."""
    runs: list[dict[str, Any]] = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))["runs"]
    models = sorted({run["model"] for run in runs})
    if len(models) > 1:
        raise SystemExit(f"{folder} holds {', '.join(models)}; run drpn compare with one model for each setting")
    return sorted(runs, key=lambda run: run["seed"])


def read_auc(folder: Path, runs: list[dict[str, Any]]) -> Any:
    """AUC of each test impression, (seeds, impressions)."""
    return np.stack([np.load(folder / RUNS / f"{run['model']}-{run['seed']}" / ARRAYS)["auc"] for run in runs])


def settings_of(folder: Path) -> str:
    """The settings that the comparison was started with, without the section name."""
    settings = json.loads((folder / DOCUMENT).read_text(encoding="utf-8"))["about"]["settings"]
    return ", ".join(setting.removeprefix("training.") for setting in settings if "compile" not in setting)


def rows(folders: list[Path], users: Any) -> list[str]:
    """One table row for each folder."""
    runs = {folder: read_runs(folder) for folder in folders}
    if len({tuple(run["seed"] for run in part) for part in runs.values()}) > 1:
        raise SystemExit("the folders have different seeds; run drpn compare with the same --seeds for each")
    auc = {folder: read_auc(folder, part) for folder, part in runs.items()}
    first = folders[0]
    lines = []
    for folder, part in runs.items():
        means = np.nanmean(auc[folder], axis=1)
        spread = f" ± {means.std(ddof=1):.4f}" if len(means) > 1 else ""
        against = paired(auc[folder], auc[first], users, np.random.default_rng(0))
        difference = f"{against.difference:+.4f} ({against.low:+.4f} to {against.high:+.4f})" if folder != first else ""
        epochs = ", ".join(str(run["best_epoch"]) for run in part)
        lines.append(
            f"| {folder.name} | {settings_of(folder)} | {len(means)} | {epochs} "
            f"| {np.mean([run['validation_auc'] for run in part]):.4f} | {means.mean():.4f}{spread} | {difference} |"
        )
    return lines


def page(title: str, folders: list[Path], users: Any) -> list[str]:
    """The lines of the page."""
    machine = read_runs(folders[0])[0]["machine"]
    return [
        f"# {title}",
        "",
        f"{machine.get('gpu') or machine['processor']}, commit {machine['commit']}; page by "
        f"`benchmarks/compare_settings.py`, commit {commit()}. AUC is the mean over the test split; ± is the standard "
        "deviation over seeds; intervals resample seeds and users. Validation AUC is that of each run's best epoch.",
        "",
        HEADS.format(first=folders[0].name),
        "|---|---|---:|---:|---:|---:|---:|",
        *rows(folders, users),
    ]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the dataset folder that the runs were trained on")
    parser.add_argument("folders", type=Path, nargs="+", help="outputs of drpn compare, one for each setting")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", required=True)
    options = parser.parse_args()
    users = np.asarray(Dataset.open(options.data, verify=False).impressions("test").users)
    options.out.write_text("\n".join(page(options.title, options.folders, users)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

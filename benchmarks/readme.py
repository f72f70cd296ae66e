"""Write the results and the pictures of README.md anew: `python benchmarks/readme.py`.

Runs `drpn demo`, puts its table between the markers of README.md and its pictures into docs/pictures/. With `--compare`
and folders that `drpn compare` wrote, the table of all systems instead.
"""

import argparse
import json
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from drpn.evaluation.metrics import METRICS
from drpn.experiments.compare import DOCUMENT
from drpn.experiments.pages import difference
from drpn.experiments.paper import NAMES
from drpn.progress import Lines
from drpn.provenance import commit
from drpn.recipes.demo import SEED, SMALL, TRAINING, Demo, demo
from provenance import ROOT, machine


def table(made: Demo) -> list[str]:
    """The demo's systems on all test impressions, and how DRPN stands to each."""
    against = {row["against"]: row for row in made.trained.evaluation.comparisons}
    lines = [
        f"| | {' | '.join(METRICS)} | DRPN's AUC less this one's, 95 % interval |",
        "|---|" + "---:|" * (len(METRICS) + 1),
    ]
    for row in made.trained.evaluation.rows:
        if row["group"] != "all":
            continue
        found = against.get(row["model"])
        cell = f"{found['difference']:+.4f} ({found['low']:+.4f} to {found['high']:+.4f})" if found else ""
        lines.append(f"| {row['model']} | {' | '.join(f'{row[name]:.4f}' for name in METRICS)} | {cell} |")
    return lines


def words(made: Demo, seed: int, seconds: float) -> list[str]:
    """Where the table comes from, and what the weights are worth."""
    noise, faithful = made.trained.evaluation.noise or {}, made.trained.evaluation.faithful or {}
    found = [
        f"{side} news {kinds['denoise']['auc']:.3f} (a TF-IDF rule: {kinds['tfidf rule']['auc']:.3f})"
        for side, kinds in noise.items()
    ]
    low, high = faithful["most_less_random_interval"]
    impressions = next(row["impressions"] for row in made.trained.evaluation.rows)
    return [
        "",
        f"{made.statistics['users']:,} readers, {made.trained.clicks:,} clicks to train on, {impressions:,} test "
        f"impressions; size {SMALL['size']}, {TRAINING.epochs} passes; seed {seed}, {seconds / 60:.1f} minutes "
        f"on {machine()['cores']} cores, commit {commit()}.",
        "",
        f"Do DRPN's denoising weights find the noise? Noise AUC, 0.5 being chance: {'; '.join(found)}. "
        f"Are they faithful? Leaving out the most trusted clicked news moves the scores by {faithful['most']:.4f}, "
        f"a random one by {faithful['random']:.4f}: {faithful['most_less_random']:+.4f} more "
        f"({low:+.4f} to {high:+.4f}).",
    ]


def systems(folders: list[Path]) -> list[str]:
    """All systems of some comparisons side by side: AUC, nDCG@10, and how each stands to DRPN."""
    found = [json.loads((folder / DOCUMENT).read_text()) for folder in folders]
    names = [one["about"]["data"]["name"] for one in found]
    heads = [f"{name}: {head}" for name in names for head in ("AUC", "nDCG@10", "AUC less DRPN's")]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    rows = [{row["model"]: row for row in one["rows"] if row["group"] == "all"} for one in found]
    order = [model for model in (*NAMES, "popularity", "oracle") if any(model in own for own in rows)]
    for model in order:
        cells = [cell for own in rows for cell in _cells(own.get(model))]
        lines.append(f"| {NAMES.get(model, model)} | {' | '.join(cells)} |")
    lines.append("")
    for one in found:
        about, run = one["about"], one["runs"][0]
        lines.append(
            f"{about['data']['name']}: {run['clicks']:,} clicks to train on, {len(about['seeds'])} "
            f"{'seeds' if len(about['seeds']) > 1 else 'seed'}, {run['machine'].get('gpu') or 'CPU'}, commit "
            f"{', '.join(about['commits'])}; differences with paired 95 % intervals."
        )
    return lines


def _cells(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return [""] * 3
    return [f"{row['auc']:.4f}", f"{row['ndcg@10']:.4f}", difference(row["auc_less_base"])]


def put(marker: str, lines: list[str]) -> None:
    """Lines between two markers of README.md."""
    page = ROOT / "README.md"
    marked = re.compile(rf"(<!-- {marker}: begin -->\n).*(<!-- {marker}: end -->)", re.DOTALL)
    text = "\n".join(lines)
    page.write_text(marked.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page.read_text(encoding="utf-8")))


def main() -> None:
    """Run the demo, write the table, copy the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--compare", type=Path, nargs="+", help="folders of drpn compare")
    given = parser.parse_args()
    if given.compare:
        put("systems", systems(given.compare))
        return
    with tempfile.TemporaryDirectory() as scratch:
        start = time.monotonic()
        made = demo(Path(scratch) / "demo", seed=given.seed, progress=Lines())
        seconds = time.monotonic() - start
        (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
        for name in ("readers.png", "case.png"):
            shutil.copy(Path(scratch) / "demo" / name, ROOT / "docs" / "pictures" / name)
    put("results", table(made) + words(made, given.seed, seconds))


if __name__ == "__main__":
    main()

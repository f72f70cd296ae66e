"""Update the tables of results in README.md and docs/results/README.md, and the pictures of the demo.

python benchmarks/readme.py                       # runs `drpn demo`; writes README.md and docs/pictures/
python benchmarks/readme.py --compare FOLDER ...  # reads outputs of `drpn compare`; writes docs/results/README.md
"""

import argparse
import json
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
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

README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results" / "README.md"
PICTURES = ROOT / "docs" / "pictures"


def demo_table(result: Demo) -> list[str]:
    """The demo's systems on all test impressions, each with DRPN's lead over it."""
    comparisons = {row["against"]: row for row in result.trained.evaluation.comparisons}
    lines = [
        f"| | {' | '.join(METRICS)} | DRPN's AUC minus this, 95 % interval |",
        "|---|" + "---:|" * (len(METRICS) + 1),
    ]
    for row in result.trained.evaluation.rows:
        if row["group"] == "all":
            metrics = " | ".join(f"{row[name]:.4f}" for name in METRICS)
            lines.append(f"| {row['model']} | {metrics} | {difference(comparisons.get(row['model']))} |")
    return lines


def demo_notes(result: Demo, seed: int, seconds: float) -> list[str]:
    """Origin of the demo's numbers, and the quality of its denoising weights."""
    noise, faithful = result.trained.evaluation.noise or {}, result.trained.evaluation.faithful or {}
    noise_auc = [
        f"{side} stories {kinds['denoise']['auc']:.3f} (a TF-IDF rule: {kinds['tfidf rule']['auc']:.3f}; ceilings: "
        f"personal evidence {kinds['personal ceiling']['auc']:.3f}, story alone {kinds['story ceiling']['auc']:.3f})"
        for side, kinds in noise.items()
    ]
    low, high = faithful["most_less_random_interval"]
    impressions = next(row["impressions"] for row in result.trained.evaluation.rows)
    return [
        "",
        f"{result.statistics['users']:,} users, {result.trained.clicks:,} clicks to train on, {impressions:,} test "
        f"impressions; size {SMALL['size']}, {TRAINING.epochs} epochs; seed {seed}, {seconds / 60:.1f} minutes "
        f"on {machine()['cores']} cores, commit {commit()}.",
        "",
        f"Do the denoising weights find the noise? Noise AUC (chance is 0.5): {'; '.join(noise_auc)}. "
        f"Are they faithful? Removing the most trusted clicked story changes scores by {faithful['most']:.4f}, "
        f"removing a random one by {faithful['random']:.4f}: {faithful['most_less_random']:+.4f} "
        f"({low:+.4f} to {high:+.4f}).",
    ]


def systems_table(folders: Sequence[Path]) -> list[str]:
    """All systems of several comparisons next to each other: AUC, nDCG@10 and the difference from DRPN's AUC."""
    documents = [json.loads((folder / DOCUMENT).read_text(encoding="utf-8")) for folder in folders]
    names = [document["about"]["data"]["name"] for document in documents]
    heads = [f"{name}: {head}" for name in names for head in ("AUC", "nDCG@10", "AUC minus DRPN's")]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    rows = [{row["model"]: row for row in document["rows"] if row["group"] == "all"} for document in documents]
    for model in (*NAMES, "popularity", "oracle"):
        if any(model in by_model for by_model in rows):
            cells = [cell for by_model in rows for cell in _cells(by_model.get(model))]
            lines.append(f"| {NAMES.get(model, model)} | {' | '.join(cells)} |")
    lines.append("")
    for document in documents:
        about, run = document["about"], document["runs"][0]
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


def replace_between_markers(page: Path, marker: str, lines: Sequence[str]) -> None:
    """Replace the lines between `<!-- MARKER: begin -->` and `<!-- MARKER: end -->`."""
    begin, end = f"<!-- {marker}: begin -->", f"<!-- {marker}: end -->"
    text = page.read_text(encoding="utf-8")
    if not re.search(f"{begin}\n.*{end}", text, re.DOTALL):
        raise SystemExit(f"{page} has no lines '{begin}' and '{end}'; put them where the table belongs")
    before, rest = text.split(f"{begin}\n", 1)
    content = "\n".join(lines)
    page.write_text(f"{before}{begin}\n\n{content}\n\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


def main() -> None:
    """Run the demo or read the comparisons, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--compare", type=Path, nargs="+", help="outputs of drpn compare")
    options = parser.parse_args()
    if options.compare:
        replace_between_markers(RESULTS, "systems", systems_table(options.compare))
        return
    with tempfile.TemporaryDirectory() as scratch:
        start = time.monotonic()
        result = demo(Path(scratch) / "demo", seed=options.seed, progress=Lines())
        seconds = time.monotonic() - start
        PICTURES.mkdir(exist_ok=True)
        for name in ("readers.png", "case.png"):
            shutil.copy(Path(scratch) / "demo" / name, PICTURES / name)
    replace_between_markers(README, "results", demo_table(result) + demo_notes(result, options.seed, seconds))


if __name__ == "__main__":
    main()

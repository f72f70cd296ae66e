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
from drpn.recipes.demo import NOISY, SEED, SITE, USERS, Measured, Newsroom, Trained, demo
from provenance import ROOT, machine

README = ROOT / "README.md"
RESULTS = ROOT / "docs" / "results" / "README.md"
PICTURES = ROOT / "docs" / "pictures"


def demo_tables(trained: Trained) -> list[str]:
    """All systems on the live site, each with the first one's lead over it, and the noise that was found."""
    comparisons = {row["against"]: row for row in trained.live.evaluation.comparisons}
    systems = [row for row in trained.live.evaluation.rows if row["group"] == "all"]
    lines = [
        f"**{SITE.about}**",
        "",
        f"| | {' | '.join(METRICS)} | AUC lead of {systems[0]['model']}, 95 % interval |",
        "|---|" + "---:|" * (len(METRICS) + 1),
    ]
    for row in systems:
        metrics = " | ".join(f"{row[name]:.4f}" for name in METRICS)
        lines.append(f"| {row['model']} | {metrics} | {difference(comparisons.get(row['model']))} |")
    lines += ["", f"**{NOISY.about}**", "", "| noise AUC (chance is 0.5) | clicked | skipped |", "|---|---:|---:|"]
    lines += [
        f"| {row['weights']} | {_noise_auc(row.get('clicked'))} | {_noise_auc(row.get('skipped'))} |"
        for row in trained.noise_auc
    ]
    return lines


def _noise_auc(numbers: dict[str, Any] | None) -> str:
    if numbers is None:
        return ""
    low, high = numbers["interval"]
    return f"{numbers['auc']:.3f} ({low:.3f} to {high:.3f})"


def demo_notes(trained: Trained, users: int, seed: int, cost: str) -> list[str]:
    """Origin of the demo's numbers, and what planted feedback does to the ranking."""
    rows = {row["model"]: row for row in trained.noise.evaluation.rows if row["group"] == "all"}
    planted, plain = (rows[name] for name in NOISY.models)
    against = next(row for row in trained.noise.evaluation.comparisons if row["against"] == plain["model"])
    return [
        "",
        f"On these logs {planted['model']} ranks with AUC {planted['auc']:.4f}, {plain['model']} with "
        f"{plain['auc']:.4f}; difference {difference(against)}.",
        "",
        f"{users:,} readers in each newsroom. Live: {_size(SITE, trained.live)}. Noise: {_size(NOISY, trained.noise)}. "
        f"Seed {seed}; {cost}, commit {commit()}.",
    ]


def _size(newsroom: Newsroom, measured: Measured) -> str:
    impressions = measured.evaluation.rows[0]["impressions"]
    clicks = f"{measured.clicks:,} clicks to train on, {impressions:,} test impressions"
    return f"{clicks}, vectors of size {newsroom.sizes['size']}"


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
        start, processor = time.monotonic(), time.process_time()
        trained = demo(Path(scratch) / "demo", seed=options.seed, progress=Lines()).trained
        seconds, busy = time.monotonic() - start, time.process_time() - processor
        PICTURES.mkdir(exist_ok=True)
        for name in ("readers.png", "case.png"):
            shutil.copy(Path(scratch) / "demo" / name, PICTURES / name)
    cost = f"{busy / 60:.1f} minutes of processor time, {seconds / 60:.1f} minutes on {machine()['cores']} cores"
    lines = demo_tables(trained) + demo_notes(trained, USERS, options.seed, cost)
    replace_between_markers(README, "results", lines)


if __name__ == "__main__":
    main()

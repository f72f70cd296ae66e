"""What does planted feedback do at each level of noise? Writes a page and a picture.

python benchmarks/noise_levels.py --level 0 quiet1 quiet2 --level 30 noisy1 noisy2 --out FOLDER --page PAGE.md

Each `--level` names a percentage of noise and dataset folders, prepared from simulated logs with that much noise in
clicks and skips (`drpn simulate logs --preset personal --noise 0.3`). DRPN, DRPN-D and DRPN with planted feedback are
trained on each. The picture, next to the page, shows test AUC and the noise AUC of the denoising weights. Finished runs
are not repeated.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from drpn.provenance import commit
from noise_study import (
    BASES,
    NOISE,
    PLANTED,
    Runs,
    add_options,
    estimate,
    shared_settings,
    shown,
    systems,
    train_all,
    values_of,
)
from reporting import COLOURS

Levels = dict[float, Runs]
"""The runs by percentage of noise."""


def auc_rows(levels: Levels, names: Sequence[str]) -> list[str]:
    """A line for each level: test AUC of each system, and the gain of the last one."""
    planted = names[-1]
    heads = [*names, *(f"{planted} minus {base}" for base in BASES)]
    lines = [f"| noise | {' | '.join(heads)} |", f"|---:|{'---:|' * len(heads)}"]
    for level, runs in sorted(levels.items()):
        auc = {name: values_of(runs, name, "test", "auc") for name in names}
        cells = [f"{auc[name].mean():.4f}" for name in names]
        cells += [shown(estimate(auc[planted] - auc[base]), sign=True) for base in BASES]
        lines.append(f"| {level:g} % | {' | '.join(cells)} |")
    return lines


def found_rows(levels: Levels, planted: str) -> list[str]:
    """For each level, clicked and skipped: noise AUC of the weights of a system, of the rule and of the ceilings."""
    lines = [f"| noise | | {' | '.join(NOISE.values())} |", f"|---:|---|{'---:|' * len(NOISE)}"]
    for level, runs in sorted(levels.items()):
        for side in ("clicked", "skipped"):
            cells = [shown(estimate(values_of(runs, planted, "noise", side, kind, "auc"))) for kind in NOISE]
            lines.append(f"| {level:g} % | {side} | {' | '.join(cells)} |")
    return lines


def draw(levels: Levels, names: Sequence[str], file: Path) -> None:
    """Test AUC of each system, and noise AUC of the weights of the last one, by level of noise."""
    from drpn.drawing.pictures import FAINT, INK, new_figure, save

    figure, order, planted = new_figure(11.6, 4.2), sorted(levels), names[-1]
    left, right = figure.subplots(1, 2, gridspec_kw={"left": 0.06, "right": 0.84})
    for name, colour in zip(names, COLOURS, strict=False):
        left.plot(order, [values_of(levels[level], name, "test", "auc").mean() for level in order], "o-", color=colour,
                  label=name)  # fmt: skip
    for (kind, label), colour in zip(NOISE.items(), COLOURS, strict=False):
        for side, style in (("clicked", "o-"), ("skipped", "s--")):
            points = [values_of(levels[level], planted, "noise", side, kind, "auc").mean() for level in order]
            known = [(level, point) for level, point in zip(order, points, strict=True) if not math.isnan(point)]
            if known:
                right.plot(*zip(*known, strict=True), style, color=colour, label=f"{label}, {side}")
    for ax, title in ((left, "test AUC"), (right, f"noise AUC of {planted}")):
        ax.set_xlabel("noise in clicks and skips, %", color=INK)
        ax.set_ylabel(title, color=FAINT)
        ax.set_xticks(order)
        ax.grid(color="#d0d7de", lw=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8)
    right.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))  # next to the lines
    save(figure, file)


def main() -> None:
    """Train what is missing; write page and picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", nargs="+", action="append", required=True, metavar="PERCENT FOLDER")
    parser.add_argument("--weight", type=float, default=0.3, help="of the planted loss")
    add_options(parser)
    options = parser.parse_args()
    chosen = systems([options.weight], options.extra)
    names = [*BASES, f"{PLANTED} {options.weight:g}"]
    levels: Levels = {}
    for percent, *folders in options.level:
        levels[float(percent)] = {folder: train_all(Path(folder), chosen, options) for folder in folders}
        picture = options.page.with_suffix(".png")
        page = ["# Planted feedback at each level of noise", ""]
        page += [f"Page by `benchmarks/noise_levels.py`, commit {commit()}; intervals (95 %) are over newsrooms.", ""]
        page += [f"Settings of all systems: {shared_settings(options)}.", ""]
        page += [f"![AUC by level of noise]({picture.name})", "", "## Test AUC", "", *auc_rows(levels, names), ""]
        page += [f"## Noise AUC of {names[-1]} (0.5 is chance)", "", *found_rows(levels, names[-1])]
        options.page.write_text("\n".join(page) + "\n", encoding="utf-8")
        draw(levels, names, picture)
        print(f"{options.page}, {percent} %", flush=True)


if __name__ == "__main__":
    main()

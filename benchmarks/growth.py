"""How DRPN's time grows with its lengths and its size: `python benchmarks/growth.py`.

Times forward passes on one thread of a CPU, in fp32, for titles of L words, l_p clicked and l_n skipped news, and
vectors of size d, each varied alone; sets the exponents beside those of the paper's appendix B. Writes a JSON file, a
picture and a page.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from drpn.batches.batch import Batch, Context, NewsRows, Profiles
from drpn.drawing.pictures import CAUSES, FAINT, INK, new_figure, save
from drpn.models.base import DataShape
from drpn.models.drpn import Drpn, DrpnSettings
from provenance import ROOT, machine

WORDS, NEWS, TITLES, USERS, CANDIDATES, NEIGHBOURS = 5_000, 256, 32, 8, 16, 5
"""Words and news to draw from, titles of a news stage, users and candidates of a score, neighbours of a news."""


@dataclass(frozen=True)
class Lengths:
    """What is varied; the defaults are near the paper's settings."""

    title: int = 16
    clicked: int = 32
    skipped: int = 64
    size: int = 240


SYMBOLS = {"title": "L", "clicked": "l_p", "skipped": "l_n", "size": "d"}
WORDING = {"title": "words of a title, L", "clicked": "clicked news, $l_p$", "skipped": "skipped news, $l_n$",
           "size": "size of vectors, d"}  # fmt: skip
VALUES = {
    "title": [16, 32, 64, 128, 256],
    "clicked": [64, 128, 256, 512, 1024],
    "skipped": [64, 128, 256, 512, 1024],
    "size": [60, 120, 240, 480, 960],
}


class Part(NamedTuple):
    """What is timed."""

    name: str
    colour: str
    varied: tuple[str, ...]
    appendix: Callable[[Lengths], float] | None
    """Appendix B's formula, each term counted once; None where it has none."""

    def formula(self, varied: str) -> list[float] | None:
        """What the appendix gives at each value."""
        if self.appendix is None:
            return None
        return [self.appendix(replace(Lengths(), **{varied: value})) for value in VALUES[varied]]


def _title(at: Lengths) -> float:
    return at.title**2 * at.size + at.title * at.size**2


def _inference(at: Lengths) -> float:
    return (at.clicked**2 + at.skipped**2 + (at.clicked + at.skipped) ** 2) * at.size


TITLE = Part("title encoder", CAUSES["interest"][0], ("title", "size"), _title)
STAGE = Part("news stage", CAUSES["accident"][0], ("title", "size"), None)
SCORE = Part("score", CAUSES["missed"][0], ("clicked", "skipped", "size"), _inference)
PARTS = {"title": TITLE, "stage": STAGE, "score": SCORE}


def passes(at: Lengths, seed: int) -> dict[str, Callable[[], Any]]:
    """The forward passes at some lengths, with random weights and full sequences."""
    torch.manual_seed(seed)
    shape = DataShape(news=NEWS, words=WORDS, users=USERS + 1, categories=2, subcategories=2)
    model = Drpn(DrpnSettings(size=at.size), shape).eval()
    rng = np.random.default_rng(seed)

    def draw(below: int, *size: int) -> torch.Tensor:
        return torch.from_numpy(rng.integers(1, below, size))

    some = NewsRows(torch.arange(NEWS), draw(WORDS, NEWS, at.title), draw(NEWS, NEWS, NEIGHBOURS),
                    torch.ones(NEWS, dtype=torch.int64), torch.ones(NEWS, dtype=torch.int64),
                    torch.ones(NEWS, dtype=torch.bool))  # fmt: skip
    users = torch.arange(1, USERS + 1)
    profiles = Profiles(users, draw(NEWS, USERS, at.clicked), draw(NEWS, USERS, at.skipped))
    batch = Batch(profiles, draw(NEWS, USERS, CANDIDATES), Context(torch.zeros_like(users)))
    few = some.part(slice(0, TITLES))
    with torch.no_grad():
        encoded = model.encode_news(replace(some, words=some.words[:, :16]))
    return {
        "title": lambda: model.title(few.words),
        "stage": lambda: model.encode_news(few),
        "score": lambda: model.score(encoded, batch),
    }


@torch.no_grad()
def sweep(varied: str, values: list[int], repeats: int, seed: int) -> list[dict[str, Any]]:
    """Seconds and operations at each value; the repeats go round the values, so that a slow moment meets all alike."""
    runs = {}
    for value in values:
        found = passes(replace(Lengths(), **{varied: value}), seed)
        runs |= {(key, value): found[key] for key, part in PARTS.items() if varied in part.varied}
    seconds: dict[tuple[str, int], list[float]] = {at: [] for at in runs}
    operations = {}
    for at, run in runs.items():
        # the fused attention is not counted; the plain one has the same matrix products
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            run()
        operations[at] = counter.get_total_flops()
    for _ in range(repeats):
        for at, run in runs.items():
            run()
            start = time.perf_counter()
            run()
            seconds[at].append(time.perf_counter() - start)
    return [
        {
            "part": key,
            "varied": varied,
            "value": value,
            "seconds": float(f"{statistics.median(seconds[key, value]):.4g}"),
            "repeats": [float(f"{each:.4g}") for each in seconds[key, value]],
            "operations": operations[key, value],
        }
        for key, value in runs
    ]


def slope(values: list[int], costs: list[float]) -> float:
    """The exponent: least squares in logarithms over the upper half of the values."""
    return round(float(np.polyfit(np.log(upper_half(values)), np.log(upper_half(costs)), 1)[0]), 2)


def upper_half(values: list[Any]) -> list[Any]:
    """The larger ones, the middle one included."""
    return values[len(values) // 2 :]


def exponents(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measured, counted, and the appendix's, for each part and what it was varied with."""
    found = []
    for varied, values in VALUES.items():
        for key, part in PARTS.items():
            if varied not in part.varied:
                continue
            own = [point for point in points if (point["part"], point["varied"]) == (key, varied)]
            costs = part.formula(varied)
            rounds = [slope(values, list(each)) for each in zip(*(point["repeats"] for point in own), strict=True)]
            found.append({
                "part": key,
                "varied": varied,
                "measured": slope(values, [point["seconds"] for point in own]),
                "rounds": [min(rounds), max(rounds)],
                "operations": slope(values, [point["operations"] for point in own]),
                "appendix": costs and slope(values, costs),
            })  # fmt: skip
    return found


def draw(points: list[dict[str, Any]], found: list[dict[str, Any]], file: Path) -> None:
    """Four panels, time against each length; dashed, the appendix's formula through the last point."""
    figure = new_figure(9, 6.4)
    panels = figure.subplots(2, 2).flatten()
    for ax, (varied, values) in zip(panels, VALUES.items(), strict=True):
        for key, part in PARTS.items():
            if varied not in part.varied:
                continue
            times = [point["seconds"] * 1e3 for point in points if (point["part"], point["varied"]) == (key, varied)]
            costs = part.formula(varied)
            exponent = next(row["measured"] for row in found if (row["part"], row["varied"]) == (key, varied))
            if costs:
                ax.plot(values, np.array(costs) * times[-1] / costs[-1], "--", color=part.colour, lw=1, alpha=0.6)
            ax.plot(
                values, times, "o-", color=part.colour, lw=1.8, ms=4.5, label=f"{part.name}, exponent {exponent:.2f}"
            )
        ax.plot([], [], "--", color=FAINT, lw=1, label="appendix B, through the last point")
        ax.set(xscale="log", yscale="log")
        ax.set_xticks(values, [str(value) for value in values], color=INK)
        ax.minorticks_off()
        low, high = np.floor(np.log10(ax.get_ylim()[0])), np.ceil(np.log10(ax.get_ylim()[1]))
        ticks = 10.0 ** np.arange(low, high + 1)
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks], color=INK)
        ax.set_ylim(ticks[0], ticks[-1])
        ax.set_xlabel(WORDING[varied], color=INK)
        ax.set_ylabel("milliseconds", color=FAINT)
        ax.grid(color="#d0d7de", lw=0.5)
        ax.tick_params(color="#d0d7de")
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("#d0d7de")
        ax.legend(frameon=False, fontsize=9, loc="upper left", labelcolor=INK)
    figure.subplots_adjust(left=0.08, right=0.985, top=0.975, bottom=0.09, wspace=0.2, hspace=0.28)
    save(figure, file)


def page(about: dict[str, Any], points: list[dict[str, Any]], found: list[dict[str, Any]]) -> str:
    """The page, as Markdown."""
    rows = [
        f"| {PARTS[row['part']].name} | {SYMBOLS[row['varied']]} | {upper_half(VALUES[row['varied']])[0]} to "
        f"{VALUES[row['varied']][-1]} | {row['measured']:.2f} "
        f"| {row['rounds'][0]:.2f} to {row['rounds'][1]:.2f} | {row['operations']:.2f} | "
        + ("" if row["appendix"] is None else f"{row['appendix']:.2f}")
        + " |"
        for row in found
    ]
    times = [
        f"| {PARTS[row['part']].name} | {SYMBOLS[row['varied']]} | "
        + " | ".join(
            f"{point['value']}: {point['seconds'] * 1e3:.3g}"
            for point in points
            if (point["part"], point["varied"]) == (row["part"], row["varied"])
        )
        + " |"
        for row in found
    ]
    return "\n".join([
        "# How DRPN's time grows",
        "",
        "Written by `python benchmarks/growth.py`. Forward passes on one thread of a CPU, fp32, random inputs, full",
        f"sequences; the median of {about['repeats']} repeats, seed {about['seed']}.",
        "One length is varied, the others stay at "
        "L = {title}, l_p = {clicked}, l_n = {skipped}, d = {size}.".format(**about["defaults"]),
        f"Commit {about['commit']}; {about['cores']} cores, {about['memory_gb']} GB, Python {about['python']}, "
        f"PyTorch {about['torch']}.",
        "",
        "![time against each length, in logarithms](../pictures/growth.png)",
        "",
        "| part | varied | over | exponent of the time | of single rounds | of the operations | of appendix B |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"- title encoder: `Drpn.title` on {TITLES} titles. Appendix B: O(L²d + Ld²).",
        f"- news stage: `Drpn.encode_news` on {TITLES} news: the title encoder, the graph network, and the projections",
        "  that depend on a news alone. Beyond the title they cost O(d²) a news whatever L is, so the stage grows more",
        "  slowly with L than the title encoder. The appendix has no formula for it.",
        f"- score: `Drpn.score` for {USERS} users with {CANDIDATES} candidates each, both interest encoders.",
        "  Appendix B, for each: O((l_p+l_n)d² + (l_p² + l_n² + (l_p+l_n)²)d); in inference, with the news encoded",
        "  beforehand, O((l_p² + l_n² + (l_p+l_n)²)d). Table and dashed lines take the second, since the projections",
        "  are part of the news stage. A part of (l_p+l_n)d² stays in `score` all the same: in the semantic encoder,",
        "  W^I of Eq. 2 (and W_a of Eq. 3, d by d') read what the self-attention gave, which no news has by itself.",
        "  The appendix's formula leaves it out; with it, operations grow faster with d, more slowly with the lengths.",
        "",
        "An exponent is the least squares slope in logarithms over the upper half of the values, of the medians;",
        "beside it the least and the largest that any one round of repeats gives. Other work on the machine moves",
        "them: expect another call of the command to differ within that range. The exponent of the formula is taken",
        "over the same values, each term counted once: where lower terms still count, it too lies below the highest",
        "power. Operations are those of matrix products. Time is not operations: softmax, masks and the reading of",
        "rows take theirs, and large matrix products run at a higher rate than small ones.",
        "",
        "Milliseconds, as value: time.",
        "",
        "| part | varied | | | | | |",
        "|---|---|---|---|---|---|---|",
        *times,
        "",
    ])  # fmt: skip


def main() -> None:
    """Measure, and write all three files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="gets results/growth.* and pictures/growth.png")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    about = {**machine(), "torch": torch.__version__, "seed": given.seed, "repeats": given.repeats,
             "defaults": asdict(Lengths())}  # fmt: skip
    points = []
    for varied, values in VALUES.items():
        points += sweep(varied, values, given.repeats, given.seed)
    found = exponents(points)
    results, pictures = given.out / "results", given.out / "pictures"
    results.mkdir(parents=True, exist_ok=True)
    pictures.mkdir(parents=True, exist_ok=True)
    facts = {"about": about, "exponents": found, "points": points}
    (results / "growth.json").write_text(json.dumps(facts, indent=1) + "\n")
    draw(points, found, pictures / "growth.png")
    (results / "growth.md").write_text(page(about, points, found), encoding="utf-8")
    for row in found:
        print(row)


if __name__ == "__main__":
    main()

"""How DRPN's time grows with sequence lengths and vector size: `python benchmarks/growth.py`.

Times forward passes on one CPU thread in fp32 for titles of L words, l_p clicked and l_n skipped stories, and vectors
of size d, varying one at a time. Compares the exponents with those of the paper's appendix B. Writes a page and a
picture into docs/, and a JSON file into build/bench.
"""

import argparse
import json
import statistics
import textwrap
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
from reporting import OUT

WORDS, NEWS, TITLES, USERS, CANDIDATES, NEIGHBOURS = 5_000, 256, 32, 8, 16, 5
"""Vocabulary and catalogue size, titles encoded at once, users and candidates scored at once, neighbours of a story."""


@dataclass(frozen=True)
class Lengths:
    """The varied sizes; the defaults are near the paper's settings."""

    title: int = 16
    clicked: int = 32
    skipped: int = 64
    size: int = 240


SYMBOLS = {"title": "L", "clicked": "l_p", "skipped": "l_n", "size": "d"}
WORDING = {"title": "words of a title, L", "clicked": "clicked stories, $l_p$", "skipped": "skipped stories, $l_n$",
           "size": "size of vectors, d"}  # fmt: skip
VALUES = {
    "title": [16, 32, 64, 128, 256],
    "clicked": [64, 128, 256, 512, 1024],
    "skipped": [64, 128, 256, 512, 1024],
    "size": [60, 120, 240, 480, 960],
}


class Part(NamedTuple):
    """A timed part of the model."""

    name: str
    colour: str
    varied: tuple[str, ...]
    appendix: Callable[[Lengths], float] | None
    """Appendix B's formula with each term counted once; None if the appendix has no formula."""

    def formula(self, varied: str) -> list[float] | None:
        """The formula's cost at each value."""
        if self.appendix is None:
            return None
        return [self.appendix(replace(Lengths(), **{varied: value})) for value in VALUES[varied]]


def _title(at: Lengths) -> float:
    return at.title**2 * at.size + at.title * at.size**2


def _inference(at: Lengths) -> float:
    return (at.clicked**2 + at.skipped**2 + (at.clicked + at.skipped) ** 2) * at.size


TITLE = Part("title encoder", CAUSES["interest"][0], ("title", "size"), _title)
STAGE = Part("encode_news", CAUSES["accident"][0], ("title", "size"), None)
SCORE = Part("score", CAUSES["missed"][0], ("clicked", "skipped", "size"), _inference)
PARTS = {"title": TITLE, "stage": STAGE, "score": SCORE}
WIDTH = 118
PARTS_EXPLAINED = [
    f"title encoder: `Drpn.title` on {TITLES} titles. Appendix B: O(L²d + Ld²).",
    f"""encode_news: `Drpn.encode_news` on {TITLES} stories: the title encoder, the graph network and the projections
    that depend on the story alone. Apart from the title encoder the cost of a story is O(d²) for any L, so encode_news
    grows more slowly with L than the title encoder. The appendix has no formula for it.""",
    f"""score: `Drpn.score` for {USERS} users with {CANDIDATES} candidates each, both interest encoders. Appendix B
    gives O((l_p+l_n)d² + (l_p² + l_n² + (l_p+l_n)²)d) for each encoder, and O((l_p² + l_n² + (l_p+l_n)²)d) for
    inference, when the stories are already encoded. The table and the dashed lines use the second formula, because
    encode_news computes the projections. Some of the (l_p+l_n)d² cost stays in `score`: in the semantic encoder, W^I
    of Eq. 2 (and W_a of Eq. 3, d by d') read the output of the self-attention, which depends on the user. The
    appendix leaves this out. It makes operations grow faster with d and more slowly with the lengths.""",
]
EXPONENTS_EXPLAINED = """An exponent is the least-squares slope of the medians on logarithmic axes, over the upper half
of the values. The range shows the smallest and the largest slope of a single round of repeats. Other work on the
machine changes the slopes: expect another run to differ within that range. The exponent of the formula is taken over
the same values with each term counted once; lower terms still matter there, so it is below the highest power.
Operations are those of matrix products. Time is not proportional to operations: softmax, masks and row look-ups take
time too, and large matrix products run at a higher rate than small ones."""


def passes(at: Lengths, seed: int) -> dict[str, Callable[[], Any]]:
    """The forward passes at the given lengths, with random weights and full sequences."""
    torch.manual_seed(seed)
    shape = DataShape(news=NEWS, words=WORDS, users=USERS + 1, categories=2, subcategories=2)
    model = Drpn(DrpnSettings(size=at.size), shape).eval()
    rng = np.random.default_rng(seed)

    def draw(below: int, *size: int) -> torch.Tensor:
        return torch.from_numpy(rng.integers(1, below, size))

    catalogue = NewsRows(torch.arange(NEWS), draw(WORDS, NEWS, at.title), draw(NEWS, NEWS, NEIGHBOURS),
                         torch.ones(NEWS, dtype=torch.int64), torch.ones(NEWS, dtype=torch.int64))  # fmt: skip
    users = torch.arange(1, USERS + 1)
    profiles = Profiles(users, draw(NEWS, USERS, at.clicked), draw(NEWS, USERS, at.skipped))
    batch = Batch(profiles, draw(NEWS, USERS, CANDIDATES), Context(torch.zeros_like(users)))
    part = catalogue.part(slice(0, TITLES))
    with torch.no_grad():
        encoded = model.encode_news(replace(catalogue, words=catalogue.words[:, :16]))
    return {
        "title": lambda: model.title(part.words),
        "stage": lambda: model.encode_news(part),
        "score": lambda: model.score(encoded, batch),
    }


@torch.no_grad()
def sweep(varied: str, values: list[int], repeats: int, seed: int) -> list[dict[str, Any]]:
    """Seconds and operations at each value; repeats cycle through the values, so a slow moment affects all of them."""
    runs = {}
    for value in values:
        forward = passes(replace(Lengths(), **{varied: value}), seed)
        runs |= {(key, value): forward[key] for key, part in PARTS.items() if varied in part.varied}
    seconds: dict[tuple[str, int], list[float]] = {at: [] for at in runs}
    operations = {}
    for at, run in runs.items():
        # the counter does not see fused attention; the plain version has the same matrix products
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
            "repeats": [float(f"{spent:.4g}") for spent in seconds[key, value]],
            "operations": operations[key, value],
        }
        for key, value in runs
    ]


def slope(values: list[int], costs: list[float]) -> float:
    """The exponent: least squares in logarithms over the upper half of the values."""
    return round(float(np.polyfit(np.log(upper_half(values)), np.log(upper_half(costs)), 1)[0]), 2)


def upper_half(values: list[Any]) -> list[Any]:
    """The larger values, including the middle one."""
    return values[len(values) // 2 :]


def exponents(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Exponents of time, of operations and of the formula, for each part and varied size."""
    rows = []
    for varied, values in VALUES.items():
        for key, part in PARTS.items():
            if varied not in part.varied:
                continue
            measured = [point for point in points if (point["part"], point["varied"]) == (key, varied)]
            costs = part.formula(varied)
            rounds = [
                slope(values, list(times)) for times in zip(*(point["repeats"] for point in measured), strict=True)
            ]
            rows.append({
                "part": key,
                "varied": varied,
                "measured": slope(values, [point["seconds"] for point in measured]),
                "rounds": [min(rounds), max(rounds)],
                "operations": slope(values, [point["operations"] for point in measured]),
                "appendix": costs and slope(values, costs),
            })  # fmt: skip
    return rows


def draw(points: list[dict[str, Any]], fits: list[dict[str, Any]], file: Path) -> None:
    """Four panels of time against each length; dashed: the appendix's formula, scaled to meet the last point."""
    figure = new_figure(9, 6.4)
    panels = figure.subplots(2, 2).flatten()
    for ax, (varied, values) in zip(panels, VALUES.items(), strict=True):
        for key, part in PARTS.items():
            if varied not in part.varied:
                continue
            times = [point["seconds"] * 1e3 for point in points if (point["part"], point["varied"]) == (key, varied)]
            costs = part.formula(varied)
            exponent = next(row["measured"] for row in fits if (row["part"], row["varied"]) == (key, varied))
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


def wrap(text: str, indent: str = "") -> list[str]:
    """The text as lines of at most WIDTH characters."""
    return textwrap.wrap(" ".join(text.split()), WIDTH, subsequent_indent=indent)


def page(about: dict[str, Any], points: list[dict[str, Any]], fits: list[dict[str, Any]]) -> str:
    """The page, as Markdown."""
    rows = [
        f"| {PARTS[row['part']].name} | {SYMBOLS[row['varied']]} | {upper_half(VALUES[row['varied']])[0]} to "
        f"{VALUES[row['varied']][-1]} | {row['measured']:.2f} "
        f"| {row['rounds'][0]:.2f} to {row['rounds'][1]:.2f} | {row['operations']:.2f} | "
        + ("" if row["appendix"] is None else f"{row['appendix']:.2f}")
        + " |"
        for row in fits
    ]
    times = [
        f"| {PARTS[row['part']].name} | {SYMBOLS[row['varied']]} | "
        + " | ".join(
            f"{point['value']}: {point['seconds'] * 1e3:.3g}"
            for point in points
            if (point["part"], point["varied"]) == (row["part"], row["varied"])
        )
        + " |"
        for row in fits
    ]
    return "\n".join([
        "# How DRPN's time grows",
        "",
        *wrap(
            f"""Written by `python benchmarks/growth.py`. Forward passes on one CPU thread in fp32, with random inputs
            and full sequences; median of {about["repeats"]} repeats, seed {about["seed"]}. One size is varied, the
            others stay at {", ".join(f"{SYMBOLS[name]} = {value}" for name, value in about["defaults"].items())}.
            Commit {about["commit"]}; {about["cores"]} cores, {about["memory_gb"]} GB, Python {about["python"]},
            PyTorch {about["torch"]}."""
        ),
        "",
        "![time against each length, both axes logarithmic](../pictures/growth.png)",
        "",
        "| part | varied | over | exponent of time | range over rounds | exponent of operations | appendix B |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        *(line for text in PARTS_EXPLAINED for line in wrap(f"- {text}", indent="  ")),
        "",
        *wrap(EXPONENTS_EXPLAINED),
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
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="gets results/growth.md, pictures/growth.png")
    parser.add_argument("--out", type=Path, default=OUT, help="gets growth.json")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    about = {**machine(), "torch": torch.__version__, "seed": options.seed, "repeats": options.repeats,
             "defaults": asdict(Lengths())}  # fmt: skip
    points = []
    for varied, values in VALUES.items():
        points += sweep(varied, values, options.repeats, options.seed)
    fits = exponents(points)
    results, pictures = options.docs / "results", options.docs / "pictures"
    for folder in (results, pictures, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    numbers = {"about": about, "exponents": fits, "points": points}
    (options.out / "growth.json").write_text(json.dumps(numbers, indent=1) + "\n")
    draw(points, fits, pictures / "growth.png")
    (results / "growth.md").write_text(page(about, points, fits), encoding="utf-8")
    for row in fits:
        print(row)


if __name__ == "__main__":
    main()

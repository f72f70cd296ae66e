"""Output of a benchmark: a JSON file, a picture next to it, and a table on the terminal."""

import itertools
import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from provenance import ROOT, machine

OUT = ROOT / "build" / "bench"
"""Default folder for numbers and pictures; git ignores it."""
FEW = 6
"""Upper limit of marks on an axis."""
TICKS = [digit * 10.0**power for power in range(-4, 9) for digit in (1, 2, 5)]
COLOURS = ("#3b82c4", "#e8a33d", "#2da44e", "#cf4a45", "#8250df", "#6e7781", "#1b7c83")


class Panel(NamedTuple):
    """One panel of a picture: named lines through points."""

    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def leave(name: str, facts: dict[str, Any], panels: Sequence[Panel], out: Path = OUT) -> None:
    """Write NAME.json, which includes the machine, and NAME.png if matplotlib is installed; print their paths."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}.json"
    file.write_text(json.dumps({"machine": machine(), **facts}, indent=1) + "\n")
    print(f"\n{file}")
    if panels and draw(panels, file.with_suffix(".png")):
        print(file.with_suffix(".png"))


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table with right-aligned numbers."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for number, line in enumerate([list(heads), *cells]):
        numeric = [bool(number) and not isinstance(value, str) for value in (rows[number - 1] if number else heads)]
        if not number and rows:
            numeric = [not isinstance(value, str) for value in rows[0]]
        parts = [text.rjust(width) if right else text.ljust(width)
                 for text, width, right in zip(line, widths, numeric, strict=True)]  # fmt: skip
        print("  ".join(parts).rstrip())


def markdown(
    page: Path, title: str, heads: Sequence[str], rows: Sequence[Sequence[object]], text: Sequence[str], script: str
) -> None:
    """Write a page with a table, the machine behind it, and the script that writes it."""
    about = machine()
    where = f"{about['processor']}, {about['cores']} cores, PyTorch {about['torch']}, commit {about['commit']}"
    right = [":" if not isinstance(value, str) else "" for value in rows[0]]
    lines = [
        f"# {title}",
        "",
        *(line for paragraph in text for line in (*textwrap.wrap(paragraph, 120), "")),
        f"{where}; load before measuring {about['load_before']}.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'|'.join(f'---{side}' for side in right)}|",
        *(f"| {' | '.join(_cell(value) for value in row)} |" for row in rows),
        "",
        f"Written by `python benchmarks/{script}.py --page FILE`.",
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def draw(panels: Sequence[Panel], file: Path) -> bool:
    """Draw panels next to each other with logarithmic axes; return False without matplotlib."""
    try:
        from matplotlib.ticker import NullLocator

        from drpn.drawing.pictures import FAINT, INK, new_figure, save
    except ImportError:
        return False
    names = dict.fromkeys(_kind(name) for panel in panels for name in panel.lines)
    colours = dict(zip(names, itertools.cycle(COLOURS), strict=False))
    figure = new_figure(4.6 * len(panels), 4.4)
    for ax, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        for name, points in panel.lines.items():
            if points:
                ax.plot(*zip(*points, strict=True), "o-", color=colours[_kind(name)], lw=1.8, ms=4.5, label=name)
        ax.set(xscale="log", yscale="log")
        marks = sorted({x for points in panel.lines.values() for x, _ in points})
        marks = marks if len(marks) <= FEW else marks[:: -(-len(marks) // FEW)]
        ax.set_xticks(marks, [_short(mark) for mark in marks], color=INK)
        ax.xaxis.set_minor_locator(NullLocator())
        low, high = ax.get_ylim()
        ticks = [tick for tick in TICKS if low <= tick <= high]
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_yticks(ticks, [_short(tick) for tick in ticks], color=INK)
        ax.set_ylim(low, high)
        ax.set_xlabel(panel.x, color=INK)
        ax.set_ylabel(panel.y, color=FAINT)
        ax.grid(color="#d0d7de", lw=0.5)
        ax.tick_params(which="both", color="#d0d7de", labelsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("#d0d7de")
        ax.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper center", bbox_to_anchor=(0.5, -0.18))
    figure.tight_layout()
    save(figure, file)
    return True


def _kind(name: str) -> str:
    """The part of a name before a colon; lines of the same kind share a colour in all panels."""
    return name.partition(":")[0]


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"

"""A picture of the trade-off between accuracy and diversity."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from drpn.drawing.pictures import FAINT, INK, new_figure, save
from drpn.escape import terminal

_COLOURS = {"mmr": "#3b82c4", "calibrated": "#e8a33d"}
_LABELS = {"mmr": "maximal marginal relevance", "calibrated": "calibrated categories"}
_PANELS = {
    "distance@10": "intra-list distance of the first ten (higher: more diverse)",
    "miscalibration@10": "distance from the categories of the user's clicks (lower: closer)",
}


def draw_diversity(points: Sequence[Mapping[str, Any]], file: Path, *, title: str) -> None:
    """Draw nDCG@10 against two kinds of diversity, one line for each method; numbers are values of the knob.

    Vertical lines are the 95 % intervals of the paired difference from the plain ranking.
    """
    figure = new_figure(12, 4.6)
    panels = [name for name in _PANELS if all(name in point for point in points)]
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, name in zip(axes, panels, strict=True):
        for method, colour in _COLOURS.items():
            _draw_line(ax, [point for point in points if point["method"] == method], name, colour, _LABELS[method])
        ax.set_xlabel(_PANELS[name], fontsize=9, color=INK)
        ax.grid(color="#d0d7de", lw=0.5)
        ax.tick_params(color="#d0d7de", labelsize=9)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color("#d0d7de")
    axes[0].set_ylabel(
        "nDCG@10\n(lines: 95 % interval of the difference from the plain ranking)", fontsize=9, color=INK
    )
    axes[0].legend(frameon=False, fontsize=9)
    figure.suptitle(terminal(title), fontsize=11, color=INK, parse_math=False)
    figure.tight_layout()
    save(figure, file)


def _draw_line(ax: Axes, points: Sequence[Mapping[str, Any]], name: str, colour: str, label: str) -> None:
    across, up = ([point[key] for point in points] for key in (name, "ndcg@10"))
    ax.plot(across, up, "-o", color=colour, ms=4, lw=1.6, label=label)
    for x, y, point in zip(across, up, points, strict=True):
        difference = point["ndcg@10_less_plain"]
        plain = y - difference["difference"]
        ax.plot(
            [x, x], [plain + difference["low"], plain + difference["high"]], color=colour, lw=1, alpha=0.4, zorder=0
        )
        if point["diversity"] in (0.0, 0.3, 0.5, 0.7, 1.0):
            knob = f"{point['diversity']:g}"
            ax.annotate(knob, (x, y), xytext=(4, 5), textcoords="offset points", fontsize=8.5, color=FAINT)

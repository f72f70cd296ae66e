"""A picture that compares systems: the AUC of each, and its difference to a base system."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from drpn.drawing.pictures import FAINT, INK, new_figure, save

_TRAINED, _BASE, _REFERENCE = "#3b82c4", "#2da44e", FAINT


def draw_comparison(
    rows: Sequence[Mapping[str, Any]], file: Path, *, base: str | None, trained: Sequence[str], names: Mapping[str, str]
) -> None:
    """Draw the AUC on all impressions with its 95 % interval, and the paired difference to `base`; best on top."""
    shown = sorted((row for row in rows if row["group"] == "all"), key=lambda row: row["auc"])
    panels = ["AUC, 95 % interval", *([f"paired difference to {names.get(base, base)}"] if base else [])]
    figure = new_figure(5.6 * len(panels) + 1, 1.1 + 0.32 * len(shown))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for place, row in enumerate(shown):
        model = row["model"]
        colour = _BASE if model == base else _TRAINED if model in trained else _REFERENCE
        low, high = row["auc_interval"]
        _draw_interval(axes[0], place, row["auc"], low, high, colour)
        if base and row["auc_less_base"]:
            difference = row["auc_less_base"]
            _draw_interval(axes[1], place, difference["difference"], difference["low"], difference["high"], colour)
    for ax, title in zip(axes, panels, strict=True):
        ax.set_title(title, fontsize=10.5, color=INK, loc="left")
        ax.grid(axis="x", color="#d0d7de", lw=0.5)
        ax.tick_params(color="#d0d7de", labelsize=9)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.spines["bottom"].set_color("#d0d7de")
    axes[0].set_yticks(range(len(shown)), [names.get(row["model"], row["model"]) for row in shown], color=INK)
    axes[0].set_ylim(-0.7, len(shown) - 0.3)
    if base:
        axes[1].axvline(0, color=_BASE, lw=1, zorder=0)
    figure.tight_layout()
    save(figure, file)


def _draw_interval(ax: Axes, place: int, value: float, low: float, high: float, colour: str) -> None:
    ax.plot([low, high], [place, place], color=colour, lw=2.2, solid_capstyle="round")
    ax.plot([value], [place], "o", color=colour, ms=5.5)

"""Pictures of what readers did."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from drpn.explain.profiles import ProfileNews, Reader

INK, FAINT = "#22272e", "#6e7781"
CAUSES = {
    "interest": ("#2da44e", "really interested"),
    "accident": ("#e8a33d", "clicked by accident, or clickbait"),
    "disliked": ("#cf4a45", "disliked"),
    "indifferent": ("#b6bec8", "indifferent"),
    "missed": ("#3b82c4", "interested, but missed"),
}
"""Colour and words for why a news was clicked or skipped."""


def draw_readers(readers: Sequence[Reader], file: Path, *, most: int = 7) -> None:
    """Clicked and skipped news of some readers side by side, newest first, coloured by why; as PNG or SVG."""
    figure = Figure(figsize=(13, 0.9 + len(readers) * (0.75 + most * 0.36)), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(readers), 2, squeeze=False, gridspec_kw={"wspace": 0.03, "hspace": 0.08})
    figure.subplots_adjust(left=0.015, right=0.985, top=0.985, bottom=0.06)
    for one, axes in zip(readers, grid, strict=True):
        for side, news, ax in (("clicked", one.clicked, axes[0]), ("skipped", one.skipped, axes[1])):
            more = f"{len(news)} news, the newest {most}" if len(news) > most else f"{len(news)} news"
            _draw_side(ax, f"Reader {one.user_id} {side}", more, news[:most], most)
    _draw_legend(figure, readers, most)
    figure.savefig(file, metadata={"Software": None} if file.suffix == ".png" else {"Date": None})


def _draw_side(ax: Axes, heading: str, count: str, news: Sequence[ProfileNews], rows: int) -> None:
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(rows + 0.1, -1.05)
    ax.text(0.004, -0.45, heading, fontsize=12, fontweight="bold", color=INK, va="center")
    ax.text(0.992, -0.45, count, fontsize=9.5, color=FAINT, va="center", ha="right")
    for row, item in enumerate(news):
        colour, _ = CAUSES.get(item.cause, ("#d0d7de", ""))
        bar = FancyBboxPatch(
            (0.004, row + 0.08), 0.988, 0.8, boxstyle="round,pad=0,rounding_size=0.012", mutation_aspect=8,
            facecolor=colour, edgecolor="none", alpha=0.22,
        )  # fmt: skip
        ax.add_patch(bar)
        ax.add_patch(FancyBboxPatch((0.004, row + 0.08), 0.010, 0.8, boxstyle="square,pad=0", color=colour, lw=0))
        ax.text(0.025, row + 0.48, item.topic, fontsize=9, color=FAINT, va="center")
        title = textwrap.shorten(item.title, 58, placeholder=" …")
        ax.text(0.255, row + 0.48, title, fontsize=9.5, color=INK, va="center")


def _draw_legend(figure: Figure, readers: Sequence[Reader], most: int) -> None:
    shown = {news.cause for one in readers for side in (one.clicked, one.skipped) for news in side[:most]}
    entries = [entry for cause, entry in CAUSES.items() if cause in shown]
    handles = [FancyBboxPatch((0, 0), 1, 1, color=colour, alpha=0.7, lw=0) for colour, _ in entries]
    labels = [words for _, words in entries]
    figure.legend(handles, labels, loc="lower center", ncols=max(1, len(entries)), frameon=False, fontsize=10)

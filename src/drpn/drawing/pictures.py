"""Pictures of profiles, and the drawing functions that they share."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch

from drpn.escape import terminal
from drpn.explanation.profiles import ProfileStory, Reader
from drpn.output import atomic_file

INK, FAINT = "#22272e", "#6e7781"
CAUSES = {
    "interest": ("#2da44e", "really interested"),
    "accident": ("#e8a33d", "clicked by accident or clickbait"),
    "disliked": ("#cf4a45", "disliked"),
    "indifferent": ("#b6bec8", "indifferent"),
    "missed": ("#3b82c4", "interested, but missed"),
}
"""Colour and label of each reason for a click or a skip."""
FORMATS = (".png", ".svg")
"""File formats of pictures."""


def draw_readers(readers: Sequence[Reader], file: Path, *, most: int = 7) -> None:
    """Draw the clicked and skipped stories of readers, newest first, coloured by their reason; as PNG or SVG."""
    figure = new_figure(13, 0.9 + len(readers) * (0.75 + most * 0.36))
    grid = figure.subplots(len(readers), 2, squeeze=False, gridspec_kw={"wspace": 0.03, "hspace": 0.08})
    figure.subplots_adjust(left=0.015, right=0.985, top=0.985, bottom=0.06)
    for reader, axes in zip(readers, grid, strict=True):
        for side, stories, ax in (("clicked", reader.clicked, axes[0]), ("skipped", reader.skipped, axes[1])):
            count = stories_text(len(stories)) + (f", the newest {most}" if len(stories) > most else "")
            _draw_side(ax, f"Reader {reader.user_id} {side}", count, stories[:most], most)
    sides = [side for reader in readers for side in (reader.clicked, reader.skipped)]
    shown = {story.cause for side in sides for story in side[:most]}
    legend_of_causes(figure, shown, loc="lower center")
    save(figure, file)


def _draw_side(ax: Axes, heading: str, count: str, stories: Sequence[ProfileStory], rows: int) -> None:
    prepare_list(ax, heading, count, rows)
    for row, story in enumerate(stories):
        colour, _ = CAUSES.get(story.cause, ("#d0d7de", ""))
        bar(ax, row, colour, alpha=0.22)
        stripe(ax, row, colour)
        write(ax, 0.025, row, story.topic, fontsize=9, color=FAINT)
        write(ax, 0.255, row, textwrap.shorten(story.title, 58, placeholder=" …"), fontsize=9.5)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; sizes are in inches."""
    figure = Figure(figsize=(width, height), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def stories_text(count: int) -> str:
    """Return for example "1 story" or "12 stories"."""
    return f"{count} story" if count == 1 else f"{count} stories"


def prepare_list(ax: Axes, heading: str, count: str, rows: int) -> None:
    """Prepare axes for a list of `rows` rows, each one unit high, under a heading."""
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(rows + 0.1, -1.05)
    write(ax, 0.004, -0.93, heading, fontsize=12, fontweight="bold")
    write(ax, 0.992, -0.93, count, fontsize=9.5, color=FAINT, ha="right")


def bar(ax: Axes, row: float, colour: Any, *, alpha: float = 1.0, rounding: float = 0.012) -> None:
    """Draw the background of a row."""
    box = FancyBboxPatch(
        (0.004, row + 0.08), 0.988, 0.8, boxstyle=f"round,pad=0,rounding_size={rounding}", mutation_aspect=8,
        facecolor=colour, edgecolor="none", alpha=alpha,
    )  # fmt: skip
    ax.add_patch(box)


def stripe(ax: Axes, row: float, colour: str, *, width: float = 0.010) -> None:
    """Draw a coloured mark at the left end of a row."""
    ax.add_patch(FancyBboxPatch((0.004, row + 0.08), width, 0.8, boxstyle="square,pad=0", color=colour, lw=0))


def write(ax: Axes, x: float, row: float, text: str, **style: Any) -> None:
    """Write text vertically centred in a row; dollar signs do not start mathematics."""
    ax.text(x, row + 0.48, terminal(text), **{"color": INK, "va": "center", "parse_math": False, **style})


def fitted(ax: Axes, text: str, width: float, size: float) -> str:
    """Return the text, shortened if it is wider than the share `width` of the axes: between words if possible."""
    canvas = ax.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    renderer: Any = canvas.get_renderer()  # type: ignore[no-untyped-call]
    available = width * ax.get_window_extent(renderer).width
    font = FontProperties(size=size)

    def fits(words: str) -> bool:
        return bool(renderer.get_text_width_height_descent(words, font, ismath=False)[0] <= available)

    text = terminal(" ".join(text.split()))
    if fits(text):
        return text
    words = text.split(" ")
    cuts = [" ".join(words[:count]) + " …" for count in range(len(words) - 1, 0, -1)]
    cuts += [words[0][:count] + "…" for count in range(len(words[0]) - 1, 0, -1)]
    return next((cut for cut in cuts if fits(cut)), "…")


def legend_of_causes(figure: Figure, shown: Iterable[str], **place: Any) -> None:
    """Draw a legend of the colours of the reasons that are shown."""
    entries = [entry for cause, entry in CAUSES.items() if cause in set(shown)]
    handles = [FancyBboxPatch((0, 0), 1, 1, color=colour, alpha=0.7, lw=0) for colour, _ in entries]
    labels = [label for _, label in entries]
    figure.legend(handles, labels, ncols=max(1, len(entries)), frameon=False, fontsize=10, **place)


def save(figure: Figure, file: Path) -> None:
    """Write the picture atomically; the same picture gives the same bytes."""
    without_date = {"Software": None} if file.suffix == ".png" else {"Date": None}
    with atomic_file(file) as scratch, matplotlib.rc_context({"svg.hashsalt": "drpn"}):
        figure.savefig(scratch, format=file.suffix.removeprefix("."), metadata=without_date)

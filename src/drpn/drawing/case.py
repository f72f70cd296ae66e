"""The paper's case-study figure: the weight of each story in a profile, and the ranked candidates."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from drpn.drawing.pictures import (
    CAUSES,
    FAINT,
    INK,
    bar,
    fitted,
    legend_of_causes,
    new_figure,
    prepare_list,
    save,
    stories_text,
    stripe,
    write,
)
from drpn.escape import terminal
from drpn.explanation.trace import SideName, Trace, TracedCandidate, TracedStory

PALE, DEEP = "#f3f2f9", "#554a9f"
"""Background of a story that has at most half of an equal share of the weight, and of one that has at least twice."""
UNREAD, TICK = "#f3f4f6", "#2da44e"
SHADES = 40
"""Steps of the colour scale in the header."""
WIDTH, ROW = 13.0, 0.36
"""Width of the figure and height of a row, in inches."""
SIDES: tuple[SideName, ...] = ("clicked", "skipped")
HEADINGS = {"clicked": "Clicked: read as interest", "skipped": "Skipped: read as dislike"}

T = TypeVar("T")
Gap = int
"""The number of rows left out at this place."""


def draw_case(trace: Trace, file: Path, *, model: str = "DRPN") -> None:
    """Draw both sequences, sorted and shaded by weight, above the ranked candidates; as PNG or SVG."""
    profile = {side: excerpt(trace.by_trust(side), best=6, worst=3) for side in SIDES}
    candidates = excerpt(trace.ranked(), best=5, worst=3, always=lambda candidate: candidate.clicked is True)
    upper = (max(3, *map(len, profile.values())) + 1.15) * ROW
    lower = (max(1, len(candidates)) + 1.15) * ROW
    stories = [row for rows in profile.values() for row in rows if isinstance(row, TracedStory)]
    causes = {story.cause for story in stories if story.cause}
    header, gap, footer = 0.95, 0.28, 0.5 if causes else 0.12
    height = header + upper + gap + lower + footer
    figure = new_figure(WIDTH, height)
    _draw_header(figure, trace, model, height)
    for side, left in zip(SIDES, (0.015, 0.5075), strict=True):
        ax = figure.add_axes((left, (footer + lower + gap) / height, 0.4775, upper / height))
        _draw_sequence(ax, trace, side, profile[side], round(upper / ROW - 1.15))
    ax = figure.add_axes((0.013, footer / height, 0.976, lower / height))
    _draw_candidates(ax, trace, candidates, round(lower / ROW - 1.15))
    if causes:
        figure.text(0.017, 0.25 / height, "The reader's true opinion:", fontsize=10, color=FAINT, va="center")
        legend_of_causes(figure, causes, loc="center left", bbox_to_anchor=(0.19, 0.25 / height))
    save(figure, file)


def excerpt(
    items: Sequence[T], *, best: int, worst: int, always: Callable[[T], bool] = lambda _: False
) -> list[T | Gap]:
    """Return the first `best` and last `worst` items and those that `always` selects; gaps are replaced by their size.

    A single item is never replaced, since its gap would take as much room.
    """
    keep = [place < best or place >= len(items) - worst or always(item) for place, item in enumerate(items)]
    rows: list[T | Gap] = []
    place = 0
    while place < len(items):
        stop = place
        while stop < len(items) and not keep[stop]:
            stop += 1
        if stop - place > 1:
            rows.append(stop - place)
            place = stop
        else:
            rows.append(items[place])
            place += 1
    return rows


def shade(weight: float, count: int) -> tuple[float, float, float]:
    """Return a colour, darker for a larger weight: PALE at half of an equal share of `count` stories, DEEP at twice."""
    depth = 0.5 + math.log2(max(weight * count, 1e-9)) / 2
    depth = min(max(depth, 0.0), 1.0)
    red, green, blue = (low + (high - low) * depth for low, high in zip(to_rgb(PALE), to_rgb(DEEP), strict=True))
    return red, green, blue


def _draw_header(figure: Figure, trace: Trace, model: str, height: float) -> None:
    kind = "denoising" if trace.aggregator.endswith("denoise") else "content-based"
    title = f"How {model} weights the profile of reader {trace.user_id}"
    style: dict[str, Any] = {"fontsize": 17, "fontweight": "bold", "va": "center", "parse_math": False}
    figure.text(0.017, 1 - 0.33 / height, terminal(title), **style)
    words = f"Darker stories have more weight in the {kind} aggregator of the semantic view. Sorted by weight."
    figure.text(0.017, 1 - 0.68 / height, words, fontsize=10.5, color=FAINT, va="center")
    ax = figure.add_axes((0.70, 1 - 0.80 / height, 0.285, 0.26 / height))
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for step in range(SHADES):
        colour = shade(2 ** (2 * step / (SHADES - 1) - 1), 1)
        ax.add_patch(Rectangle((0.62 + 0.24 * step / SHADES, 0.1), 0.25 / SHADES, 0.7, color=colour, lw=0))
    ax.text(0.60, 0.45, "half an equal share", fontsize=9.5, color=FAINT, ha="right", va="center")
    ax.text(0.99, 0.45, "twice", fontsize=9.5, color=FAINT, ha="right", va="center")


def _draw_sequence(ax: Axes, trace: Trace, side: SideName, rows: Sequence[TracedStory | Gap], rows_high: int) -> None:
    count = len(getattr(trace, side))
    read = all(story.weights for story in getattr(trace, side))
    share = f", an equal share is {_percent(1 / count)}" if count and read else ""
    heading = HEADINGS[side] if read else f"{side.capitalize()}, not read by this model"
    prepare_list(ax, heading, f"{stories_text(count)}{share}", rows_high)
    if not count:
        write(ax, 0.025, 0, f"nothing {side} yet", fontsize=10, color=FAINT, style="italic")
    for row, story in enumerate(rows):
        if isinstance(story, Gap):
            _draw_gap(ax, row, story)
            continue
        weight = trace.trust(story)
        background = to_rgb(UNREAD) if weight is None else shade(weight, count)
        ink, faint = _text_colours(background)
        bar(ax, row, background)
        if story.cause:
            stripe(ax, row, CAUSES[story.cause][0], width=0.013)
        write(ax, 0.03, row, fitted(ax, story.topic, 0.215, 9), fontsize=9, color=faint)
        write(ax, 0.26, row, fitted(ax, story.title, 0.635, 9.5), fontsize=9.5, color=ink)
        if weight is not None:
            write(ax, 0.98, row, _percent(weight), fontsize=9, color=faint, ha="right")


def _draw_candidates(ax: Axes, trace: Trace, rows: Sequence[TracedCandidate | Gap], rows_high: int) -> None:
    clicked = sum(candidate.clicked is True for candidate in trace.candidates)
    known = any(candidate.clicked is not None for candidate in trace.candidates)
    count = f"{len(trace.candidates)} candidates"
    summary = f"{count}, {clicked} clicked (✓); score" if known else f"{count}; score"
    prepare_list(ax, "Ranking for this reader", summary, rows_high)
    if not rows:
        write(ax, 0.012, 0, "no candidates", fontsize=10, color=FAINT, style="italic")
    lowest = min((candidate.score for candidate in trace.candidates), default=0.0)
    span = max((candidate.score for candidate in trace.candidates), default=0.0) - lowest
    for row, candidate in enumerate(rows):
        if isinstance(candidate, Gap):
            _draw_gap(ax, row, candidate)
            continue
        colour, alpha = (TICK, 0.18) if candidate.clicked else (UNREAD, 1.0)
        bar(ax, row, colour, alpha=alpha, rounding=0.006)
        write(ax, 0.024, row, str(candidate.rank), fontsize=9.5, color=FAINT, ha="right")
        if candidate.clicked:
            write(ax, 0.0405, row, "✓", fontsize=13, color=TICK, fontweight="bold", ha="center")
        write(ax, 0.056, row, fitted(ax, candidate.topic, 0.115, 9), fontsize=9, color=FAINT)
        write(ax, 0.18, row, fitted(ax, candidate.title, 0.55, 9.5), fontsize=9.5)
        share = (candidate.score - lowest) / span if span else 1.0
        ax.add_patch(Rectangle((0.75, row + 0.36), 0.18 * share, 0.24, color=DEEP, alpha=0.65, lw=0))
        write(ax, 0.984, row, f"{candidate.score:.2f}".replace("-", "−"), fontsize=9, color=FAINT, ha="right")


def _draw_gap(ax: Axes, row: int, count: Gap) -> None:
    write(ax, 0.5, row, f"… and {count} more …", fontsize=9, color=FAINT, ha="center")


def _text_colours(background: tuple[float, float, float]) -> tuple[str, str]:
    """Return colours of main and secondary text that are readable on the background."""
    red, green, blue = (value**2.2 for value in background)
    dark = 0.21 * red + 0.72 * green + 0.07 * blue < 0.25
    return ("white", "#efedfa") if dark else (INK, "#383d48")


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"

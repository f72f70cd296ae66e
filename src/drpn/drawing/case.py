"""The paper's case-study figure: what a model trusts of a user, and what it then ranks high and low."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

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
    list_of_news,
    new_figure,
    save,
    stripe,
    write,
)
from drpn.explain.trace import SideName, Trace, TracedCandidate, TracedStory

PALE, DEEP = "#f3f2f9", "#554a9f"
"""Grounds of a news that counts half of an even share or less, and of one that counts twice of it or more."""
UNREAD, TICK = "#f3f4f6", "#2da44e"
SHADES = 40
"""Steps of the scale that explains the shades."""
WIDTH, ROW = 13.0, 0.36
"""In inches."""
SIDES: tuple[SideName, ...] = ("clicked", "skipped")
HEADINGS = {"clicked": "Clicked, taken for interest", "skipped": "Skipped, taken for dislike"}

T = TypeVar("T")
Gap = int
"""So many that are left out."""


def draw_case(trace: Trace, file: Path, *, model: str = "DRPN") -> None:
    """Both sequences ranked and shaded by weight, above the ranked candidates; as PNG or SVG."""
    profile = {side: excerpt(trace.by_trust(side), best=6, worst=3) for side in SIDES}
    candidates = excerpt(trace.ranked(), best=5, worst=3, always=lambda one: one.clicked is True)
    upper = (max(3, *map(len, profile.values())) + 1.15) * ROW
    lower = (max(1, len(candidates)) + 1.15) * ROW
    causes = {one.cause for rows in profile.values() for one in rows if isinstance(one, TracedStory) and one.cause}
    head, between, foot = 0.95, 0.28, 0.5 if causes else 0.12
    height = head + upper + between + lower + foot
    figure = new_figure(WIDTH, height)
    _draw_head(figure, trace, model, height)
    for side, left in zip(SIDES, (0.015, 0.5075), strict=True):
        ax = figure.add_axes((left, (foot + lower + between) / height, 0.4775, upper / height))
        _draw_sequence(ax, trace, side, profile[side], round(upper / ROW - 1.15))
    ax = figure.add_axes((0.013, foot / height, 0.976, lower / height))
    _draw_candidates(ax, trace, candidates, round(lower / ROW - 1.15))
    if causes:
        figure.text(0.017, 0.25 / height, "What the reader really thought:", fontsize=10, color=FAINT, va="center")
        legend_of_causes(figure, causes, loc="center left", bbox_to_anchor=(0.19, 0.25 / height))
    save(figure, file)


def excerpt(
    items: Sequence[T], *, best: int, worst: int, always: Callable[[T], bool] = lambda _: False
) -> list[T | Gap]:
    """The first, the last and those wanted always, with the number left out in between; all of them if that is short.

    A gap of one would be as long as what it leaves out.
    """
    keep = [place < best or place >= len(items) - worst or always(one) for place, one in enumerate(items)]
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
    """Darker for a larger weight: PALE at half of an even share among `count` news, DEEP at twice of it."""
    depth = 0.5 + math.log2(max(weight * count, 1e-9)) / 2
    depth = min(max(depth, 0.0), 1.0)
    red, green, blue = (low + (high - low) * depth for low, high in zip(to_rgb(PALE), to_rgb(DEEP), strict=True))
    return red, green, blue


def _draw_head(figure: Figure, trace: Trace, model: str, height: float) -> None:
    kind = "denoising" if trace.aggregator.endswith("denoise") else "content-based"
    title = f"What {model} trusts of reader {trace.user_id}"
    figure.text(0.017, 1 - 0.33 / height, title, fontsize=17, fontweight="bold", va="center", parse_math=False)
    words = f"The darker, the more a news counts in the {kind} aggregator of the semantic view; the most trusted first."
    figure.text(0.017, 1 - 0.68 / height, words, fontsize=10.5, color=FAINT, va="center")
    ax = figure.add_axes((0.70, 1 - 0.80 / height, 0.285, 0.26 / height))
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for step in range(SHADES):
        colour = shade(2 ** (2 * step / (SHADES - 1) - 1), 1)
        ax.add_patch(Rectangle((0.62 + 0.24 * step / SHADES, 0.1), 0.25 / SHADES, 0.7, color=colour, lw=0))
    ax.text(0.60, 0.45, "half an even share", fontsize=9.5, color=FAINT, ha="right", va="center")
    ax.text(0.99, 0.45, "twice", fontsize=9.5, color=FAINT, ha="right", va="center")


def _draw_sequence(ax: Axes, trace: Trace, side: SideName, rows: Sequence[TracedStory | Gap], room: int) -> None:
    count = len(getattr(trace, side))
    read = all(one.weights for one in getattr(trace, side))
    even = f", an even share is {_percent(1 / count)}" if count and read else ""
    heading = HEADINGS[side] if read else f"{side.capitalize()}, not read by this model"
    list_of_news(ax, heading, f"{count} news{even}", room)
    if not count:
        write(ax, 0.025, 0, f"nothing {side} yet", fontsize=10, color=FAINT, style="italic")
    for row, one in enumerate(rows):
        if isinstance(one, Gap):
            _draw_gap(ax, row, one)
            continue
        weight = trace.trust(one)
        ground = to_rgb(UNREAD) if weight is None else shade(weight, count)
        ink, faint = _inks(ground)
        bar(ax, row, ground)
        if one.cause:
            stripe(ax, row, CAUSES[one.cause][0], width=0.013)
        write(ax, 0.03, row, fitted(ax, one.topic, 0.215, 9), fontsize=9, color=faint)
        write(ax, 0.26, row, fitted(ax, one.title, 0.635, 9.5), fontsize=9.5, color=ink)
        if weight is not None:
            write(ax, 0.98, row, _percent(weight), fontsize=9, color=faint, ha="right")


def _draw_candidates(ax: Axes, trace: Trace, rows: Sequence[TracedCandidate | Gap], room: int) -> None:
    clicked = sum(one.clicked is True for one in trace.candidates)
    known = any(one.clicked is not None for one in trace.candidates)
    count = f"{len(trace.candidates)} candidates"
    list_of_news(
        ax,
        "Ranked for this reader",
        f"{count}, {clicked} really clicked (✓); score" if known else f"{count}; score",
        room,
    )
    if not rows:
        write(ax, 0.012, 0, "no candidates", fontsize=10, color=FAINT, style="italic")
    lowest = min((one.score for one in trace.candidates), default=0.0)
    span = max((one.score for one in trace.candidates), default=0.0) - lowest
    for row, one in enumerate(rows):
        if isinstance(one, Gap):
            _draw_gap(ax, row, one)
            continue
        bar(ax, row, TICK if one.clicked else UNREAD, alpha=0.18 if one.clicked else 1.0, rounding=0.006)
        write(ax, 0.024, row, str(one.rank), fontsize=9.5, color=FAINT, ha="right")
        if one.clicked:
            write(ax, 0.0405, row, "✓", fontsize=13, color=TICK, fontweight="bold", ha="center")
        write(ax, 0.056, row, fitted(ax, one.topic, 0.115, 9), fontsize=9, color=FAINT)
        write(ax, 0.18, row, fitted(ax, one.title, 0.55, 9.5), fontsize=9.5)
        share = (one.score - lowest) / span if span else 1.0
        ax.add_patch(Rectangle((0.75, row + 0.36), 0.18 * share, 0.24, color=DEEP, alpha=0.65, lw=0))
        write(ax, 0.984, row, f"{one.score:.2f}".replace("-", "−"), fontsize=9, color=FAINT, ha="right")


def _draw_gap(ax: Axes, row: int, count: Gap) -> None:
    write(ax, 0.5, row, f"… and {count} more …", fontsize=9, color=FAINT, ha="center")


def _inks(ground: tuple[float, float, float]) -> tuple[str, str]:
    """Colours of text and of lesser text that can be read on a ground."""
    red, green, blue = (value**2.2 for value in ground)
    dark = 0.21 * red + 0.72 * green + 0.07 * blue < 0.25
    return ("white", "#efedfa") if dark else (INK, "#383d48")


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.1 else f"{share:.0%}"

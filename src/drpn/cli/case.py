"""A traced user as tables on a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:  # the model behind a trace takes a second to load
    from drpn.explain.trace import SideName, Trace

NUMBERS = ("rank", "weight", "score", "semantic", "collaborative")


def print_case(trace: "Trace", *, most: int = 10) -> None:
    """The profile, the most trusted news first, and the candidates by rank."""
    console = Console()
    console.print(f"\n[bold]Reader {escape(trace.user_id)}[/], by weight in the aggregator '{trace.aggregator}'")
    _print_side(console, trace, "clicked", "green", most)
    _print_side(console, trace, "skipped", "red", most)
    _print_candidates(console, trace, most)


def _print_side(console: Console, trace: "Trace", side: "SideName", colour: str, most: int) -> None:
    news = trace.by_trust(side)
    ignored = any(not one.weights for one in news)
    console.print(f" [{colour}]{side}[/] {len(news)}" + (", which this model does not read" if ignored else ""))
    rows = []
    for one in news[:most]:
        weight = trace.trust(one)
        rows.append(["–" if weight is None else f"{weight:.3f}", one.topic, one.cause, one.title])
    _print_table(console, ["weight", "topic", "really", "title"], rows, len(news) - len(rows))


def _print_candidates(console: Console, trace: "Trace", most: int) -> None:
    known = any(one.clicked is not None for one in trace.candidates)
    clicked = sum(one.clicked is True for one in trace.candidates)
    console.print(f" [bold]ranked[/] {len(trace.candidates)}" + (f", {clicked} of them clicked" if known else ""))
    shown = [one for one in trace.ranked() if one.rank <= most or one.clicked]
    views = list(shown[0].parts) if shown else []
    rows = [
        [
            str(one.rank),
            f"{one.score:.3f}",
            *(f"{one.parts[view]:.3f}" for view in views),
            "✓" if one.clicked else "",
            one.topic,
            one.title,
        ]
        for one in shown
    ]
    _print_table(console, ["rank", "score", *views, "", "topic", "title"], rows, len(trace.candidates) - len(shown))


def _print_table(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]], more: int) -> None:
    """Columns that are empty throughout are left out; only the last gives way where the terminal is narrow."""
    widths = [max([len(name), *(len(row[place]) for row in rows)]) for place, name in enumerate(names)]
    kept = [place for place in range(len(names)) if any(row[place] for row in rows)]
    room = console.width - sum(widths[place] + 2 for place in kept[:-1]) - 2
    table = Table(box=None, header_style="dim", padding=(0, 1))
    for place in kept:
        width = max(room, 10) if place == kept[-1] else widths[place]
        justify: Literal["left", "right"] = "right" if names[place] in NUMBERS else "left"
        table.add_column(names[place], justify=justify, width=width, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(row[place]) for place in kept))
    if rows:
        console.print(table)
    if more:
        console.print(f"  [dim]… and {more} more[/]")

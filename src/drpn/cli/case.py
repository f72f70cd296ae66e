"""Print the trace of one user as tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drpn.escape import terminal

if TYPE_CHECKING:  # the module loads torch, which takes a second
    from drpn.explanation.trace import SideName, Trace

NUMBERS = ("rank", "weight", "score", "semantic", "collaborative")


def print_case(trace: "Trace", *, most: int = 10) -> None:
    """Print the profile, highest weight first, and the candidates by rank; at most `most` rows per table."""
    console = Console()
    console.print()
    heading = Text.assemble((f"Reader {terminal(trace.user_id)}", "bold"), ", stories by weight in the ")
    console.print(heading.append(f"'{trace.aggregator}' aggregator"))
    _print_side(console, trace, "clicked", "green", most)
    _print_side(console, trace, "skipped", "red", most)
    _print_candidates(console, trace, most)


def _print_side(console: Console, trace: "Trace", side: "SideName", colour: str, most: int) -> None:
    stories = trace.by_trust(side)
    ignored = any(not story.weights for story in stories)
    console.print(f" [{colour}]{side}[/] {len(stories)}" + (", which this model does not read" if ignored else ""))
    rows = []
    for story in stories[:most]:
        weight = trace.trust(story)
        rows.append(["–" if weight is None else f"{weight:.3f}", story.topic, story.cause, story.title])
    _print_table(console, ["weight", "topic", "true reason", "title"], rows, len(stories) - len(rows))


def _print_candidates(console: Console, trace: "Trace", most: int) -> None:
    known = any(candidate.clicked is not None for candidate in trace.candidates)
    clicked = sum(candidate.clicked is True for candidate in trace.candidates)
    console.print(f" [bold]ranked[/] {len(trace.candidates)}" + (f", {clicked} of them clicked" if known else ""))
    shown = [candidate for candidate in trace.ranked() if candidate.rank <= most or candidate.clicked]
    views = list(shown[0].parts) if shown else []
    rows = [
        [
            str(candidate.rank),
            f"{candidate.score:.3f}",
            *(f"{candidate.parts[view]:.3f}" for view in views),
            "✓" if candidate.clicked else "",
            candidate.topic,
            candidate.title,
        ]
        for candidate in shown
    ]
    _print_table(console, ["rank", "score", *views, "", "topic", "title"], rows, len(trace.candidates) - len(shown))


def _print_table(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]], more: int) -> None:
    """Print a table without its empty columns; only the last column shrinks on a narrow terminal."""
    rows = [[terminal(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[column]) for row in rows)]) for column, name in enumerate(names)]
    used = [column for column in range(len(names)) if any(row[column] for row in rows)]
    left = console.width - sum(widths[column] + 2 for column in used[:-1]) - 2
    table = Table(box=None, header_style="dim", padding=(0, 1))
    for column in used:
        width = max(left, 10) if column == used[-1] else widths[column]
        justify: Literal["left", "right"] = "right" if names[column] in NUMBERS else "left"
        table.add_column(names[column], justify=justify, width=width, no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(row[column]) for column in used))
    if rows:
        console.print(table)
    if more:
        console.print(f"  [dim]… and {more} more[/]")

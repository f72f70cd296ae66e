"""Print the results of the demo."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drpn.cli.case import print_case
from drpn.cli.printed_evaluation import print_diversity
from drpn.cli.printing import short_difference, stretches
from drpn.cli.text import literal, say, typed
from drpn.escape import terminal

if TYPE_CHECKING:  # these modules load torch, which `drpn --help` should not wait for
    from drpn.explanation.profiles import Reader
    from drpn.recipes.demo import Demo, Measured


def demo(result: "Demo") -> None:
    """Print the results of the demo, and commands to try next."""
    from drpn.recipes.demo import NOISY, SITE

    if result.trained:
        _print_demo_systems(SITE.about, result.trained.live)
        print()
        _print_demo_systems(NOISY.about, result.trained.noise)
        _print_noise_auc(result.trained.noise_auc)
        print_case(result.trained.case, most=5)
    else:
        for newsroom, numbers in ((SITE, result.live), (NOISY, result.noise)):
            print(f"{newsroom.about}\n")
            stretches(numbers["stretches"])
            print()
        for reader in result.readers:
            profile(reader)
    print("\nThe true reason of a click or skip is known only because the logs are simulated.\n")
    say(f"Logs, datasets and runs: {result.out}/{SITE.folder}, {result.out}/{NOISY.folder}")
    if result.trained:
        pictures = {
            "live.png": "all systems on the live site",
            "case.png": "which feedback drpn-planted trusted",
            "readers.png": "three readers",
        }
        say(f"Pictures: {', '.join(f'{result.out}/{name} ({what})' for name, what in pictures.items())}")
        print("Try next:")
        run, other = f"{result.out}/{NOISY.folder}/drpn-planted", result.readers[0].user_id
        say(f"  drpn recommend {typed(run)} --user {typed(result.trained.case.user_id)}")
        say(f"  drpn explain {typed(run)} --user {typed(other)} --out other.png")
        site = f"{result.out}/{SITE.folder}"
        say(f"  drpn replay {typed(f'{site}/drpn-live')} {typed(f'{site}/logs')}    serve the live site, and watch")
    else:
        say(f"Picture: {result.out}/readers.png")
        print("Try next:")
        print("  drpn demo                         train, measure and explain small models of both, in minutes")
    print("  drpn prepare LOGS --out FOLDER    use your own logs; drpn prepare --help lists the formats")


def profile(reader: "Reader", *, most: int = 6) -> None:
    """Print the newest `most` clicked and skipped stories of a reader, with the true reason for each."""
    console = Console()
    console.print()
    console.print(Text.assemble((f"Reader {terminal(reader.user_id)}", "bold"), ", newest first"))
    for side, stories, colour in (("clicked", reader.clicked, "green"), ("skipped", reader.skipped, "red")):
        console.print(f" [{colour}]{side}[/] {len(stories)}")
        table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
        table.add_column(no_wrap=True, style="dim", min_width=18)
        table.add_column(no_wrap=True, style="italic", min_width=11)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for story in stories[:most]:
            table.add_row(Text(terminal(story.topic)), story.cause, Text(terminal(story.title)))
        console.print(table)


def _print_demo_systems(about: str, measured: "Measured") -> None:
    """Print every system of a newsroom, and how far the first is ahead of each of the others."""
    from drpn.evaluation.metrics import METRICS

    rows = [row for row in measured.evaluation.rows if row["group"] == "all"]
    ahead = {row["against"]: row for row in measured.evaluation.comparisons}
    table = Table("", *METRICS, f"auc lead of {rows[0]['model']}, 95 %", box=None, pad_edge=False)
    table.title = f"{measured.clicks:,} clicks to train on, {rows[0]['impressions']:,} test impressions"
    table.title_justify = "left"
    for row in rows:
        cells = [f"{row[name]:.4f}" for name in METRICS]
        table.add_row(literal(row["model"]), *cells, short_difference(ahead.get(row["model"])))
    table.columns[0].no_wrap = True
    console = Console()
    console.print(f"[bold]{about}[/]\n")
    console.print(table)
    console.print()
    print_diversity(console, rows)


def _print_noise_auc(rows: "list[dict[str, Any]]") -> None:
    """Print the noise AUC of denoising weights, the rule and the ceilings."""
    table = Table("", "clicked", "skipped", box=None, pad_edge=False)
    for row in rows:
        cells = []
        for side in ("clicked", "skipped"):
            numbers = row.get(side)
            low, high = numbers["interval"] if numbers else (0, 0)
            cells.append(f"{numbers['auc']:.3f} [dim]{low:.3f}–{high:.3f}[/]" if numbers else "–")
        table.add_row(row["weights"], *cells)
    console = Console()
    console.print("\nNoise AUC of the denoising weights: is the noise found? (0.5 is chance)")
    console.print(table)
    console.print("[dim]Ceilings: classifiers that learned the truth, from this evidence alone[/]")

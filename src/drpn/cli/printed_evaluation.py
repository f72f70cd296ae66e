"""Print how well models rank, how diverse their lists are, and what their weights are worth."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from drpn.cli.text import literal

if TYPE_CHECKING:  # loads torch, which `drpn --help` should not wait for
    from drpn.recipes.evaluate import Evaluation

GROUP_TITLES = {
    "all": "All users",
    "with_profile": "Users with a profile",
    "without_profile": "Users without a profile",
}


def evaluation(evaluated: "Evaluation") -> None:
    """Print the metrics of a model and its references, then what its weights are worth."""
    from drpn.evaluation.metrics import METRICS

    console = Console()
    for group, title in GROUP_TITLES.items():
        rows = [row for row in evaluated.rows if row["group"] == group]
        if not rows[0]["impressions"]:
            continue
        table = Table("", *METRICS, title=f"{title}, {rows[0]['impressions']:,} impressions", box=None, pad_edge=False)
        table.title_justify = "left"
        for row in rows:
            table.add_row(literal(row["model"]), *[_with_interval(row, name) for name in METRICS])
        console.print(table)
        console.print()
    print_diversity(console, [row for row in evaluated.rows if row["group"] == "all"], intervals=True)
    console.print()
    for row in evaluated.comparisons:
        console.print(
            f"AUC of {literal(row['model'])} minus AUC of {literal(row['against'])}: {row['difference']:+.4f} "
            f"(95 % interval {row['low']:+.4f} to {row['high']:+.4f})"
        )
    if evaluated.noise:
        _print_noise(console, evaluated.noise)
    if evaluated.read_times:
        _print_read_times(console, evaluated.read_times)
    if evaluated.faithful:
        _print_faithfulness(console, evaluated.faithful)


def _with_interval(row: dict[str, Any], name: str, digits: int = 4) -> str:
    if row[name] is None:
        return "–"
    low, high = row[f"{name}_interval"]
    return f"{row[name]:.{digits}f} [dim]{low:.{digits - 1}f}–{high:.{digits - 1}f}[/]"


def print_diversity(console: Console, rows: list[dict[str, Any]], *, intervals: bool = False) -> None:
    """Print how diverse the first ten stories of each impression are; nothing if no system has these numbers."""
    digits = {"distance@10": 4, "coverage@10": 4, "concentration@10": 4, "novelty@10": 2}
    rows = [row for row in rows if row.get("distance@10") is not None]
    if not rows:
        return
    heads = (name.removesuffix("@10") for name in digits)
    table = Table("", *heads, title="Diversity of the first ten stories, all users", box=None, pad_edge=False)
    table.title_justify = "left"
    for row in rows:
        cells = (
            _with_interval(row, name, places) if intervals else f"{row[name]:.{places}f}"
            for name, places in digits.items()
        )
        table.add_row(literal(row["model"]), *cells)
    console.print(table)


def _print_noise(console: Console, noise: dict[str, Any]) -> None:
    console.print("\nNoise AUC: do the weights separate real feedback from noise? (0.5 is chance)")
    console.print(
        "[dim]Ceilings: classifiers that learned the truth, from the rest of the profile or the story alone[/]"
    )
    for side, kinds in noise.items():
        for kind, numbers in kinds.items():
            low, high = numbers["interval"]
            console.print(
                f"  {side}, {kind}: {numbers['auc']:.3f} ({low:.3f} to {high:.3f}; {numbers['users']:,} users)"
            )


def _print_read_times(console: Console, numbers: dict[str, Any]) -> None:
    console.print(
        f"\nRead times: do clicks with large weights get read for {numbers['seconds']:g} seconds or more? "
        f"({numbers['clicks']:,} clicks of profiles, {100 * numbers['read']:.1f} % read)"
    )
    for name, row in numbers["weights"].items():
        low, high = row["interval"]
        console.print(
            f"  {name}: AUC within users {row['auc']:.3f} ({low:.3f} to {high:.3f}; {row['users']:,} users)"
            f"{_rank_correlation(row)}; AUC over the clicks of all users {row['pooled_auc']:.3f}"
        )
    for row in numbers["differences"]:
        low, high = row["interval"]
        console.print(
            f"  AUC within users of {row['weights']} minus that of {row['against']}: {row['difference']:+.3f} "
            f"({low:+.3f} to {high:+.3f})"
        )


def _rank_correlation(row: dict[str, Any]) -> str:
    """Return the rank correlation with read seconds; empty if the weights of each user are all equal."""
    if row["rank_correlation"] is None:
        return ""
    low, high = row["rank_correlation_interval"]
    return f", rank correlation with the seconds {row['rank_correlation']:+.3f} ({low:+.3f} to {high:+.3f})"


def _print_faithfulness(console: Console, numbers: dict[str, Any]) -> None:
    low, high = numbers["most_less_random_interval"]
    console.print(
        f"\nFaithfulness: removing the {numbers['side']} story with the highest weight changes the scores by "
        f"{numbers['most']:.4f}, removing a random one by {numbers['random']:.4f}; difference "
        f"{numbers['most_less_random']:+.4f} ({low:+.4f} to {high:+.4f})"
    )

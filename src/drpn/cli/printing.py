"""Print results to the terminal, as tables and short sentences."""

import dataclasses
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from drpn.cli.printed_evaluation import GROUP_TITLES, print_diversity
from drpn.cli.text import literal, say, typed
from drpn.escape import terminal

if TYPE_CHECKING:  # these modules load torch or a query engine, which `drpn --help` should not wait for
    from drpn.bundle.requests import Ranking
    from drpn.dataset.folder import Dataset
    from drpn.experiments.compare import Compared
    from drpn.experiments.reproduce import Reproduced
    from drpn.experiments.tune import Tuned
    from drpn.logs.simulate import Simulated
    from drpn.recipes.models import Description
    from drpn.recipes.runs import Run


def as_json(document: Any) -> None:
    """Print one JSON document to standard output."""
    json.dump(document, sys.stdout, indent=2)
    print()


def simulation(simulated: "Simulated", out: Path) -> None:
    """Print the size of a simulated log, and the next command."""
    say(
        f"{out}: {simulated.users:,} users, {simulated.news:,} stories, {simulated.impressions:,} impressions, "
        f"{simulated.clicks:,} clicks"
    )
    say(f"next: drpn prepare {typed(out)} --out {typed(f'{out}-dataset')}")


def prepared_dataset(dataset: "Dataset", out: Path) -> None:
    """Print the size of a new dataset, and the next command."""
    numbers = dataset.statistics
    say(
        f"{out}: {numbers['profile_users']:,} user profiles with on average {numbers['mean_clicked']:.2f} clicked and "
        f"{numbers['mean_skipped']:.2f} skipped stories; {numbers['impressions']['train']:,} training impressions"
    )
    stretches(numbers["stretches"])
    left_out = sum(numbers.get("impressions_left_out", {}).values())
    if left_out:
        say(f"left out: {left_out:,} impressions of users without a profile")
    say(f"next: drpn stats {typed(out)}")


def stretches(measured: dict[str, dict[str, Any]]) -> None:
    """Print the dates and counts of the profile window and of each split.

    The last column counts impressions with both a click and a skip, which can train or be measured.
    """
    from drpn.dataset.folder import STRETCHES

    table = Table("", "from", "to", "impressions", "click and skip", box=None, pad_edge=False)
    for column in table.columns[3:]:
        column.justify = "right"
    for name, stretch in measured.items():
        times = [stretch[end][:16].replace("T", " ") for end in ("first", "last")]
        samples = f"{stretch['samples']:,}" if "samples" in stretch else ""
        table.add_row(STRETCHES[name], *times, f"{stretch['impressions']:,}", samples)
    Console().print(table)


def trained_run(run: "Run") -> None:
    """Print the result of a training, and the next command."""
    manifest = run.manifest
    metrics = manifest["metrics"]
    say(
        f"{run.path}: {manifest['model']} trained in {manifest['training']['seconds']:.0f} s, best validation AUC "
        f"{metrics['validation_auc']:.4f} in epoch {metrics['best_epoch']}"
    )
    say(f"next: drpn evaluate {typed(run.path)}")


def comparison(compared: "Compared") -> None:
    """Print every system on all impressions and its difference from the first, then where the tables are."""
    from drpn.evaluation.metrics import METRICS
    from drpn.experiments.claims import judged_by, tally
    from drpn.experiments.pages import base_name, shown_groups

    about = compared.about
    rows = [row for row in compared.rows if row["group"] == "all"]
    base = base_name(about["base"]) if about["base"] else ""
    table = Table("", *METRICS, *([f"auc minus {base}'s, 95 %"] if base else []), box=None, pad_edge=False)
    group = "with_profile" if len(shown_groups(compared.rows)) == 1 else "all"
    table.title, table.title_justify = f"{GROUP_TITLES[group]}, {rows[0]['impressions']:,} impressions", "left"
    for row in rows:
        cells = ["–" if row[name] is None else f"{row[name]:.4f}" for name in METRICS]
        if row["auc_deviation"] is not None:
            cells[0] += f" [dim]±{row['auc_deviation']:.4f}[/]"
        table.add_row(literal(row["model"]), *cells, *([short_difference(row["auc_less_base"])] if base else []))
    for column in table.columns:
        column.no_wrap = True
    console = Console()
    console.print(table)
    console.print()
    print_diversity(console, rows)
    models, seeds, comparisons = len(about["models"]), len(about["seeds"]), about["comparisons"]
    caution = f"; {comparisons} comparisons with {base}, expect one interval in twenty to miss by chance"
    print(
        f"{models} model{'s' if models > 1 else ''}, {seeds} seed{'s' if seeds > 1 else ''} each"
        + (caution if comparisons > 1 else "")
    )
    judged = compared.claims[judged_by(compared.claims)]
    if any(claim.pairs for claim in judged):
        verdicts = tally(Counter(claim.verdict for claim in judged))
        say(f"the paper's claims on these data: {verdicts}; see {compared.out}/claims.md")
    say(f"tables: {compared.out}/table2.md, {compared.out}/table3.md (also .tex); picture: {compared.out}/compare.png")


def short_difference(compared: dict[str, float] | None) -> str:
    """A difference with its interval, short enough for a terminal of 80 columns."""
    if compared is None:
        return ""
    return f"{compared['difference']:+.4f} ({compared['low']:+.3f} to {compared['high']:+.3f})"


def reproduction(reproduced: "Reproduced") -> None:
    """Print the table of all systems, then each claim of the paper with its verdict."""
    from drpn.experiments.claims import judged_by
    from drpn.experiments.pages import difference

    compared = reproduced.compared
    comparison(compared)
    if compared.about["data"]["mind_large"]:
        _print_paper(compared)
    print("\nThe paper's claims:")
    for claim in compared.claims[judged_by(compared.claims)]:
        pairs = claim.pairs
        numbers = difference(dataclasses.asdict(pairs[0])) if len(pairs) == 1 else f"{len(pairs)} comparisons"
        print(f"  {claim.verdict:14} {claim.claim.words}" + (f": {numbers}" if pairs else ""))
    say(f"all comparisons: {compared.out}/claims.md; statistics of the data: {compared.out}/table1.md")


def _print_paper(compared: "Compared") -> None:
    """Print the metrics of each system that the paper measured, each next to the paper's number."""
    from drpn.evaluation.metrics import METRICS
    from drpn.experiments.claims import judged_by
    from drpn.experiments.pages import names_of
    from drpn.experiments.paper import TABLE2, TABLE3

    reported, group = TABLE2 | TABLE3, judged_by(compared.claims)
    table = Table("", *(head for name in METRICS for head in (name, "paper")), box=None, pad_edge=False)
    table.title, table.title_justify = f"{GROUP_TITLES[group]}, next to the paper's Tables 2 and 3", "left"
    for row in compared.rows:
        if row["group"] == group and row["model"] in reported:
            pairs = zip((row[name] for name in METRICS), reported[row["model"]], strict=True)
            cells = [text for ours, theirs in pairs for text in (f"{ours:.4f}", f"{theirs / 100:.4f}")]
            table.add_row(names_of(compared.runs)[row["model"]], *cells)
    for column in table.columns:
        column.no_wrap = True
    print()
    Console().print(table)


def tuned(result: "Tuned") -> None:
    """Print the trials of a search, and the next command."""
    names = list(result.best.values)
    table = Table("trial", "validation AUC", *names, "", box=None, pad_edge=False)
    for column in table.columns[:-1]:
        column.justify = "right"
    for trial in result.trials:
        auc = "diverged" if trial.validation_auc is None else f"{trial.validation_auc:.4f}"
        values = [f"{trial.values[name]:g}" for name in names]
        table.add_row(str(trial.number), auc, *values, "best" if trial == result.best else "")
    Console().print(table)
    search = result.search
    say(f"settings of the best trial: {result.out}")
    folder, file = typed(search.dataset.path), typed(result.out)
    say(f"next: drpn train {folder} --out run --model {search.model} --config {file}")


def ranking(ranked: "Ranking") -> None:
    """Print a ranking as a table; with the reason and the rank by score if any story is not where its score puts it."""
    mixed = any(row.rank != row.plain_rank or row.reason != "ranked" for row in ranked.rows)
    heads = ["", "story", "score", *(["reason", "by score"] if mixed else []), "title"]
    table = Table(*heads, box=None, pad_edge=False)
    for row in ranked.rows:
        why = [row.reason, str(row.plain_rank)] if mixed else []
        numbers = [f"{row.score:.3f}", *why]
        table.add_row(str(row.rank), Text(terminal(row.news_id)), *numbers, Text(terminal(row.title)))
    Console().print(table)


def catalogue(models: "list[Description]") -> None:
    """Print each model with the feedback it reads, its paper, its sizes and the settings `drpn prepare` needs."""
    table = Table("model", "reads", "paper, default sizes, settings for drpn prepare", box=None, pad_edge=False)
    for model in models:
        lines = [escape(model.paper), f"[dim]{model.sizes}[/]"]
        lines += [f"prepare with {needed}" for needed in model.prepare]
        lines += [f"prepare with {needed} [dim]for {setting}[/]" for setting, needed in model.more.items()]
        table.add_row(model.name, ", ".join(model.reads), "\n".join(lines))
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    Console().print(table)


def statistics(numbers: dict[str, Any]) -> None:
    """Print the statistics of a dataset next to those of MIND in the paper."""
    from drpn.experiments.table1 import READING, table1

    table = Table("", "here", "MIND, in the paper", title="Dataset", title_justify="left", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in table1(numbers):
        table.add_row(*row)
    Console().print(table, READING, sep="\n")
    if "stretches" in numbers:  # folders of older versions have none
        print()
        stretches(numbers["stretches"])

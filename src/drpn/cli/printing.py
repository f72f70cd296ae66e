"""How outcomes look on a terminal."""

import dataclasses
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from drpn.cli.case import print_case
from drpn.evaluation.metrics import METRICS
from drpn.experiments.claims import judged_by, tally
from drpn.experiments.pages import difference
from drpn.experiments.table1 import table1

if TYPE_CHECKING:  # these need what a machine that only trains may not have
    from drpn.bundle.recommender import Ranking
    from drpn.dataset.folder import Dataset
    from drpn.experiments.compare import Compared
    from drpn.experiments.reproduce import Reproduced
    from drpn.experiments.tune import Tuned
    from drpn.explain.profiles import Reader
    from drpn.logs.simulate import Simulated
    from drpn.recipes.demo import Demo
    from drpn.recipes.evaluate import Evaluation
    from drpn.recipes.models import Description
    from drpn.recipes.runs import Run


def as_json(document: Any) -> None:
    """One JSON document on standard output."""
    json.dump(document, sys.stdout, indent=2)
    print()


def simulated(done: "Simulated", out: Path) -> None:
    """What a simulation wrote, and what to type next."""
    print(
        f"{done.users:,} users, {done.news:,} news, {done.impressions:,} impressions, {done.clicks:,} clicks in {out}"
    )
    print(f"next: drpn prepare {out} --out {out}-dataset")


def prepared(dataset: "Dataset", out: Path) -> None:
    """Where a dataset is, and what to type next."""
    numbers = dataset.statistics
    print(
        f"{numbers['profile_users']:,} profiles of {numbers['mean_clicked']:.2f} clicked and "
        f"{numbers['mean_skipped']:.2f} skipped news, {numbers['impressions']['train']:,} to train on: {out}"
    )
    print(f"next: drpn stats {out}")


def trained(run: "Run") -> None:
    """How a training ended, and what to type next."""
    bundle = run.bundle().manifest
    print(
        f"{bundle['model']}: validation AUC {bundle['metrics']['validation_auc']:.4f} after pass "
        f"{bundle['metrics']['best_epoch']}, {bundle['training']['seconds']:.0f} s; bundle and curve: {run.path}"
    )
    print(f"next: drpn evaluate {run.path}")


def evaluation(found: "Evaluation") -> None:
    """The table of a model and what it stands beside, then what its weights are worth."""
    console = Console()
    titles = {"all": "all impressions", "with_profile": "users with a profile", "without_profile": "without a profile"}
    for group, title in titles.items():
        rows = [row for row in found.rows if row["group"] == group]
        table = Table("", *METRICS, title=f"{title}, {rows[0]['impressions']:,} impressions", box=None, pad_edge=False)
        table.title_justify = "left"
        for row in rows:
            table.add_row(row["model"], *[_with_interval(row, name) for name in METRICS])
        console.print(table)
        console.print()
    for row in found.comparisons:
        console.print(
            f"AUC of {row['model']} less that of {row['against']}: {row['difference']:+.4f} "
            f"({row['low']:+.4f} to {row['high']:+.4f})"
        )
    if found.noise:
        console.print("\nNoise AUC, 0.5 being chance: do the weights tell real feedback from noise?")
        for side, kinds in found.noise.items():
            for kind, numbers in kinds.items():
                low, high = numbers["interval"]
                console.print(
                    f"  {side}, {kind}: {numbers['auc']:.3f} ({low:.3f} to {high:.3f}; {numbers['users']:,} users)"
                )
    if found.faithful:
        numbers = found.faithful
        low, high = numbers["most_less_random_interval"]
        console.print(
            f"\nFaithful? Without the most trusted {numbers['side']} news scores move by {numbers['most']:.4f}, "
            f"without a random one by {numbers['random']:.4f}: {numbers['most_less_random']:+.4f} more "
            f"({low:+.4f} to {high:+.4f})"
        )


def _with_interval(row: dict[str, Any], name: str) -> str:
    if row[name] is None:
        return "–"
    low, high = row[f"{name}_interval"]
    return f"{row[name]:.4f} [dim]{low:.3f}–{high:.3f}[/]"


def comparison(found: "Compared") -> None:
    """Every system on all impressions and how it stands to DRPN; then where the tables are."""
    about = found.about
    rows = [row for row in found.rows if row["group"] == "all"]
    table = Table("", *METRICS, *(["auc less DRPN's, 95 %"] if about["base"] else []), box=None, pad_edge=False)
    table.title, table.title_justify = f"all impressions, {rows[0]['impressions']:,}", "left"
    for row in rows:
        cells = ["–" if row[name] is None else f"{row[name]:.4f}" for name in METRICS]
        if row["auc_deviation"] is not None:
            cells[0] += f" [dim]±{row['auc_deviation']:.4f}[/]"
        table.add_row(row["model"], *cells, *([_less(row["auc_less_base"])] if about["base"] else []))
    for column in table.columns:
        column.no_wrap = True
    Console().print(table)
    seeds = len(about["seeds"])
    models, compared = len(about["models"]), about["comparisons"]
    print(
        f"{models} model{'s' if models > 1 else ''}, {seeds} seed{'s' if seeds > 1 else ''} each"
        + (f"; {compared} comparisons with DRPN, of which one in twenty misses by chance" if compared > 1 else "")
    )
    judged = found.claims[judged_by(found.claims)]
    if any(one.pairs for one in judged):
        verdicts = tally(Counter(one.verdict for one in judged))
        print(f"the paper's claims on these data: {verdicts}; {found.out}/claims.md")
    print(f"tables: {found.out}/table2.md, {found.out}/table3.md (.tex too); picture: {found.out}/compare.png")


def _less(found: dict[str, float] | None) -> str:
    """A difference that fits a terminal of 80 columns."""
    return "" if found is None else f"{found['difference']:+.4f} ({found['low']:+.3f} to {found['high']:+.3f})"


def reproduction(done: "Reproduced") -> None:
    """The table of all systems, then each claim of the paper with its verdict."""
    comparison(done.compared)
    print("\nThe paper's claims:")
    for one in done.compared.claims[judged_by(done.compared.claims)]:
        single = len(one.pairs) == 1
        numbers = difference(dataclasses.asdict(one.pairs[0])) if single else f"{len(one.pairs)} comparisons"
        print(f"  {one.verdict:14} {one.claim.words}" + (f": {numbers}" if one.pairs else ""))
    print(f"in full: {done.compared.out}/claims.md; the data: {done.compared.out}/table1.md")


def tuned(found: "Tuned") -> None:
    """The trials of a search, and what to type next."""
    names = list(found.best.values)
    table = Table("trial", "validation AUC", *names, "", box=None, pad_edge=False)
    for column in table.columns[:-1]:
        column.justify = "right"
    for trial in found.trials:
        auc = "diverged" if trial.validation_auc is None else f"{trial.validation_auc:.4f}"
        values = [f"{trial.values[name]:g}" for name in names]
        table.add_row(str(trial.number), auc, *values, "best" if trial == found.best else "")
    Console().print(table)
    search = found.search
    print(f"settings of the best trial: {found.out}")
    print(f"next: drpn train {search.dataset.path} --out run --model {search.model} --config {found.out}")


def ranking(found: "Ranking") -> None:
    """A ranking as a table."""
    table = Table("", "news", "score", "title", box=None, pad_edge=False)
    for row in found.rows:
        table.add_row(str(row.rank), escape(row.news_id), f"{row.score:.3f}", escape(row.title))
    Console().print(table)


def catalogue(models: "list[Description]") -> None:
    """Every model: what it reads, its paper, its sizes, and what the dataset folder must have been prepared with."""
    table = Table("model", "reads", "paper, sizes, what to prepare the folder with", box=None, pad_edge=False)
    for one in models:
        lines = [escape(one.paper), f"[dim]{one.sizes}[/]"]
        lines += [f"prepare with {needed}" for needed in one.prepare]
        lines += [f"prepare with {needed} [dim]for {setting}[/]" for setting, needed in one.more.items()]
        table.add_row(one.name, ", ".join(one.reads), "\n".join(lines))
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    Console().print(table)


def statistics(numbers: dict[str, Any]) -> None:
    """A dataset's numbers beside those of the paper's MIND."""
    table = Table("", "here", "MIND, in the paper", title="The data", title_justify="left", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in table1(numbers):
        table.add_row(*row)
    Console().print(table)


def reader(one: "Reader", *, most: int = 6) -> None:
    """A profile in words, newest first, with why each news was clicked or skipped."""
    console = Console()
    console.print(f"\n[bold]Reader {escape(one.user_id)}[/], newest first")
    for side, news, colour in (("clicked", one.clicked, "green"), ("skipped", one.skipped, "red")):
        console.print(f" [{colour}]{side}[/] {len(news)}")
        table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=True)
        table.add_column(no_wrap=True, style="dim", min_width=18)
        table.add_column(no_wrap=True, style="italic", min_width=11)
        table.add_column(no_wrap=True, overflow="ellipsis")
        for item in news[:most]:
            table.add_row(escape(item.topic), item.cause, escape(item.title))
        console.print(table)


def demo(made: "Demo") -> None:
    """What the demo made and found, and what to try next."""
    statistics(made.statistics)
    for one in made.readers:
        reader(one, most=3 if made.trained else 6)
    print("\nThe word before each title is what only a simulator knows: why the reader clicked or skipped it.")
    if made.trained:
        print(f"\nTrained on {made.trained.clicks:,} clicks:\n")
        evaluation(made.trained.evaluation)
        print_case(made.trained.case, most=5)
        print(f"\nPictures: {made.out}/case.png (what DRPN trusted), {made.out}/readers.png. Next, for example:")
        print(f"  drpn recommend {made.out}/drpn --user {made.trained.case.user_id}")
        print(f"  drpn explain {made.out}/drpn --user {made.readers[0].user_id} --out other.png")
    else:
        print(f"As a picture: {made.out}/readers.png. Logs and dataset: {made.out}/logs, {made.out}/dataset. Next:")
        print(
            f"  drpn train {made.out}/dataset --out run --set model.size=32 --set model.hidden=32 --set model.heads=2"
        )
        print("  drpn demo                         DRPN and two ablations trained, measured, explained; minutes")
    print("  drpn prepare LOGS --out FOLDER    your own logs; drpn prepare --help names the formats")

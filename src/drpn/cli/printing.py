"""Print results to the terminal, as tables and short sentences."""

import dataclasses
import json
import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from drpn.cli.case import print_case
from drpn.escape import terminal

if TYPE_CHECKING:  # these modules load torch or a query engine, which `drpn --help` should not wait for
    from drpn.bundle.recommender import Ranking
    from drpn.dataset.folder import Dataset
    from drpn.experiments.compare import Compared
    from drpn.experiments.reproduce import Reproduced
    from drpn.experiments.tune import Tuned
    from drpn.explanation.profiles import Reader
    from drpn.logs.simulate import Simulated
    from drpn.recipes.demo import Demo, Measured
    from drpn.recipes.evaluate import Evaluation
    from drpn.recipes.models import Description
    from drpn.recipes.runs import Run

GROUP_TITLES = {
    "all": "All users",
    "with_profile": "Users with a profile",
    "without_profile": "Users without a profile",
}


def _say(text: str) -> None:
    """Print a sentence that holds a path or an id."""
    print(terminal(text))


def _name(text: str) -> str:
    """A name as Rich prints it literally."""
    return escape(terminal(text))


def _words(path: Path | str) -> str:
    """A path or an id as it is typed in a command."""
    return shlex.quote(str(path))


def as_json(document: Any) -> None:
    """Print one JSON document to standard output."""
    json.dump(document, sys.stdout, indent=2)
    print()


def simulation(simulated: "Simulated", out: Path) -> None:
    """Print the size of a simulated log, and the next command."""
    _say(
        f"{out}: {simulated.users:,} users, {simulated.news:,} stories, {simulated.impressions:,} impressions, "
        f"{simulated.clicks:,} clicks"
    )
    _say(f"next: drpn prepare {_words(out)} --out {_words(f'{out}-dataset')}")


def prepared_dataset(dataset: "Dataset", out: Path) -> None:
    """Print the size of a new dataset, and the next command."""
    numbers = dataset.statistics
    _say(
        f"{out}: {numbers['profile_users']:,} user profiles with on average {numbers['mean_clicked']:.2f} clicked and "
        f"{numbers['mean_skipped']:.2f} skipped stories; {numbers['impressions']['train']:,} training impressions"
    )
    stretches(numbers["stretches"])
    left_out = sum(numbers.get("impressions_left_out", {}).values())
    if left_out:
        _say(f"left out: {left_out:,} impressions of users without a profile")
    _say(f"next: drpn stats {_words(out)}")


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
    manifest = run.bundle().manifest
    metrics = manifest["metrics"]
    _say(
        f"{run.path}: {manifest['model']} trained in {manifest['training']['seconds']:.0f} s, best validation AUC "
        f"{metrics['validation_auc']:.4f} in epoch {metrics['best_epoch']}"
    )
    _say(f"next: drpn evaluate {_words(run.path)}")


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
            table.add_row(_name(row["model"]), *[_with_interval(row, name) for name in METRICS])
        console.print(table)
        console.print()
    _print_diversity(console, [row for row in evaluated.rows if row["group"] == "all"], intervals=True)
    console.print()
    for row in evaluated.comparisons:
        console.print(
            f"AUC of {_name(row['model'])} minus AUC of {_name(row['against'])}: {row['difference']:+.4f} "
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


def _print_diversity(console: Console, rows: list[dict[str, Any]], *, intervals: bool = False) -> None:
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
        table.add_row(_name(row["model"]), *cells)
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


def comparison(compared: "Compared") -> None:
    """Print every system on all impressions and its difference from DRPN, then where the tables are."""
    from drpn.evaluation.metrics import METRICS
    from drpn.experiments.claims import judged_by, tally
    from drpn.experiments.pages import shown_groups

    about = compared.about
    rows = [row for row in compared.rows if row["group"] == "all"]
    table = Table("", *METRICS, *(["auc minus DRPN's, 95 %"] if about["base"] else []), box=None, pad_edge=False)
    group = "with_profile" if len(shown_groups(compared.rows)) == 1 else "all"
    table.title, table.title_justify = f"{GROUP_TITLES[group]}, {rows[0]['impressions']:,} impressions", "left"
    for row in rows:
        cells = ["–" if row[name] is None else f"{row[name]:.4f}" for name in METRICS]
        if row["auc_deviation"] is not None:
            cells[0] += f" [dim]±{row['auc_deviation']:.4f}[/]"
        table.add_row(
            _name(row["model"]), *cells, *([_short_difference(row["auc_less_base"])] if about["base"] else [])
        )
    for column in table.columns:
        column.no_wrap = True
    console = Console()
    console.print(table)
    console.print()
    _print_diversity(console, rows)
    models, seeds, comparisons = len(about["models"]), len(about["seeds"]), about["comparisons"]
    caution = f"; {comparisons} comparisons with DRPN, expect one interval in twenty to miss by chance"
    print(
        f"{models} model{'s' if models > 1 else ''}, {seeds} seed{'s' if seeds > 1 else ''} each"
        + (caution if comparisons > 1 else "")
    )
    judged = compared.claims[judged_by(compared.claims)]
    if any(claim.pairs for claim in judged):
        verdicts = tally(Counter(claim.verdict for claim in judged))
        _say(f"the paper's claims on these data: {verdicts}; see {compared.out}/claims.md")
    _say(f"tables: {compared.out}/table2.md, {compared.out}/table3.md (also .tex); picture: {compared.out}/compare.png")


def _short_difference(compared: dict[str, float] | None) -> str:
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
    _say(f"all comparisons: {compared.out}/claims.md; statistics of the data: {compared.out}/table1.md")


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
    _say(f"settings of the best trial: {result.out}")
    folder, file = _words(search.dataset.path), _words(result.out)
    _say(f"next: drpn train {folder} --out run --model {search.model} --config {file}")


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
    _say(f"Logs, datasets and runs: {result.out}/{SITE.folder}, {result.out}/{NOISY.folder}")
    if result.trained:
        pictures = {
            "live.png": "all systems on the live site",
            "case.png": "which feedback drpn-planted trusted",
            "readers.png": "three readers",
        }
        _say(f"Pictures: {', '.join(f'{result.out}/{name} ({what})' for name, what in pictures.items())}")
        print("Try next:")
        run, other = f"{result.out}/{NOISY.folder}/drpn-planted", result.readers[0].user_id
        _say(f"  drpn recommend {_words(run)} --user {_words(result.trained.case.user_id)}")
        _say(f"  drpn explain {_words(run)} --user {_words(other)} --out other.png")
    else:
        _say(f"Picture: {result.out}/readers.png")
        print("Try next:")
        print("  drpn demo                         train, measure and explain small models of both, in minutes")
    print("  drpn prepare LOGS --out FOLDER    use your own logs; drpn prepare --help lists the formats")


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
        table.add_row(_name(row["model"]), *cells, _short_difference(ahead.get(row["model"])))
    table.columns[0].no_wrap = True
    console = Console()
    console.print(f"[bold]{about}[/]\n")
    console.print(table)
    console.print()
    _print_diversity(console, rows)


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

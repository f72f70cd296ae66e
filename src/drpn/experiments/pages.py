"""The pages of a comparison: the paper's Tables 2 and 3 for these data, in Markdown and in LaTeX."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from drpn import escape
from drpn.evaluation.diversity import DIVERSITY
from drpn.evaluation.metrics import METRICS
from drpn.evaluation.tables import RULE, Table, latex, markdown
from drpn.experiments.paper import BASE, NAMES, TABLE2, TABLE3
from drpn.models.drpn import ABLATIONS
from drpn.output import atomic_file

TITLES = {2: "Performance comparison of all methods", 3: "DRPN and its ablations"}
REPORTED = {2: TABLE2, 3: TABLE3}
GROUPS = {
    "all": "All impressions",
    "with_profile": "Impressions of users with a profile",
    "without_profile": "Impressions of users without a profile",
}
HEADS = {"auc": "AUC", "mrr": "MRR", "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10"}
DIVERSITY_HEADS = {
    "distance@10": "intra-list distance",
    "coverage@10": "category coverage",
    "concentration@10": "share of the ten most shown",
    "novelty@10": "novelty, bits",
}
DECAY = "weight decay"
SPEEDS = {
    "parameters": "parameters",
    "samples_per_second": "training, samples/s",
    "impressions_per_second": "evaluation, impressions/s",
}
NOISE = {
    "denoise": "denoising weights",
    "collaborative denoise": "collaborative view",
    "content": "content-based weights",
    "tfidf rule": "TF-IDF rule",
    "personal ceiling": "ceiling, personal evidence",
    "story ceiling": "ceiling, story alone",
}
Row = Mapping[str, Any]


class AboutData(TypedDict):
    """The dataset of a comparison."""

    name: str
    fingerprint: str
    settings: dict[str, Any]
    statistics: dict[str, Any]
    mind_large: bool


class About(TypedDict):
    """Origin of a comparison, as stored in its JSON document."""

    drpn: str
    machine: dict[str, Any]
    commits: list[str]
    data: AboutData
    split: str
    settings: list[str]
    """The settings files and `section.key=value` that changed the models' defaults."""
    models: list[str]
    left_out: dict[str, str]
    """The reason for each model that is not in the tables."""
    seeds: list[int]
    base: str | None
    """The system that the others are compared with; None if it was not run."""
    comparisons: int


def base_name(base: str) -> str:
    """The model that all others are compared with, as pages write it."""
    return "DRPN" if base == "drpn" else base


def _difference_head(base: str) -> str:
    return f"AUC minus {base_name(base)}'s, 95 % interval"


def write_pages(out: Path, about: About, rows: Sequence[Row], runs: Sequence[Row]) -> None:
    """Write table2 and table3, each as .md and .tex."""
    for number in TITLES:
        parts = tables(number, about, rows, runs)
        paragraphs = preface(parts, about, runs)
        parts += diversity_tables(number, rows, runs)
        parts += [*noise_tables(runs), *gamma_tables(runs)] if number == 3 else []
        page = [f"# Table {number}. {TITLES[number]}", "", *(line for text in paragraphs for line in (text, ""))]
        for part in parts:
            page += [f"## {part.caption}", "", *markdown(part), ""]
        write_text(out / f"table{number}.md", page)
        source = [f"% {escape.terminal(text)}" for text in paragraphs]
        for place, part in enumerate(parts, start=1):
            captioned = replace(part, caption=f"{TITLES[number]}. {part.caption}.")
            source += ["", *latex(captioned, label=f"table{number}-{place}")]
        write_text(out / f"table{number}.tex", source)


def tables(number: int, about: About, rows: Sequence[Row], runs: Sequence[Row]) -> list[Table]:
    """Return Table 2 or 3 three times: for all impressions, for users with a profile, for users without.

    Groups without impressions are left out, and so is the second table if it would repeat the first.
    """
    names, parts = names_of(runs), _parts(number, rows, runs)
    trained = list(dict.fromkeys(run["model"] for run in runs))
    reported = REPORTED[number] if about["data"]["mind_large"] else {}
    result = []
    for group, title in shown_groups(rows).items():
        row_of = {row["model"]: row for row in rows if row["group"] == group}
        facts = {model: _facts(model, runs) for model in trained} if group == "all" else None
        paper = reported if group != "without_profile" else {}
        best = _best(row_of, [model for part in parts for model in part if model in trained])
        body: list[tuple[str, ...] | None] = []
        for part in parts:
            lines = [_line(row_of[model], best, facts, paper, about["base"], names) for model in part]
            body += [*([RULE] if body and lines else []), *lines]
        heads = ["", *HEADS.values(), *([_difference_head(about["base"])] if about["base"] else [])]
        heads += [DECAY, *SPEEDS.values()] if facts else []
        heads += [f"{head}, paper" for head in HEADS.values()] if paper else []
        count = _impressions(rows, group)
        result.append(Table(f"{title}, {count:,} with a click and a skip", tuple(heads), tuple(body)))
    return result


def diversity_tables(number: int, rows: Sequence[Row], runs: Sequence[Row]) -> list[Table]:
    """Return the diversity of the first ten stories of each impression, for the systems and groups of `tables`."""
    names, parts = names_of(runs), _parts(number, rows, runs)
    result = []
    for group, title in shown_groups(rows).items():
        row_of = {row["model"]: row for row in rows if row["group"] == group}
        body: list[tuple[str, ...] | None] = []
        for part in parts:
            lines = [
                (names.get(model, model), *(_mean(row_of[model], name, None) for name in DIVERSITY)) for model in part
            ]
            body += [*([RULE] if body and lines else []), *lines]
        caption = f"Diversity of the first ten stories. {title}"
        result.append(Table(caption, ("", *(DIVERSITY_HEADS[name] for name in DIVERSITY)), tuple(body)))
    return result


def _parts(number: int, rows: Sequence[Row], runs: Sequence[Row]) -> list[list[str]]:
    """Return the systems of a table: the trained ones, and the references that the rows have too."""
    trained = list(dict.fromkeys(run["model"] for run in runs))
    references = [row["model"] for row in rows if row["group"] == "all" and row["model"] not in trained]
    return parts_of(number, trained, references)


def shown_groups(rows: Sequence[Row]) -> dict[str, str]:
    """Return the groups with impressions and their titles; only one group if all users have a profile."""
    if _impressions(rows, "with_profile") == _impressions(rows, "all"):
        return {"all": GROUPS["with_profile"]}
    return {group: title for group, title in GROUPS.items() if _impressions(rows, group) or group == "all"}


def _impressions(rows: Sequence[Row], group: str) -> int:
    count: int = next(row["impressions"] for row in rows if row["group"] == group)
    return count


def noise_tables(runs: Sequence[Row]) -> list[Table]:
    """Return how well the weights separate real feedback from noise, averaged over seeds; empty without the truth."""
    measured = [run for run in runs if run.get("noise")]
    rows = []
    for model in dict.fromkeys(run["model"] for run in measured):
        for side in ("clicked", "skipped"):
            by_seed = [run["noise"][side] for run in measured if run["model"] == model]
            aucs = [[kinds[kind]["auc"] for kinds in by_seed if kind in kinds] for kind in NOISE]
            rows.append(
                (NAMES.get(model, model), side, *(f"{np.mean(values):.3f}" if values else "" for values in aucs))
            )
    caption = "Noise AUC within a user (0.5 is chance), mean over seeds"
    return [Table(caption, ("", "sequence", *NOISE.values()), tuple(rows), left=2)] if rows else []


def gamma_tables(runs: Sequence[Row]) -> list[Table]:
    """Return what gamma, the weight of the inter-attention in Eq. 6, became in each aggregator; it starts at 0.5."""
    learned = [run for run in runs if run.get("gamma")]
    rows = []
    for model in dict.fromkeys(run["model"] for run in learned):
        by_seed = [run["gamma"] for run in learned if run["model"] == model]
        for name in by_seed[0]:
            view, _, side, *_ = name.split(".")
            values = [gammas[name] for gammas in by_seed]
            numbers = (f"{number:.3f}" for number in (np.mean(values), min(values), max(values)))
            rows.append((NAMES.get(model, model), view, side, *numbers))
    caption = "Gamma after training; it starts at 0.500, and below 0 it counts as 0"
    heads = ("", "view", "sequence", "mean over seeds", "lowest", "highest")
    return [Table(caption, heads, tuple(rows), left=3)] if rows else []


def names_of(runs: Iterable[Row]) -> dict[str, str]:
    """Return the name of each model: the paper's, then what the model read of titles if that depends on the data."""
    contents = {run["model"]: run.get("content") for run in runs}  # older results do not have it
    read = {model: f"{NAMES.get(model, model)}, {content}" for model, content in contents.items() if content}
    return NAMES | read


def parts_of(number: int, trained: Iterable[str], references: Sequence[str]) -> list[list[str]]:
    """Return the systems of a table in the paper's order, grouped as the paper separates them by lines."""
    trained = list(trained)
    base = [name for name in trained if name == BASE]
    if number == 3:
        return [base, [name for name in ABLATIONS if name in trained]]
    others = [name for name in TABLE2 if name in trained and name != BASE]
    new = [name for name in trained if name not in TABLE2 and name not in ABLATIONS]
    return [[*others, *new], base, list(references)]


def preface(parts: Sequence[Table], about: About, runs: Sequence[Row]) -> list[str]:
    """Return the paragraphs above the tables: data, settings, seeds, intervals and speeds."""
    clicks = runs[0]["clicks"]
    machines = dict.fromkeys(run["machine"].get("gpu") or run["machine"]["processor"] for run in runs)
    parallel = sorted({run["jobs"] for run in runs})
    seeds, name = about["seeds"], escape.markdown(about["data"]["name"])
    changes = escape.markdown("".join(f", {source}" for source in about["settings"]))
    paragraphs = [
        f"Data: {name}, {clicks:,} training clicks; seeds {', '.join(map(str, seeds))}; "
        f"{', '.join(machines)}; commit {', '.join(about['commits'])}. Settings: the models' defaults"
        f"{changes}. All settings, curves and versions are in "
        "compare.json.",
    ]
    several = len(seeds) > 1
    spread = (
        "± is the standard deviation over seeds. "
        if several
        else "There is only one seed, so the variation between seeds is unknown. "
    )
    if about["base"]:
        column = parts[0].heads.index(_difference_head(about["base"]))
        count = sum(bool(row[column]) for row in parts[0].rows if row is not RULE)
        drawn = "users and seeds" if several else "users"
        spread += (
            f"Differences are paired, and their intervals are bootstrapped over {drawn}. Comparisons with "
            f"{base_name(about['base'])} in each table: {count}, each with a 95 % interval, so about one in twenty "
            "misses the true difference by chance."
        )
    else:
        spread += "DRPN was not run, so there are no differences from it."
    paragraphs.append(spread)
    paragraphs.append(
        "Speeds are means over seeds. Training speed excludes the first pass if there are more; evaluation speed "
        f"includes the encoding of all stories. Runs in parallel: {', '.join(map(str, parallel))}."
    )
    if about["left_out"]:
        paragraphs.append("Left out: " + escape.markdown("; ".join(about["left_out"].values())) + ".")
    if about["data"]["settings"].get("users") == "with-profile":
        paragraphs.append(
            "Users without a profile are left out of training, validation and test, as the paper's authors do."
        )
    if about["data"]["mind_large"]:
        paper = "The columns of the paper are its own numbers for MIND-large, divided by 100."
        if len(parts) > 1:
            paper += " Its authors leave out users without a profile, so compare them with the second table."
        paragraphs.append(paper)
    return paragraphs


def write_page(file: Path, table: Table, paragraphs: Sequence[str]) -> None:
    """Write one table below its paragraphs, as .md and .tex."""
    lines = [line for text in paragraphs for line in (text, "")]
    write_text(file.with_suffix(".md"), [f"# {table.caption}", "", *lines, *markdown(table)])
    write_text(
        file.with_suffix(".tex"),
        [*(f"% {escape.terminal(text)}" for text in paragraphs), "", *latex(table, label=file.name)],
    )


def write_text(file: Path, lines: Sequence[str]) -> None:
    """Write the lines to a file, all or nothing."""
    with atomic_file(file) as scratch:
        scratch.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _line(
    row: Row,
    best: dict[str, float],
    facts: dict[str, list[str]] | None,
    paper: Mapping[str, Any],
    base: str | None,
    names: Mapping[str, str],
) -> tuple[str, ...]:
    model = row["model"]
    cells = [names.get(model, model), *(_mean(row, name, best.get(name)) for name in METRICS)]
    if base:
        cells.append(difference(row["auc_less_base"]))
    if facts is not None:
        cells += facts.get(model, [""] * (1 + len(SPEEDS)))
    if paper:
        cells += [f"{value / 100:.4f}" for value in paper[model]] if model in paper else [""] * len(METRICS)
    return tuple(cells)


def _mean(row: Row, name: str, best: float | None) -> str:
    if row.get(name) is None:  # groups without impressions; older results have no diversity
        return "–"
    spread = row[f"{name}_deviation"]
    text = f"{row[name]:.4f}" + (f" ± {spread:.4f}" if spread is not None else "")
    return f"**{text}**" if row[name] == best else text


def difference(comparison: Row | None) -> str:
    """Return a paired difference and its interval as text; empty for None."""
    if comparison is None:
        return ""
    return f"{comparison['difference']:+.4f} ({comparison['low']:+.4f} to {comparison['high']:+.4f})"


def _best(rows: Mapping[str, Row], models: Sequence[str]) -> dict[str, float]:
    """Return the highest mean of each metric among the trained models."""
    measured = [rows[model] for model in models if rows[model]["impressions"]]
    return {name: max(row[name] for row in measured) for name in METRICS} if measured else {}


def _facts(model: str, runs: Sequence[Row]) -> list[str]:
    """Weight decay, size and speeds of a system."""
    runs = [run for run in runs if run["model"] == model]
    training = runs[0]["settings"]["training"]
    kinds = training.get("undecayed", "").split()  # results of older versions do not have it
    spared = f", not on {' or '.join(kinds)}" if kinds else ""
    decay = f"{training['decay']:g}{spared}" if training["decay"] else "0"
    return [decay, *(f"{np.mean([run[key] for run in runs]):,.0f}" for key in SPEEDS)]

"""The pages of a comparison: the paper's Tables 2 and 3 for these data, in Markdown and in LaTeX."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from drpn.evaluation.metrics import METRICS
from drpn.evaluation.tables import RULE, Table, latex, markdown
from drpn.experiments.paper import BASE, NAMES, TABLE2, TABLE3
from drpn.output import atomic_file

TITLES = {2: "Performance comparison of all methods", 3: "DRPN and its ablations"}
REPORTED = {2: TABLE2, 3: TABLE3}
GROUPS = {
    "all": "All impressions",
    "with_profile": "Impressions of users with a profile",
    "without_profile": "Impressions of users without a profile",
}
HEADS = {"auc": "AUC", "mrr": "MRR", "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10"}
LESS = "AUC less DRPN's, 95 % interval"
SPEEDS = {
    "parameters": "parameters",
    "samples_per_second": "training, samples/s",
    "impressions_per_second": "evaluation, impressions/s",
}
NOISE = {"denoise": "denoising weights", "content": "content-based weights", "tfidf rule": "TF-IDF rule"}
Row = Mapping[str, Any]


def write_pages(out: Path, about: dict[str, Any], rows: Sequence[Row], runs: Sequence[Row]) -> None:
    """Write table2 and table3, each as .md and .tex."""
    for number in TITLES:
        parts = tables(number, about, rows, runs)
        words = preface(parts, about, runs)
        parts += noise_tables(runs) if number == 3 else []
        page = [f"# Table {number}. {TITLES[number]}", "", *(line for text in words for line in (text, ""))]
        for part in parts:
            page += [f"## {part.caption}", "", *markdown(part), ""]
        write_text(out / f"table{number}.md", page)
        source = [f"% {text}" for text in words]
        for place, part in enumerate(parts, start=1):
            whole = replace(part, caption=f"{TITLES[number]}. {part.caption}.")
            source += ["", *latex(whole, label=f"table{number}-{place}")]
        write_text(out / f"table{number}.tex", source)


def tables(number: int, about: dict[str, Any], rows: Sequence[Row], runs: Sequence[Row]) -> list[Table]:
    """Table 2 or 3: of all impressions, then of users with a profile and without."""
    trained = list(dict.fromkeys(run["model"] for run in runs))
    references = [row["model"] for row in rows if row["group"] == "all" and row["model"] not in trained]
    parts = parts_of(number, trained, references)
    reported = REPORTED[number] if about["data"]["mind_large"] else {}
    found = []
    for group, words in GROUPS.items():
        own = {row["model"]: row for row in rows if row["group"] == group}
        speeds = {model: _speeds(model, runs) for model in trained} if group == "all" else None
        beside = reported if group != "without_profile" else {}
        best = _best(own, [model for part in parts for model in part if model in trained])
        body: list[tuple[str, ...] | None] = []
        for part in parts:
            lines = [_line(own[model], best, speeds, beside, about["base"]) for model in part]
            body += [*([RULE] if body and lines else []), *lines]
        heads = ["", *HEADS.values(), *([LESS] if about["base"] else []), *(SPEEDS.values() if speeds else [])]
        heads += [f"{head}, paper" for head in HEADS.values()] if beside else []
        count = next(iter(own.values()))["impressions"]
        found.append(Table(f"{words}, {count:,} with a click and a skip", tuple(heads), tuple(body)))
    return found


def noise_tables(runs: Sequence[Row]) -> list[Table]:
    """Where the truth is known: whether weights tell real feedback from noise, the mean over seeds."""
    known = [run for run in runs if run.get("noise")]
    rows = []
    for model in dict.fromkeys(run["model"] for run in known):
        for side in ("clicked", "skipped"):
            found = [run["noise"][side] for run in known if run["model"] == model]
            values = [[one[kind]["auc"] for one in found if kind in one] for kind in NOISE]
            rows.append((_name(model), side, *(f"{np.mean(each):.3f}" if each else "" for each in values)))
    caption = "Noise AUC within a user, 0.5 being chance, the mean over seeds"
    return [Table(caption, ("", "sequence", *NOISE.values()), tuple(rows), left=2)] if rows else []


def parts_of(number: int, trained: Iterable[str], references: Sequence[str]) -> list[list[str]]:
    """The systems of a table in the paper's order, in the parts that it draws a line between."""
    trained = list(trained)
    base = [name for name in trained if name == BASE]
    others = [name for name in REPORTED[number] if name in trained and name != BASE]
    if number == 3:
        return [base, others]
    new = [name for name in trained if name not in TABLE2 and name not in TABLE3]
    return [[*others, *new], base, list(references)]


def preface(parts: Sequence[Table], about: dict[str, Any], runs: Sequence[Row]) -> list[str]:
    """What one has to know to read the tables."""
    clicks = runs[0]["clicks"]
    machines = dict.fromkeys(run["machine"].get("gpu") or run["machine"]["processor"] for run in runs)
    at_once = sorted({run["jobs"] for run in runs})
    seeds = about["seeds"]
    words = [
        f"Data: {about['data']['name']}, {clicks:,} clicks to train on; seeds {', '.join(map(str, seeds))}; "
        f"{', '.join(machines)}; commit {', '.join(about['commits'])}. Settings: those of the models"
        f"{''.join(f', {one}' for one in about['settings'])}; in full, with curves and versions: compare.json.",
    ]
    several = len(seeds) > 1
    spread = "± is the standard deviation over seeds. " if several else "One seed: how far seeds stray is not known. "
    if about["base"]:
        column = parts[0].heads.index(LESS)
        count = sum(bool(row[column]) for row in parts[0].rows if row is not RULE)
        drawn = "users and seeds" if several else "users"
        spread += (
            f"Differences are paired, their intervals drawn over {drawn}. Comparisons with DRPN that each table makes: "
            f"{count}, each at 95 %, so that one in twenty misses by chance."
        )
    else:
        spread += "DRPN was not run, so that nothing is compared with it."
    words.append(spread)
    words.append(
        "Speeds are means over seeds, training without its first pass where there are more, evaluation with the "
        f"encoding of all news; runs at once: {', '.join(map(str, at_once))}."
    )
    if about["left_out"]:
        words.append("Left out: " + "; ".join(about["left_out"].values()) + ".")
    if about["data"]["mind_large"]:
        words.append(
            "The columns of the paper are its own numbers for MIND-large, divided by 100. Its authors leave out users "
            "without a profile, so that they are to be compared with the second table."
        )
    return words


def write_page(file: Path, one: Table, words: Sequence[str]) -> None:
    """Write one table under its words, as .md and .tex."""
    paragraphs = [line for text in words for line in (text, "")]
    write_text(file.with_suffix(".md"), [f"# {one.caption}", "", *paragraphs, *markdown(one)])
    write_text(file.with_suffix(".tex"), [*(f"% {text}" for text in words), "", *latex(one, label=file.name)])


def write_text(file: Path, lines: Sequence[str]) -> None:
    """Write lines, whole or not at all."""
    with atomic_file(file) as scratch:
        scratch.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def _line(
    row: Row, best: dict[str, float], speeds: dict[str, list[str]] | None, beside: Mapping[str, Any], base: str | None
) -> tuple[str, ...]:
    model = row["model"]
    cells = [_name(model), *(_mean(row, name, best.get(name)) for name in METRICS)]
    if base:
        cells.append(difference(row["auc_less_base"]))
    if speeds is not None:
        cells += speeds.get(model, [""] * len(SPEEDS))
    if beside:
        cells += [f"{value / 100:.4f}" for value in beside[model]] if model in beside else [""] * len(METRICS)
    return tuple(cells)


def _name(model: str) -> str:
    return NAMES.get(model, model)


def _mean(row: Row, name: str, best: float | None) -> str:
    if row[name] is None:
        return "–"
    spread = row[f"{name}_deviation"]
    text = f"{row[name]:.4f}" + (f" ± {spread:.4f}" if spread is not None else "")
    return f"**{text}**" if row[name] == best else text


def difference(found: Row | None) -> str:
    """A paired difference and its interval."""
    return "" if found is None else f"{found['difference']:+.4f} ({found['low']:+.4f} to {found['high']:+.4f})"


def _best(rows: Mapping[str, Row], models: Sequence[str]) -> dict[str, float]:
    """The highest mean of each metric among the models that were trained."""
    known = [rows[model] for model in models if rows[model]["impressions"]]
    return {name: max(row[name] for row in known) for name in METRICS} if known else {}


def _speeds(model: str, runs: Sequence[Row]) -> list[str]:
    own = [run for run in runs if run["model"] == model]
    return [f"{np.mean([run[key] for run in own]):,.0f}" for key in SPEEDS]

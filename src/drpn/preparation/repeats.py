"""A story counts once on a page: repeated rows are merged, and a click beats a skip."""

import ibis
import ibis.expr.types as ir

from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.logs.tables import Logs
from drpn.progress import Progress

CONFLICTS = 100
"""At most one impression in this many may label a story both clicked and not clicked."""


def merge_repeats(
    engine: Engine, logs: Logs, shown: ir.Table, news: ir.Table, progress: Progress
) -> tuple[ir.Table, dict[str, int]]:
    """The shown stories, each once in its impression, and the counts of what was merged.

    Of several rows for one story the first clicked one is kept, else the first that was seen.
    """
    groups = shown.group_by("impression", "news").aggregate(rows=shown.count(), clicks=shown.clicked.sum())
    repeats = engine.materialize("repeats", groups.filter(groups.rows > 1))
    both = (repeats.clicks > 0) & (repeats.clicks < repeats.rows)
    totals = engine.single_row(
        repeats.aggregate(
            repeated=(repeats.rows - 1).sum().coalesce(0),
            conflicts=both.sum().coalesce(0),
            impressions=repeats.impression.nunique(where=both),
        )
    )
    counts = {"repeated_stories": int(totals["repeated"]), "conflicting_labels": int(totals["conflicts"])}
    if not counts["repeated_stories"]:
        return shown, counts
    if counts["conflicting_labels"]:
        example = _example(engine, logs, news, repeats.filter(both))
        total = int(engine.single_row(logs.impressions.aggregate(rows=logs.impressions.count()))["rows"])
        if CONFLICTS * totals["impressions"] > total:
            raise LogError(
                f"{totals['impressions']:,} of {total:,} impressions label a story both clicked and not clicked, such "
                f"as {example}; write one row for each story of an impression, 1 if it was clicked and 0 if not"
            )
        progress.note(
            f"labels both clicked and not clicked: {counts['conflicting_labels']:,}, such as {example}; "
            "the story counts as clicked"
        )
    progress.note(
        f"rows that repeat a story of their impression: {counts['repeated_stories']:,}; the story counts once"
    )
    return _merged(engine, shown, repeats), counts


def _example(engine: Engine, logs: Logs, news: ir.Table, conflicts: ir.Table) -> str:
    rows = conflicts.join(logs.impressions.select("impression", "impression_id"), "impression")
    rows = rows.join(news.select("news", "news_id"), "news")
    row = engine.single_row(rows.order_by("impression", "news_id").limit(1).select("impression_id", "news_id"))
    return f"story {row['news_id']} in impression {row['impression_id']}"


def _merged(engine: Engine, shown: ir.Table, repeats: ir.Table) -> ir.Table:
    keys = ["impression", "news"]
    several, once = shown.semi_join(repeats, keys), shown.anti_join(repeats, keys)
    best_first: list[ir.Value] = [several.clicked.desc()]
    if "seen" in several.columns:
        best_first.append(several.seen.fill_null(True).desc())
    # the other columns only make the choice independent of the order of rows
    others = [several[name] for name in several.columns if name not in (*keys, "clicked", "seen", "order")]
    window = ibis.window(group_by=keys, order_by=[*best_first, several.order, *others])
    ranked = several.mutate(repeat=ibis.row_number().over(window))
    best = ranked.filter(ranked.repeat == 0).select(*shown.columns)
    return engine.materialize("merged_shown", once.select(*shown.columns).union(best), by="day")

"""Find impressions whose time is far from all others, such as the year 2999: a wrong clock."""

import ibis
import ibis.expr.types as ir
import numpy as np

from drpn.dataset.times import FAR_DAYS, plausible_days
from drpn.logs.engines.engine import Engine
from drpn.progress import Progress

LEFT_OUT = 0.1
"""Impressions far from the main part of a log are left out if they are at most this share of all, and kept if more."""


def leave_out_implausible(
    engine: Engine, impressions: ir.Table, shown: ir.Table, progress: Progress
) -> tuple[ir.Table, ir.Table, int]:
    """The impressions with a plausible time and their shown stories, and the number of those left out.

    Implausible times are reported, with an example. If there are too many to be wrong clocks they are kept.
    """
    days = impressions.group_by("day").aggregate(rows=impressions.count())
    rows = [row for batch in engine.stream(days) for row in batch.to_pylist()]
    numbers, counts = (np.array([row[name] for row in rows], dtype=np.int64) for name in ("day", "rows"))
    if not len(numbers):
        return impressions, shown, 0
    first, last = plausible_days(numbers, counts)
    total, implausible = int(counts.sum()), int(counts[(numbers < first) | (numbers > last)].sum())
    if not implausible:
        return impressions, shown, 0
    inside = impressions.day.between(ibis.literal(first), ibis.literal(last))
    strange = impressions.filter(~inside)
    example = engine.single_row(
        strange.order_by("impression").limit(1).select("impression_id", time=strange.time.cast("string"))
    )
    far = (
        f"impressions more than {FAR_DAYS} days before or after the main part of the log: {implausible:,} of {total:,},"
        f" such as {example['impression_id']} of {example['time']}"
    )
    if implausible > LEFT_OUT * total:
        progress.note(f"{far}; they are too many for wrong clocks and are kept: correct or remove them if they are")
        return impressions, shown, 0
    progress.note(f"{far}; their clocks are wrong, so they are left out")
    kept = engine.materialize("plausible_impressions", impressions.filter(inside))
    return kept, engine.materialize("plausible_shown", shown.semi_join(kept, "impression"), by="day"), implausible

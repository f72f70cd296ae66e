"""Dates and counts of the four stretches of a log, and warnings about stretches that are empty, tiny or stale."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import ibis.expr.types as ir

from drpn.dataset.folder import STRETCHES, Impressions
from drpn.logs.engines.engine import Engine
from drpn.preparation.split import Split

TINY = 100
"""A stretch with fewer impressions that have a click and a skip is tiny: its AUC is uncertain by several hundredths."""
STALE = timedelta(days=10)
"""A stretch is stale if it ends later than this after the profiles, which do not change any more."""


def profile_stretch(engine: Engine, impressions: ir.Table, windows: Split) -> dict[str, Any]:
    """First and last time and the number of impressions of the profile window."""
    inside = windows.profile.within(impressions)
    row = engine.single_row(
        inside.aggregate(first=inside.time.min(), last=inside.time.max(), impressions=inside.count())
    )
    return {"first": row["first"].isoformat(), "last": row["last"].isoformat(), "impressions": int(row["impressions"])}


def stretches(profile: dict[str, Any], splits: Mapping[str, Impressions]) -> dict[str, dict[str, Any]]:
    """First and last time, impressions, and for splits `samples`: impressions with both a click and a skip."""
    return {"profile": profile} | {
        name: {
            "first": part.times[0].item().isoformat(),
            "last": part.times[-1].item().isoformat(),
            "impressions": len(part),
            "samples": int(part.samples.sum()),
        }
        for name, part in splits.items()
    }


def warnings(measured: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A sentence for each stretch that is empty, tiny or stale."""
    problems = []
    end = datetime.fromisoformat(measured["profile"]["last"])
    for name, stretch in measured.items():
        title, usable = STRETCHES[name], stretch.get("samples", stretch["impressions"])
        kind = "impressions with a click and a skip" if "samples" in stretch else "impressions"
        if not usable:
            problems.append(f"{title} is empty: it has no {kind}")
        elif usable < TINY:
            problems.append(f"{title} is tiny: {usable} {kind}, fewer than {TINY}")
        last = datetime.fromisoformat(stretch["last"])
        if last - end > STALE:
            problems.append(
                f"{title} is stale: it ends on {last:%Y-%m-%d}, but the profiles end on {end:%Y-%m-%d}, more than "
                f"{STALE.days} days before"
            )
    return problems

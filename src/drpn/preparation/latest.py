"""Write the profiles as of the end of the log, which recommendations start from.

They hold feedback of the validation and test days, so training and evaluation must not read them.
"""

import ibis.expr.types as ir
import numpy as np

from drpn.dataset.arrays import ArrayWriter
from drpn.logs.engines.engine import Engine
from drpn.preparation.settings import DataSettings
from drpn.preparation.split import Window
from drpn.state.profile_expressions import (
    PLACES,
    feedback_matrix,
    history_events,
    impression_events,
    profile_sequences,
)


def latest_feedback(
    engine: Engine, feedback: ir.Table, shown: ir.Table, users: ir.Table, history: ir.Table | None, window: Window
) -> ir.Table:
    """The feedback matrix of all impressions and the history, from that of the profile window and the other events.

    Z(A and B) = Z(Z(A) and B): Z keeps the value of a story and the moment of its last event.
    """
    events = impression_events(window.outside(shown), users)
    if history is not None:
        clicks = history_events(history)
        events = events.union(clicks.filter(clicks.moment >= window.stop * PLACES))
    every = feedback.select("user", "news", "clicked", "moment").union(events)
    return engine.materialize("latest_feedback", feedback_matrix(every).drop("clicks", "skips"))


def write_latest(engine: Engine, latest: ir.Table, writer: ArrayWriter, settings: DataSettings, *, users: int) -> None:
    """Write the newest clicked and skipped stories of each user, and all stories that each user ever clicked."""
    for name, keep in (("clicked", settings.clicked), ("skipped", settings.skipped)):
        rows = writer.empty(f"latest/{name}", (users + 1, keep), np.int32)
        for batch in engine.stream(profile_sequences(latest, clicked=name == "clicked", keep=keep)):
            rows[batch["user"].to_numpy(), batch["slot"].to_numpy()] = batch["news"].to_numpy()
    clicks = latest.filter(latest.clicked).select("user", "news")
    counts = np.zeros(users + 1, dtype=np.int64)
    for batch in engine.stream(clicks.group_by("user").aggregate(clicks=clicks.count())):
        counts[batch["user"].to_numpy()] = batch["clicks"].to_numpy()
    offsets = np.concatenate([[0], np.cumsum(counts)])
    cuts = writer.cuts(len(counts))
    news = writer.empty("latest/all_clicked", (int(offsets[-1]),), np.int32, offsets[cuts].tolist())
    start = 0
    for batch in engine.stream(clicks.order_by("user", "news")):
        news[start : start + batch.num_rows] = batch["news"].to_numpy()
        start += batch.num_rows
    writer.array("latest/all_clicked_offsets", offsets, cuts)

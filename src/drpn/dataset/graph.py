"""The collaborative graph: news that the same users clicked."""

from typing import Literal

import ibis
import ibis.expr.types as ir


def neighbours(feedback: ir.Table, *, kind: Literal["co-click", "consecutive"], keep: int) -> ir.Table:
    """The heaviest neighbours of each news: news, neighbour, weight (users who link the two), slot (0 the heaviest)."""
    clicks = feedback.filter(feedback.clicked).select("user", "news", "moment")
    pairs = _co_clicked(clicks) if kind == "co-click" else _consecutive(clicks)
    edges = pairs.group_by("news", "neighbour").aggregate(weight=pairs.count())  # a user links two news once
    heaviest_first = ibis.window(group_by="news", order_by=[ibis.desc("weight"), ibis.asc("neighbour")])
    ranked = edges.mutate(slot=ibis.row_number().over(heaviest_first).cast("int32"))
    return ranked.filter(ranked.slot < keep)


def _co_clicked(clicks: ir.Table) -> ir.Table:
    other = clicks.select("user", neighbour="news")
    both = clicks.join(other, "user")
    return both.filter(both.news != both.neighbour).select("user", "news", "neighbour")


def _consecutive(clicks: ir.Table) -> ir.Table:
    in_time = ibis.window(group_by="user", order_by="moment")
    steps = clicks.mutate(neighbour=clicks.news.lead().over(in_time))
    steps = steps.filter(steps.neighbour.notnull()).select("user", "news", "neighbour")
    return steps.union(steps.select("user", news="neighbour", neighbour="news"))

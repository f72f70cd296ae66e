"""The collaborative graph: news that the same users clicked, and users who clicked the same news."""

from typing import Literal

import ibis
import ibis.expr.types as ir

READERS = 100
"""Largest group of a news' readers that the news links to each other."""


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


def groups_of_readers(feedback: ir.Table, *, readers: int = READERS) -> ir.Table:
    """Every click with the group of its news' readers that the user is in: user, news, group.

    A news of n readers has ceil(n / readers) groups of even size, users of neighbouring rows together, so that there
    are never more than `readers` pairs for a click.
    """
    clicks = feedback.filter(feedback.clicked).select("user", "news")
    news_features = ibis.window(group_by="news")
    in_order = ibis.window(group_by="news", order_by="user")
    placed = clicks.mutate(place=ibis.row_number().over(in_order), count=clicks.count().over(news_features))
    groups = (placed["count"] + readers - 1) // readers
    return placed.select("user", "news", group=(placed.place * groups) // placed["count"])


def neighbour_users(groups: ir.Table, users: range, *, keep: int) -> ir.Table:
    """Whom each of some users shares the most news with: user, neighbour, weight (news), slot (0 the heaviest)."""
    own = groups.filter((groups.user >= users.start) & (groups.user < users.stop))
    both = own.join(groups.select("news", "group", neighbour="user"), ["news", "group"])
    both = both.filter(both.user != both.neighbour)
    edges = both.group_by("user", "neighbour").aggregate(weight=both.count())
    heaviest_first = ibis.window(group_by="user", order_by=[ibis.desc("weight"), ibis.asc("neighbour")])
    ranked = edges.mutate(slot=ibis.row_number().over(heaviest_first).cast("int32"))
    return ranked.filter(ranked.slot < keep)

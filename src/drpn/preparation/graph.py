"""The collaborative graph: stories clicked by the same users, and users who clicked the same stories."""

from typing import Literal

import ibis
import ibis.expr.types as ir

from drpn.state.profile_expressions import profile_sequences

GROUP_SIZE = 100
"""A story links its readers within groups of at most this many users."""
CLICKS_PER_USER = 1_000
"""In the co-click graph a user links only their newest this many clicked stories: pairs grow with the square."""


def neighbours(feedback: ir.Table, *, kind: Literal["co-click", "consecutive"], keep: int) -> ir.Table:
    """The `keep` heaviest neighbours of each story.

    Columns: news, neighbour, weight (number of users who link the two), slot (0 for the heaviest).
    """
    pairs = _co_clicked(feedback) if kind == "co-click" else _consecutive(feedback)
    edges = pairs.group_by("news", "neighbour").aggregate(weight=pairs.count())  # a user links two stories once
    heaviest_first = ibis.window(group_by="news", order_by=[ibis.desc("weight"), ibis.asc("neighbour")])
    ranked = edges.mutate(slot=ibis.row_number().over(heaviest_first).cast("int32"))
    return ranked.filter(ranked.slot < keep)


def _co_clicked(feedback: ir.Table) -> ir.Table:
    clicks = profile_sequences(feedback, clicked=True, keep=CLICKS_PER_USER).select("user", "news")
    other_clicks = clicks.select("user", neighbour="news")
    pairs = clicks.join(other_clicks, "user")
    return pairs.filter(pairs.news != pairs.neighbour).select("user", "news", "neighbour")


def _consecutive(feedback: ir.Table) -> ir.Table:
    clicks = feedback.filter(feedback.clicked).select("user", "news", "moment")
    by_time = ibis.window(group_by="user", order_by=["moment", "news"])
    pairs = clicks.mutate(neighbour=clicks.news.lead().over(by_time))
    pairs = pairs.filter(pairs.neighbour.notnull()).select("user", "news", "neighbour")
    return pairs.union(pairs.select("user", news="neighbour", neighbour="news"))


def group_readers(feedback: ir.Table, *, group_size: int = GROUP_SIZE) -> ir.Table:
    """The clicks, with the readers of each story divided into groups: user, news, group.

    A story with n readers has ceil(n / group_size) groups of even size. Users with adjacent rows are in the same group,
    and a click is in at most `group_size` pairs of readers.
    """
    clicks = feedback.filter(feedback.clicked).select("user", "news")
    per_story = ibis.window(group_by="news")
    by_user = ibis.window(group_by="news", order_by="user")
    indexed = clicks.mutate(index=ibis.row_number().over(by_user), count=clicks.count().over(per_story))
    groups = (indexed["count"] + group_size - 1) // group_size
    return indexed.select("user", "news", group=(indexed["index"] * groups) // indexed["count"])


def neighbour_users(groups: ir.Table, users: range, *, keep: int) -> ir.Table:
    """The `keep` users with whom each of `users` shares the most clicked stories.

    Columns: user, neighbour, weight (number of shared stories), slot (0 for the heaviest).
    """
    clicks = groups.filter((groups.user >= users.start) & (groups.user < users.stop))
    pairs = clicks.join(groups.select("news", "group", neighbour="user"), ["news", "group"])
    pairs = pairs.filter(pairs.user != pairs.neighbour)
    edges = pairs.group_by("user", "neighbour").aggregate(weight=pairs.count())
    heaviest_first = ibis.window(group_by="user", order_by=[ibis.desc("weight"), ibis.asc("neighbour")])
    ranked = edges.mutate(slot=ibis.row_number().over(heaviest_first).cast("int32"))
    return ranked.filter(ranked.slot < keep)

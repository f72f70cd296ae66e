"""Ids become rows: news and users by the order of their ids, from 1; 0 is padding."""

import ibis
import ibis.expr.types as ir

from drpn.errors import UnknownNewsError
from drpn.logs.engines.engine import Engine
from drpn.logs.tables import Logs
from drpn.progress import Progress


def news_rows(engine: Engine, logs: Logs) -> ir.Table:
    """The news of the log with their row in column `news`."""
    order = ibis.row_number().over(order_by=logs.news.news_id)
    return engine.keep("news", logs.news.mutate(news=(order + 1).cast("int32")))


def user_rows(engine: Engine, impressions: ir.Table) -> ir.Table:
    """The users of the impressions: user_id, user."""
    users = impressions.select("user_id").distinct()
    return engine.keep("users", users.mutate(user=(ibis.row_number().over(order_by=users.user_id) + 1).cast("int32")))


def shown_rows(engine: Engine, logs: Logs, news: ir.Table, *, skip_unknown: bool, progress: Progress) -> ir.Table:
    """What was shown, with the row of the news in place of its id; news that are not known are left out."""
    rows = logs.shown.left_join(news.select("news_id", "news"), "news_id")
    columns = [name for name in logs.shown.columns if name not in ("news_id", "clicked")]
    kept = engine.keep("shown", rows.select(*columns, "clicked", "news", missing=_id_where_missing(rows)))
    found = engine.one(
        kept.aggregate(
            unlabelled=kept.clicked.isnull().sum().coalesce(0),
            unknown=kept.missing.nunique(),
            first=kept.missing.min(),
        )
    )
    if found["unlabelled"]:
        raise UnknownNewsError(logs.places.first_fault() or "a shown news is neither clicked nor not clicked")
    if found["unknown"]:
        _report_unknown(logs, found["first"], found["unknown"], skip=skip_unknown, progress=progress)
    if "order" not in kept.columns:
        # where the log says nothing, by row of the news, which no order of lines can change
        kept = kept.mutate(order=kept.position.coalesce(kept.news) if "position" in kept.columns else kept.news)
    return kept.filter(kept.news.notnull()).drop("missing")


def impressions_of(engine: Engine, logs: Logs, shown: ir.Table) -> ir.Table:
    """The impressions of which at least one news is known."""
    return engine.keep("known_impressions", logs.impressions.semi_join(shown, "impression"))


def history_rows(engine: Engine, logs: Logs, news: ir.Table, users: ir.Table, *, skip_unknown: bool) -> ir.Table | None:
    """Clicks from before the log: user, news, order."""
    if logs.history is None:
        return None
    known = logs.history.join(users, "user_id").left_join(news.select("news_id", "news"), "news_id")
    kept = engine.keep("history", known.select("user", "news", "order", missing=_id_where_missing(known)))
    found = engine.one(kept.aggregate(unknown=kept.missing.nunique(), first=kept.missing.min()))
    if found["unknown"] and not skip_unknown:
        raise _unknown(logs, found["first"], found["unknown"])
    return kept.filter(kept.news.notnull()).drop("missing")


def _id_where_missing(rows: ir.Table) -> ir.StringColumn:
    return ibis.ifelse(rows.news.isnull(), rows.news_id, ibis.null("string"))


def _report_unknown(logs: Logs, news_id: str, count: int, *, skip: bool, progress: Progress) -> None:
    if not skip:
        raise _unknown(logs, news_id, count)
    progress.note(f"left out {count} news that were shown but are not in the news table, such as {news_id}")


def _unknown(logs: Logs, news_id: str, count: int) -> UnknownNewsError:
    place = logs.places.where_shown(news_id)
    table = logs.sources[0].name
    return UnknownNewsError(
        f"story {news_id}, shown in {place}, is not in {table} ({count} such); add it or skip unknown stories",
        hint="pass --skip-unknown-news to skip them",
    )

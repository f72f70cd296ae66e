"""Assign rows to stories and users: sorted by id, from 1; row 0 is padding."""

import ibis
import ibis.expr.types as ir

from drpn.errors import UnknownNewsError
from drpn.logs.engines.engine import Engine
from drpn.logs.tables import Logs
from drpn.progress import Progress


def news_rows(engine: Engine, logs: Logs) -> ir.Table:
    """The news table with the row of each story in column `news`."""
    index = ibis.row_number().over(order_by=logs.news.news_id)
    return engine.materialize("news", logs.news.mutate(news=(index + 1).cast("int32")))


def user_rows(engine: Engine, impressions: ir.Table) -> ir.Table:
    """The users of the impressions: user_id, user (the row)."""
    users = impressions.select("user_id").distinct()
    index = ibis.row_number().over(order_by=users.user_id)
    return engine.materialize("users", users.mutate(user=(index + 1).cast("int32")))


def shown_rows(engine: Engine, logs: Logs, news: ir.Table, *, skip_unknown: bool, progress: Progress) -> ir.Table:
    """The shown stories as rows in place of ids; stories that are not in the news table are an error or left out."""
    rows = logs.shown.left_join(news.select("news_id", "news"), "news_id")
    columns = [name for name in logs.shown.columns if name not in ("news_id", "clicked")]
    rows = rows.select(*columns, "clicked", "news", unknown=_unknown_id(rows))
    shown = engine.materialize("shown", rows, by="day")
    counts = engine.single_row(
        shown.aggregate(
            unlabelled=shown.clicked.isnull().sum().coalesce(0),
            unknown=shown.unknown.nunique(),
            first_unknown=shown.unknown.min(),
        )
    )
    if counts["unlabelled"]:
        raise UnknownNewsError(logs.fault_finder.first_fault() or "a shown story has no click label")
    if counts["unknown"]:
        _report_unknown(logs, counts["first_unknown"], counts["unknown"], skip=skip_unknown, progress=progress)
    if "order" not in shown.columns:
        # without a position, order by the row of the story, which does not depend on the order of lines
        shown = shown.mutate(order=shown.position.coalesce(shown.news) if "position" in shown.columns else shown.news)
    return shown.filter(shown.news.notnull()).drop("unknown")


def known_impressions(engine: Engine, logs: Logs, shown: ir.Table) -> ir.Table:
    """The impressions with at least one known story."""
    return engine.materialize("known_impressions", logs.impressions.semi_join(shown, "impression"))


def history_rows(
    engine: Engine, logs: Logs, news: ir.Table, users: ir.Table, impressions: ir.Table, *, skip_unknown: bool
) -> ir.Table | None:
    """Clicks before the log; None if the logs were read without them.

    Columns: user, news, order, the reading columns that the history has, and if it has times, `time` and `after` (the
    number of the last impression that is not later than the click, -1 for none).
    """
    if logs.history is None:
        return None
    rows = logs.history.join(users, "user_id").left_join(news.select("news_id", "news"), "news_id")
    optional = [name for name in ("time", "read_seconds", "scroll") if name in logs.history.columns]
    rows = rows.select("user", "news", "order", *optional, unknown=_unknown_id(rows))
    if "time" in optional:
        rows = _after_impressions(rows, impressions)
    history = engine.materialize("history", rows)
    counts = engine.single_row(
        history.aggregate(unknown=history.unknown.nunique(), first_unknown=history.unknown.min())
    )
    if counts["unknown"] and not skip_unknown:
        raise _unknown_news_error(logs, counts["first_unknown"], counts["unknown"])
    return history.filter(history.news.notnull()).drop("unknown")


def _after_impressions(history: ir.Table, impressions: ir.Table) -> ir.Table:
    """The history with the column `after`; see `history_rows`."""
    times = history.filter(history.time.notnull()).select(time=history.time.cast("timestamp")).distinct()
    numbers = impressions.select(time=impressions.time.cast("timestamp"), number=impressions.impression.cast("int64"))
    moments = numbers.union(times.mutate(number=ibis.null("int64")))
    # numbers follow the parts of a log first, so with parts that overlap they do not always increase with time
    latest = moments.number.max().over(ibis.range_window(preceding=None, following=0, order_by=moments.time))
    moments = moments.mutate(after=latest)
    after = moments.filter(moments.number.isnull()).select(moment="time", after="after")
    rows = history.left_join(after, history.time == after.moment)
    return rows.select(*history.columns, after=rows.after.fill_null(-1))


def _unknown_id(rows: ir.Table) -> ir.StringColumn:
    """The news id where it is not in the news table, else null."""
    return ibis.ifelse(rows.news.isnull(), rows.news_id, ibis.null("string"))


def _report_unknown(logs: Logs, news_id: str, count: int, *, skip: bool, progress: Progress) -> None:
    if not skip:
        raise _unknown_news_error(logs, news_id, count)
    progress.note(f"left out stories that are not in the news table: {count}, such as {news_id}")


def _unknown_news_error(logs: Logs, news_id: str, count: int) -> UnknownNewsError:
    location = logs.fault_finder.first_shown(news_id)
    table = logs.sources[0].file.name
    return UnknownNewsError(
        f"story {news_id}, shown in {location}, is not in {table} ({count} such); add it or skip unknown stories",
        hint="pass --skip-unknown-news to skip them",
    )

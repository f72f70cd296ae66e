"""The tables that every log reader returns, whatever the format on disk."""

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir

from drpn import schema
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.logs.fault_lines import FaultFinder
from drpn.logs.sources import Source


@dataclass(frozen=True)
class Logs:
    """Logs as Ibis tables.

    news         news_id, title, and the other columns of schema.NEWS that the logs have
    impressions  impression (its number from 0, ordered by part, time and id), day (see `day_number`), part (0, or 1
                 for the second of two files), and the columns of schema.IMPRESSION that the logs have
    shown        impression, day, and the columns of schema.SHOWN that the logs have; order, the index in a list, for
                 formats without a position
    history      user_id, news_id, order (increasing with time), part, and if the logs have them time, read_seconds and
                 scroll: clicks before the log, if requested
    """

    news: ir.Table
    impressions: ir.Table
    shown: ir.Table
    history: ir.Table | None
    parts: int
    sources: tuple[Source, ...]
    fault_finder: FaultFinder

    def extras(self) -> tuple[schema.Column, ...]:
        """The optional columns of impressions and candidates that these logs have."""
        present = {*self.impressions.columns, *self.shown.columns}
        return tuple(column for column in schema.optional(schema.IMPRESSIONS) if column.name in present)


def number_impressions(engine: Engine, impressions: ir.Table, finder: FaultFinder) -> ir.Table:
    """The impressions without duplicates, numbered in the order of part, time and id."""
    key = ["part", "impression_id"]
    numbered = engine.materialize("impressions", _with_numbers(impressions))
    if _count(engine, numbered) > _count(engine, numbered.select(*key).distinct()):
        numbered = engine.materialize("distinct_impressions", _with_numbers(numbered.drop("impression").distinct()))
        if _count(engine, numbered) > _count(engine, numbered.select(*key).distinct()):
            raise LogError(finder.first_fault() or "two different impressions have the same id")
    return numbered


def day_number(times: ir.TimestampColumn) -> ir.IntegerColumn:
    """The number of each time's day, counted from 1970."""
    number: ir.IntegerColumn = (times.epoch_seconds() / 86_400).floor().cast("int64")
    return number


def _with_numbers(impressions: ir.Table) -> ir.Table:
    order = [impressions.part, impressions.time, impressions.impression_id]
    number = ibis.row_number().over(order_by=order).cast("int64")
    return impressions.mutate(impression=number, day=day_number(impressions.time))


def _count(engine: Engine, table: ir.Table) -> int:
    return int(engine.single_row(table.aggregate(rows=table.count()))["rows"])


def deduplicate_news(engine: Engine, news: ir.Table, finder: FaultFinder) -> ir.Table:
    """The news table with one row per id; an id with two titles is an error."""
    news = news.mutate(title=news.title.fill_null(""))
    news = engine.materialize("raw_news", news)
    groups = news.group_by("news_id").aggregate(titles=news.title.nunique(), rows=news.count())
    counts = engine.single_row(
        groups.aggregate(
            rows=groups.rows.sum().coalesce(0),
            news=groups.count(),
            conflicts=(groups.titles > 1).sum().coalesce(0),
            without_id=groups.news_id.isnull().sum().coalesce(0),
        )
    )
    if counts["rows"] == 0 or counts["conflicts"] or counts["without_id"]:
        raise LogError(finder.first_fault() or "the news table is empty, or its ids are not unique")
    if counts["rows"] == counts["news"]:
        return news
    columns = [name for name in news.columns if name != "news_id"]
    return news.group_by("news_id").aggregate(**{name: news[name].min() for name in columns})

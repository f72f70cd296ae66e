"""What every reader gives: the same tables, whatever the logs looked like on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import ibis
import ibis.expr.types as ir

from drpn import schema
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine, EngineError


class Places(Protocol):
    """Finds the line a problem stands on, by reading the files again, slowly, once something is known to be wrong."""

    def first_fault(self) -> str | None:
        """The first line that breaks the format, as a message for the user."""

    def where_shown(self, news_id: str) -> str:
        """The first place at which a news was shown."""


@dataclass(frozen=True)
class Logs:
    """Logs as Ibis tables.

    news         news_id, title, and what there is of schema.NEWS
    impressions  impression (their number, from 0, by part, time and id), part (0, or 1 for the second of two files),
                 and what there is of schema.IMPRESSION
    shown        impression, and what there is of schema.SHOWN; order, the place in a list, where there is no position
    history      user_id, news_id, order (rising with time), part: clicks from before the log, where it has them
    """

    news: ir.Table
    impressions: ir.Table
    shown: ir.Table
    history: ir.Table | None
    parts: int
    sources: tuple[Path, ...]
    places: Places

    def extras(self) -> tuple[schema.Column, ...]:
        """The optional columns of impressions and shown news that these logs have."""
        present = {*self.impressions.columns, *self.shown.columns}
        return tuple(column for column in schema.optional(schema.IMPRESSIONS) if column.name in present)


def number_impressions(engine: Engine, impressions: ir.Table, places: Places) -> ir.Table:
    """The impressions, each once, with their number in the order of part, time and id."""
    identity = ["part", "impression_id"]
    kept = engine.keep("impressions", _numbered(impressions))
    if _count(engine, kept) > _count(engine, kept.select(*identity).distinct()):
        kept = engine.keep("distinct_impressions", _numbered(kept.drop("impression").distinct()))
        if _count(engine, kept) > _count(engine, kept.select(*identity).distinct()):
            raise LogError(places.first_fault() or "two different impressions have the same id")
    return kept


def _numbered(impressions: ir.Table) -> ir.Table:
    order = [impressions.part, impressions.time, impressions.impression_id]
    return impressions.mutate(impression=ibis.row_number().over(order_by=order).cast("int64"))


def _count(engine: Engine, table: ir.Table) -> int:
    return int(engine.one(table.aggregate(rows=table.count()))["rows"])


def one_row_per_news(engine: Engine, news: ir.Table, places: Places) -> ir.Table:
    """The news, each id once; an id with two titles is an error."""
    news = news.mutate(title=news.title.fill_null(""))
    news = engine.keep("raw_news", news)
    groups = news.group_by("news_id").aggregate(titles=news.title.nunique(), rows=news.count())
    found = engine.one(
        groups.aggregate(
            rows=groups.rows.sum().coalesce(0),
            news=groups.count(),
            conflicts=(groups.titles > 1).sum().coalesce(0),
            nameless=groups.news_id.isnull().sum().coalesce(0),
        )
    )
    if found["rows"] == 0 or found["conflicts"] or found["nameless"]:
        raise LogError(places.first_fault() or "the news table is empty, or its ids are not unique")
    if found["rows"] == found["news"]:
        return news
    columns = [name for name in news.columns if name != "news_id"]
    return news.group_by("news_id").aggregate(**{name: news[name].min() for name in columns})


@contextmanager
def blaming(places: Places) -> Iterator[None]:
    """Answer a query that failed with the line of the logs that is at fault."""
    try:
        yield
    except EngineError as error:
        raise LogError(places.first_fault() or f"the logs cannot be read: {error}") from error

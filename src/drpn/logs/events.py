"""Events, our own open format: a `news` and an `impressions` table as Parquet, CSV or JSON Lines.

`impressions` has one row for each news that was shown; `schema` names the columns, `docs/events.md` shows an example.
"""

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from drpn import schema
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine, EngineError
from drpn.logs.places import records, relative, require_columns, require_files
from drpn.logs.tables import Logs, blaming, number_impressions, one_row_per_news

SUFFIXES = (".parquet", ".csv", ".jsonl")
LAYOUT = "events are news and impressions, each a .parquet, .csv or .jsonl file"
_YES, _NO = ("1", "true"), ("0", "false")


def looks_like(folder: Path) -> bool:
    """Whether the folder is in this format."""
    return any((folder / f"impressions{suffix}").exists() for suffix in SUFFIXES)


def read(folder: Path, engine: Engine, *, history: bool = False) -> Logs:
    """The tables of a folder of events, which know no history from before the log."""
    if history:
        raise LogError("events hold no clicks from before the log; leave data.history at false")
    news_file, impressions_file = _find(folder, "news"), _find(folder, "impressions")
    require_files(news_file, impressions_file, root=folder, layout=LAYOUT)
    places = EventPlaces(folder, news_file, impressions_file)
    with blaming(places):
        news = one_row_per_news(engine, _typed(engine, news_file, schema.NEWS, folder), places)
        rows = engine.keep("events", _typed(engine, impressions_file, schema.IMPRESSIONS, folder))
        _check(engine, rows, places)
        impressions = number_impressions(engine, _impressions(rows), places)
    names = [column.name for column in schema.SHOWN if column.name in rows.columns]
    numbers = impressions.select("impression", "impression_id")
    return Logs(
        news=news,
        impressions=impressions,
        shown=rows.select("impression_id", *names)
        .distinct()
        .join(numbers, "impression_id")
        .select("impression", *names),
        history=None,
        parts=1,
        sources=(news_file, impressions_file),
        places=places,
    )


def _find(folder: Path, name: str) -> Path:
    found = [folder / f"{name}{suffix}" for suffix in SUFFIXES if (folder / f"{name}{suffix}").exists()]
    if len(found) > 1:
        both = " and ".join(file.name for file in found)
        raise LogError(f"{folder} has {both}; keep one of them")
    return found[0] if found else folder / f"{name}.parquet"


def _open(engine: Engine, file: Path) -> ir.Table:
    if file.suffix == ".csv":
        return engine.comma_separated(file)
    return engine.parquet(file) if file.suffix == ".parquet" else engine.json_lines(file)


def _typed(engine: Engine, file: Path, columns: tuple[schema.Column, ...], root: Path) -> ir.Table:
    """The file's columns in the types of the schema; a value that is not of its type is an EngineError."""
    table = _open(engine, file)
    require_columns(table.columns, [column.name for column in columns if column.required], file, root)
    casts = {column.name: _cast(table[column.name], column) for column in columns if column.name in table.columns}
    misfits = [table[name].notnull() & value.isnull() for name, value in casts.items()]
    wrong = functools.reduce(operator.or_, misfits).sum().coalesce(0)
    if engine.one(table.aggregate(wrong=wrong))["wrong"]:
        raise EngineError(f"{relative(file, root)} has a value that is not of its column's type")
    return table.select(**casts)


def _cast(values: ir.Column, column: schema.Column) -> ir.Value:
    """The values in the type of the column; null where they are not of it."""
    if column.kind == "text":
        return values.cast("string")
    if column.kind == "flag":
        word = values.cast("string").lower()
        return ibis.cases((word.isin(_YES), True), (word.isin(_NO), False))
    if column.kind == "time":
        instant = values if values.type().is_timestamp() else values.cast("string").try_cast("timestamp('UTC')")
        return instant.cast("timestamp")
    if column.kind == "vector":
        parts = values.split(" ") if values.type().is_string() else values
        return parts.try_cast("array<float32>")
    return values.try_cast("int32" if column.kind == "whole" else "float32")


def _check(engine: Engine, rows: ir.Table, places: "EventPlaces") -> None:
    empty = ibis.literal(False)
    for column in schema.IMPRESSIONS:
        if column.required:
            empty = empty | rows[column.name].isnull()
            if column.kind == "text":
                empty = empty | (rows[column.name].strip() == "")
    torn = rows.group_by("impression_id").aggregate(users=rows.user_id.nunique(), times=rows.time.nunique())
    found = engine.one(rows.aggregate(rows=rows.count(), wrong=empty.sum().coalesce(0)))
    split = engine.one(torn.aggregate(wrong=((torn.users > 1) | (torn.times > 1)).sum().coalesce(0)))
    if found["rows"] == 0 or found["wrong"] or split["wrong"]:
        raise LogError(places.first_fault() or f"no impressions in {places.root}")


def _impressions(rows: ir.Table) -> ir.Table:
    names = [
        column.name for column in schema.IMPRESSION if column.name in rows.columns and column.name != "impression_id"
    ]
    one = rows.group_by("impression_id").aggregate(**{name: rows[name].min() for name in names})
    return one.mutate(part=ibis.literal(0, type="int8"))


@dataclass(frozen=True)
class EventPlaces:
    """The lines of a folder of events, for error messages."""

    root: Path
    news_file: Path
    impressions_file: Path

    def first_fault(self) -> str | None:
        """The first line that breaks the format."""
        try:
            self._check_news()
            self._check_impressions()
        except LogError as fault:
            return str(fault)
        return None

    def where_shown(self, news_id: str) -> str:
        """The first line that shows the news."""
        for place, record in records(self.impressions_file, self.root):
            if str(record["news_id"]) == news_id:
                return place
        return relative(self.impressions_file, self.root)

    def _check_news(self) -> None:
        titles: dict[str, tuple[str, str]] = {}
        for place, record in records(self.news_file, self.root):
            _require(place, record, schema.NEWS, but="title")
            news_id, title = str(record["news_id"]), record["title"] or ""
            before, first = titles.setdefault(news_id, (title, place))
            if before != title:
                raise LogError(
                    f"{place}: news {news_id} is {title!r} here but {before!r} in {first}; keep one of the two"
                )
        if not titles:
            raise LogError(f"{relative(self.news_file, self.root)} has no rows")

    def _check_impressions(self) -> None:
        owners: dict[str, tuple[tuple[str, str], str]] = {}
        for place, record in records(self.impressions_file, self.root):
            _require(place, record, schema.IMPRESSIONS)
            impression_id, owner = str(record["impression_id"]), (str(record["user_id"]), str(record["time"]))
            before, first = owners.setdefault(impression_id, (owner, place))
            if before != owner:
                was, now = " at ".join(before), " at ".join(owner)
                raise LogError(f"{place}: impression {impression_id} is of {now} here but of {was} in {first}")
        if not owners:
            raise LogError(f"{relative(self.impressions_file, self.root)} has no rows")


def _require(place: str, record: dict[str, Any], columns: tuple[schema.Column, ...], *, but: str | None = None) -> None:
    """Each required column but `but` is filled, and what is filled is of its kind."""
    for column in columns:
        value = record.get(column.name)
        if value is None or value == "" or (column.kind == "text" and str(value).strip() == ""):
            if column.required and column.name != but:
                raise LogError(f"{place}: {column.name} is empty")
        elif not _FITS[column.kind](value):
            raise LogError(f"{place}: {column.name} is {value!r}; it takes {_TAKES[column.kind]}")


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime) or _runs(datetime.fromisoformat, str(value))


def _is_vector(value: Any) -> bool:
    parts = value.split(" ") if isinstance(value, str) else value
    return isinstance(parts, list) and all(_runs(float, part) for part in parts)


def _runs(parse: Callable[[Any], Any], value: Any) -> bool:
    try:
        parse(value)
    except (ValueError, TypeError):
        return False
    return True


_FITS: dict[schema.Kind, Callable[[Any], bool]] = {
    "text": lambda _: True,
    "flag": lambda value: str(value).lower() in _YES + _NO,
    "time": _is_time,
    "whole": lambda value: _runs(int, value),
    "number": lambda value: _runs(float, value),
    "vector": _is_vector,
}
_TAKES: dict[schema.Kind, str] = {
    "text": "text",
    "flag": "0 or 1",
    "time": "a time such as 2026-01-31T08:15:00",
    "whole": "a whole number",
    "number": "a number",
    "vector": "numbers, as a list or between spaces",
}

"""The events format: a `news` and an `impressions` table as Parquet, CSV or JSON Lines.

`impressions` has one row per shown story. `schema` lists the columns; `docs/events.md` has an example.
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
from drpn.logs.fault_lines import explain_engine_errors, records, relative, require_columns, require_files
from drpn.logs.sources import sources_of
from drpn.logs.tables import Logs, deduplicate_news, number_impressions

SUFFIXES = (".parquet", ".csv", ".jsonl")
LAYOUT = "events are news and impressions, each a .parquet, .csv or .jsonl file, or a folder of such files"
_TRUE, _FALSE = ("1", "true"), ("0", "false")


def looks_like(folder: Path) -> bool:
    """Whether the folder is in this format."""
    return any((folder / f"impressions{suffix}").exists() for suffix in SUFFIXES)


def read(folder: Path, engine: Engine, *, history: bool = False) -> Logs:
    """The tables of a folder of events; the format has no clicks before the log, so `history` must be false."""
    if history:
        raise LogError("the events format has no clicks before the log; leave data.history at false")
    news_file, impressions_file = _find_file(folder, "news"), _find_file(folder, "impressions")
    require_files(news_file, impressions_file, root=folder, layout=LAYOUT)
    sources = sources_of([news_file, impressions_file])
    finder = EventsFaultFinder(folder, news_file, impressions_file)
    with explain_engine_errors(finder):
        news = deduplicate_news(engine, _read_typed(engine, news_file, schema.NEWS, folder), finder)
        rows = engine.materialize("events", _read_typed(engine, impressions_file, schema.IMPRESSIONS, folder))
        _check_impressions(engine, rows, finder)
        impressions = number_impressions(engine, _impressions(rows), finder)
    names = [column.name for column in schema.SHOWN if column.name in rows.columns]
    numbers = impressions.select("impression", "day", "impression_id")
    return Logs(
        news=news,
        impressions=impressions,
        shown=rows.select("impression_id", *names).join(numbers, "impression_id").select("impression", "day", *names),
        history=None,
        parts=1,
        sources=sources,
        fault_finder=finder,
    )


def _find_file(folder: Path, name: str) -> Path:
    files = [folder / f"{name}{suffix}" for suffix in SUFFIXES if (folder / f"{name}{suffix}").exists()]
    if len(files) > 1:
        names = " and ".join(file.name for file in files)
        raise LogError(f"{folder} has {names}; keep one of them")
    return files[0] if files else folder / f"{name}.parquet"


def _read(engine: Engine, file: Path) -> ir.Table:
    if file.suffix == ".csv":
        return engine.read_csv(file)
    return engine.read_parquet(file) if file.suffix == ".parquet" else engine.read_json_lines(file)


def _read_typed(engine: Engine, file: Path, columns: tuple[schema.Column, ...], root: Path) -> ir.Table:
    """The file's columns, cast to the types of the schema; a value that cannot be cast is an EngineError."""
    table = _read(engine, file)
    require_columns(table.columns, [column.name for column in columns if column.required], file, root)
    casts = {column.name: _cast(table[column.name], column) for column in columns if column.name in table.columns}
    failures = [table[name].notnull() & value.isnull() for name, value in casts.items()]
    bad = functools.reduce(operator.or_, failures).sum().coalesce(0)
    if engine.single_row(table.aggregate(bad=bad))["bad"]:
        raise EngineError(f"{relative(file, root)} has a value of the wrong type")
    return table.select(**casts)


def _cast(values: ir.Column, column: schema.Column) -> ir.Value:
    """The values cast to the column's type; null where the cast fails."""
    if column.kind == "text":
        return values.cast("string")
    if column.kind == "flag":
        text = values.cast("string").lower()
        return ibis.cases((text.isin(_TRUE), True), (text.isin(_FALSE), False))
    if column.kind == "time":
        instant = values if values.type().is_timestamp() else values.cast("string").try_cast("timestamp('UTC')")
        return instant.cast("timestamp")
    if column.kind == "vector":
        numbers = values.split(" ") if values.type().is_string() else values
        return numbers.try_cast("array<float32>")
    return values.try_cast("int32" if column.kind == "whole" else "float32")


def _check_impressions(engine: Engine, rows: ir.Table, finder: "EventsFaultFinder") -> None:
    empty = ibis.literal(False)
    for column in schema.IMPRESSIONS:
        if column.required:
            empty = empty | rows[column.name].isnull()
            if column.kind == "text":
                empty = empty | (rows[column.name].strip() == "")
    pages = rows.group_by("impression_id").aggregate(users=rows.user_id.nunique(), times=rows.time.nunique())
    inconsistent = ((pages.users > 1) | (pages.times > 1)).sum().coalesce(0)
    counts = engine.single_row(rows.aggregate(rows=rows.count(), empty=empty.sum().coalesce(0)))
    page_counts = engine.single_row(pages.aggregate(inconsistent=inconsistent))
    if counts["rows"] == 0 or counts["empty"] or page_counts["inconsistent"]:
        raise LogError(finder.first_fault() or f"no impressions in {finder.root}")


def _impressions(rows: ir.Table) -> ir.Table:
    names = [
        column.name for column in schema.IMPRESSION if column.name in rows.columns and column.name != "impression_id"
    ]
    impressions = rows.group_by("impression_id").aggregate(**{name: rows[name].min() for name in names})
    return impressions.mutate(part=ibis.literal(0, type="int8"))


@dataclass(frozen=True)
class EventsFaultFinder:
    """Finds bad lines in a folder of events."""

    root: Path
    news_file: Path
    impressions_file: Path

    def first_fault(self) -> str | None:
        """The error message for the first bad line; None if every line is valid."""
        try:
            self._check_news()
            self._check_impressions()
        except LogError as fault:
            return str(fault)
        return None

    def first_shown(self, news_id: str) -> str:
        """The location of the first line that shows the story."""
        for location, record in records(self.impressions_file, self.root):
            if str(record["news_id"]) == news_id:
                return location
        return relative(self.impressions_file, self.root)

    def _check_news(self) -> None:
        titles: dict[str, tuple[str, str]] = {}
        for location, record in records(self.news_file, self.root):
            _check_record(location, record, schema.NEWS, may_be_empty="title")
            news_id, title = str(record["news_id"]), record["title"] or ""
            first_title, first_location = titles.setdefault(news_id, (title, location))
            if first_title != title:
                raise LogError(
                    f"{location}: news {news_id} is {title!r} here but {first_title!r} in {first_location}; "
                    "keep one of the two"
                )
        if not titles:
            raise LogError(f"{relative(self.news_file, self.root)} has no rows")

    def _check_impressions(self) -> None:
        heads: dict[str, tuple[tuple[str, str], str]] = {}  # user and time by impression, and where they were read
        for location, record in records(self.impressions_file, self.root):
            _check_record(location, record, schema.IMPRESSIONS)
            impression_id, head = str(record["impression_id"]), (str(record["user_id"]), str(record["time"]))
            first_head, first_location = heads.setdefault(impression_id, (head, location))
            if first_head != head:
                first, other = " at ".join(first_head), " at ".join(head)
                raise LogError(
                    f"{location}: impression {impression_id} is of {other} here but of {first} in {first_location}"
                )
        if not heads:
            raise LogError(f"{relative(self.impressions_file, self.root)} has no rows")


def _check_record(
    location: str, record: dict[str, Any], columns: tuple[schema.Column, ...], *, may_be_empty: str | None = None
) -> None:
    """Check that required columns except `may_be_empty` have a value, and that every value has its column's type."""
    for column in columns:
        value = record.get(column.name)
        if value is None or value == "" or (column.kind == "text" and str(value).strip() == ""):
            if column.required and column.name != may_be_empty:
                raise LogError(f"{location}: {column.name} is empty")
        elif not _IS_VALID[column.kind](value):
            raise LogError(f"{location}: {column.name} is {value!r}; it takes {_EXPECTED[column.kind]}")


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime) or _parses(datetime.fromisoformat, str(value))


def _is_vector(value: Any) -> bool:
    numbers = value.split(" ") if isinstance(value, str) else value
    return isinstance(numbers, list) and all(_parses(float, number) for number in numbers)


def _parses(parse: Callable[[Any], Any], value: Any) -> bool:
    try:
        parse(value)
    except (ValueError, TypeError):
        return False
    return True


_IS_VALID: dict[schema.Kind, Callable[[Any], bool]] = {
    "text": lambda _: True,
    "flag": lambda value: str(value).lower() in _TRUE + _FALSE,
    "time": _is_time,
    "whole": lambda value: _parses(int, value),
    "number": lambda value: _parses(float, value),
    "vector": _is_vector,
}
_EXPECTED: dict[schema.Kind, str] = {
    "text": "text",
    "flag": "0 or 1",
    "time": "a time such as 2026-01-31T08:15:00",
    "whole": "a whole number",
    "number": "a number",
    "vector": "numbers, as a list or separated by spaces",
}

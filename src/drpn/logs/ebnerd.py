"""EB-NeRD: `articles.parquet`, `train/` and optionally `validation/`, with `behaviors.parquet` and `history.parquet`.

Kruse et al., "EB-NeRD: A Large-Scale Dataset for News Recommendation", RecSys Challenge 2024. Only the columns
for users, times, candidates and clicks are required; read time, scroll, device, age, gender, subscription, session and
the story of the page are optional. So are the times, read times and scroll of histories.
"""

import functools
import operator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.logs.fault_lines import explain_engine_errors, records, relative, require_columns, require_files
from drpn.logs.sources import sources_of
from drpn.logs.tables import Logs, deduplicate_news, number_impressions

LAYOUT = "EB-NeRD logs are articles.parquet and train/ (and validation/) with behaviors.parquet and history.parquet"
BEHAVIORS = ("impression_id", "user_id", "impression_time", "article_ids_inview", "article_ids_clicked")
HISTORY = ("user_id", "article_id_fixed")
HISTORY_TYPES = {
    "time": ("impression_time_fixed", "timestamp"),
    "read_seconds": ("read_time_fixed", "float32"),
    "scroll": ("scroll_percentage_fixed", "float32"),
}
"""Optional lists of a history with one value per click: the name in `Logs.history`, the name on disk, the type."""


def looks_like(folder: Path) -> bool:
    """Whether the folder is in this format."""
    return (folder / "articles.parquet").exists()


def read(folder: Path, engine: Engine, *, history: bool = False) -> Logs:
    """The tables of an EB-NeRD folder; `history` includes the clicks before the log."""
    parts = [folder / "train"] + ([folder / "validation"] if (folder / "validation").exists() else [])
    names = ("behaviors.parquet", "history.parquet") if history else ("behaviors.parquet",)
    files = [folder / "articles.parquet"] + [part / name for part in parts for name in names]
    require_files(*files, root=folder, layout=LAYOUT)
    sources = sources_of(files)
    finder = EbnerdFaultFinder(folder, tuple(parts), history=history)
    with explain_engine_errors(finder):
        news = deduplicate_news(engine, _read_news(engine, folder), finder)
        tables = [
            _read_behaviors(engine, part, folder).mutate(part=_part_number(index)) for index, part in enumerate(parts)
        ]
        common = [name for name in tables[0].columns if all(name in table.columns for table in tables)]
        impressions = number_impressions(engine, ibis.union(*[table.select(*common) for table in tables]), finder)
        _check_impressions(engine, impressions, finder)
        clicks_before = _read_history(engine, parts, finder) if history else None
    reading = [name for name in ("read_seconds", "scroll") if name in common]
    return Logs(
        news=news,
        impressions=impressions.drop("inview", "clicked", *reading),
        shown=_shown(impressions, reading),
        history=clicks_before,
        parts=len(parts),
        sources=sources,
        fault_finder=finder,
    )


def _part_number(part: int) -> ir.IntegerScalar:
    return ibis.literal(part, type="int8")


def _read_news(engine: Engine, root: Path) -> ir.Table:
    file = root / "articles.parquet"
    table = engine.read_parquet(file)
    require_columns(table.columns, ("article_id", "title"), file, root)
    columns = {"news_id": table.article_id.cast("string"), "title": table.title}
    category = next((name for name in ("category_str", "category") if name in table.columns), None)
    if category is not None:
        columns["category"] = table[category].cast("string")
    if "subcategory" in table.columns:
        most_specific = ibis.ifelse(table.subcategory.length() > 0, table.subcategory[0], None)  # of a list
        columns["subcategory"] = most_specific.cast("string")
    if "subtitle" in table.columns:
        columns["abstract"] = table.subtitle
    if "published_time" in table.columns:
        columns["published"] = table.published_time.cast("timestamp")
    return table.select(**columns)


def _read_behaviors(engine: Engine, part: Path, root: Path) -> ir.Table:
    file = part / "behaviors.parquet"
    table = engine.read_parquet(file)
    require_columns(table.columns, BEHAVIORS, file, root)
    columns = {
        "impression_id": table.impression_id.cast("string"),
        "user_id": table.user_id.cast("string"),
        "time": table.impression_time.cast("timestamp"),
        "inview": table.article_ids_inview.cast("array<string>"),
        "clicked": table.article_ids_clicked.cast("array<string>"),
    }
    texts = {
        "session": "session_id",
        "device": "device_type",
        "gender": "gender",
        "subscriber": "is_subscriber",
        "page": "article_id",
    }
    numbers = {"age": "age", "read_seconds": "next_read_time", "scroll": "next_scroll_percentage"}
    columns |= {name: table[column].cast("string") for name, column in texts.items() if column in table.columns}
    columns |= {name: table[column].cast("float32") for name, column in numbers.items() if column in table.columns}
    if "article_id" in table.columns:
        columns["surface"] = ibis.ifelse(table.article_id.isnull(), "front page", "article page")
    return table.select(**columns)


def _check_impressions(engine: Engine, impressions: ir.Table, finder: "EbnerdFaultFinder") -> None:
    empty = [impressions[name].isnull() for name in ("impression_id", "user_id", "time", "inview", "clicked")]
    bad = empty[0] | empty[1] | empty[2] | empty[3] | empty[4] | (impressions.inview.length() == 0)
    counts = engine.single_row(impressions.aggregate(rows=impressions.count(), bad=bad.sum().coalesce(0)))
    if counts["rows"] == 0 or counts["bad"]:
        raise LogError(finder.first_fault() or f"no impressions in {finder.root}")


def _shown(impressions: ir.Table, reading: list[str]) -> ir.Table:
    """One row per candidate; the `reading` columns (read time, scroll) go to the clicked one."""
    # the log has one read time per impression, so with several clicks it is unknown which story it belongs to
    single = impressions.clicked.length() == 1
    values = {name: ibis.ifelse(single, impressions[name], ibis.null("float32")) for name in reading}
    rows = impressions.select("impression", "day", "clicked", news_id=impressions.inview, **values)
    rows = rows.unnest("news_id", offset="order")
    rows = rows.mutate(clicked=rows.clicked.contains(rows.news_id), order=rows.order.cast("int32"))
    return rows.mutate(**{name: ibis.ifelse(rows.clicked, rows[name], ibis.null("float32")) for name in reading})


def _read_history(engine: Engine, parts: list[Path], finder: "EbnerdFaultFinder") -> ir.Table:
    """The clicks before the log, from the first part that has the user, ordered by time if the files have times."""
    tables = [engine.read_parquet(part / "history.parquet") for part in parts]
    for part, table in zip(parts, tables, strict=True):
        require_columns(table.columns, HISTORY, part / "history.parquet", finder.root)
    lists = {
        name: (column, kind)
        for name, (column, kind) in HISTORY_TYPES.items()
        if all(column in table.columns for table in tables)
    }
    for table in tables:
        _check_history(engine, table, [column for column, _ in lists.values()], finder)
    rows = ibis.union(*[_zip_lists(table, lists).mutate(part=_part_number(part)) for part, table in enumerate(tables)])
    first = rows.group_by("user_id").aggregate(part=rows.part.min())
    rows = rows.semi_join(first, ["user_id", "part"]).unnest("click", offset="order")
    values = [rows.click[field] for field in rows.click.type().names] if lists else [rows.click]
    rows = rows.select("part", "user_id", "order", **dict(zip(("news_id", *lists), values, strict=True)))
    if "time" in lists:  # the lists need not be sorted; a click without a time counts as older than those with one
        by_time = ibis.window(group_by="user_id", order_by=[rows.time.asc(nulls_first=True), rows.order])
        rows = rows.mutate(order=ibis.row_number().over(by_time))
    return rows.mutate(order=rows.order.cast("int32"))


def _zip_lists(table: ir.Table, lists: dict[str, tuple[str, str]]) -> ir.Table:
    """One row per user: user_id, click (a list with the story of each click, or with the story and other values)."""
    stories = table.article_id_fixed.cast("array<string>")
    types = [(column, f"array<{kind}>") for column, kind in lists.values()]
    values = [table[column].cast(kind).fill_null(ibis.literal([], type=kind)) for column, kind in types]
    return table.select(user_id=table.user_id.cast("string"), click=stories.zip(*values) if values else stories)


def _check_history(engine: Engine, table: ir.Table, columns: list[str], finder: "EbnerdFaultFinder") -> None:
    """Check that each list has one value per click, or is missing as a whole."""
    wrong = [(table[column].length() != table.article_id_fixed.length()).fill_null(False) for column in columns]
    if wrong and engine.single_row(table.aggregate(bad=functools.reduce(operator.or_, wrong).sum().coalesce(0)))["bad"]:
        raise LogError(finder.first_fault() or "a history has lists of different lengths")


@dataclass(frozen=True)
class EbnerdFaultFinder:
    """Finds bad rows in an EB-NeRD folder."""

    root: Path
    parts: tuple[Path, ...]
    history: bool
    """Whether the histories are read too."""

    def first_fault(self) -> str | None:
        """The error message for the first bad row; None if every row is valid."""
        try:
            self._check_articles()
            for part in self.parts:
                self._check_behaviors(part)
                if self.history:
                    self._check_history(part)
        except LogError as fault:
            return str(fault)
        return None

    def first_shown(self, news_id: str) -> str:
        """The location of the first row that shows the story."""
        for part in self.parts:
            for location, record in records(part / "behaviors.parquet", self.root):
                if news_id in map(str, record["article_ids_inview"]):
                    return location
        return relative(self.parts[0] / "history.parquet", self.root)

    def _check_articles(self) -> None:
        titles: dict[Any, tuple[str, str]] = {}
        rows = 0
        for location, record in records(self.root / "articles.parquet", self.root):
            rows += 1
            news_id, title = record["article_id"], record["title"]
            if news_id is None:
                raise LogError(f"{location}: article_id is empty")
            first_title, first_location = titles.setdefault(news_id, (title, location))
            if first_title != title:
                raise LogError(
                    f"{location}: news {news_id} is {title!r} here but {first_title!r} in {first_location}; "
                    "keep one of the two"
                )
        if rows == 0:
            raise LogError("articles.parquet has no rows")

    def _check_behaviors(self, part: Path) -> None:
        seen: dict[Any, tuple[str, str]] = {}
        for location, record in records(part / "behaviors.parquet", self.root):
            for name in BEHAVIORS:
                if record[name] is None:
                    raise LogError(f"{location}: {name} is empty")
            impression_id = record["impression_id"]
            if not record["article_ids_inview"]:
                raise LogError(f"{location}: impression {impression_id} has no candidates; leave the row out")
            content, first_location = seen.setdefault(impression_id, (str(record), location))
            if content != str(record):
                raise LogError(
                    f"{location}: impression {impression_id} was already in {first_location}, with different content"
                )
        if not seen:
            raise LogError(f"{relative(part / 'behaviors.parquet', self.root)} has no rows")

    def _check_history(self, part: Path) -> None:
        for location, record in records(part / "history.parquet", self.root):
            clicks = len(record["article_id_fixed"] or [])
            for column, _ in HISTORY_TYPES.values():
                values = record.get(column)
                if values is not None and len(values) != clicks:
                    raise LogError(
                        f"{location}: {column} has {len(values)} values, but article_id_fixed {clicks}; "
                        "write one for each click"
                    )

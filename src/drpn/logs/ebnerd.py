"""EB-NeRD: `articles.parquet`, `train/` and, if there, `validation/`, with `behaviors.parquet` and `history.parquet`.

Kruse et al., "EB-NeRD: A Large-Scale Dataset for News Recommendation", RecSys Challenge 2024. Only the columns that
say who saw and clicked what, and when, are required; read time, scroll, device, age, gender and session are kept
where they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir

from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.logs.places import records, relative, require_columns, require_files
from drpn.logs.tables import Logs, blaming, number_impressions, one_row_per_news

LAYOUT = "EB-NeRD logs are articles.parquet and train/ (and validation/) with behaviors.parquet and history.parquet"
BEHAVIORS = ("impression_id", "user_id", "impression_time", "article_ids_inview", "article_ids_clicked")
HISTORY = ("user_id", "article_id_fixed")


def looks_like(folder: Path) -> bool:
    """Whether the folder is in this format."""
    return (folder / "articles.parquet").exists()


def read(folder: Path, engine: Engine, *, history: bool = False) -> Logs:
    """The tables of an EB-NeRD folder; `history` asks for the clicks from before the log too."""
    parts = [folder / "train"] + ([folder / "validation"] if (folder / "validation").exists() else [])
    names = ("behaviors.parquet", "history.parquet") if history else ("behaviors.parquet",)
    files = [folder / "articles.parquet"] + [part / name for part in parts for name in names]
    require_files(*files, root=folder, layout=LAYOUT)
    places = EbnerdPlaces(folder, tuple(parts))
    with blaming(places):
        news = one_row_per_news(engine, _news(engine, folder), places)
        tables = [_behaviors(engine, part, folder).mutate(part=_number(index)) for index, part in enumerate(parts)]
        common = [name for name in tables[0].columns if all(name in table.columns for table in tables)]
        impressions = number_impressions(engine, ibis.union(*[table.select(*common) for table in tables]), places)
        _check(engine, impressions, places)
    clicks = ("read_seconds", "scroll")
    return Logs(
        news=news,
        impressions=impressions.drop("inview", "clicked", *[name for name in clicks if name in common]),
        shown=_shown(impressions, [name for name in clicks if name in common]),
        history=_history(engine, parts, folder) if history else None,
        parts=len(parts),
        sources=tuple(files),
        places=places,
    )


def _number(part: int) -> ir.IntegerScalar:
    return ibis.literal(part, type="int8")


def _news(engine: Engine, root: Path) -> ir.Table:
    file = root / "articles.parquet"
    table = engine.parquet(file)
    require_columns(table.columns, ("article_id", "title"), file, root)
    columns = {"news_id": table.article_id.cast("string"), "title": table.title}
    category = next((name for name in ("category_str", "category") if name in table.columns), None)
    if category is not None:
        columns["category"] = table[category].cast("string")
    if "subcategory" in table.columns:
        columns["subcategory"] = table.subcategory[0].cast("string")  # a list, the narrowest first
    if "subtitle" in table.columns:
        columns["abstract"] = table.subtitle
    if "published_time" in table.columns:
        columns["published"] = table.published_time.cast("timestamp")
    return table.select(**columns)


def _behaviors(engine: Engine, part: Path, root: Path) -> ir.Table:
    file = part / "behaviors.parquet"
    table = engine.parquet(file)
    require_columns(table.columns, BEHAVIORS, file, root)
    columns = {
        "impression_id": table.impression_id.cast("string"),
        "user_id": table.user_id.cast("string"),
        "time": table.impression_time.cast("timestamp"),
        "inview": table.article_ids_inview.cast("array<string>"),
        "clicked": table.article_ids_clicked.cast("array<string>"),
    }
    texts = {"session": "session_id", "device": "device_type", "gender": "gender"}
    numbers = {"age": "age", "read_seconds": "next_read_time", "scroll": "next_scroll_percentage"}
    columns |= {ours: table[theirs].cast("string") for ours, theirs in texts.items() if theirs in table.columns}
    columns |= {ours: table[theirs].cast("float32") for ours, theirs in numbers.items() if theirs in table.columns}
    if "article_id" in table.columns:
        columns["surface"] = ibis.ifelse(table.article_id.isnull(), "front page", "article page")
    return table.select(**columns)


def _check(engine: Engine, impressions: ir.Table, places: "EbnerdPlaces") -> None:
    needed = [impressions[name].isnull() for name in ("impression_id", "user_id", "time", "inview", "clicked")]
    wrong = needed[0] | needed[1] | needed[2] | needed[3] | needed[4] | (impressions.inview.length() == 0)
    found = engine.one(impressions.aggregate(rows=impressions.count(), wrong=wrong.sum().coalesce(0)))
    if found["rows"] == 0 or found["wrong"]:
        raise LogError(places.first_fault() or f"no impressions in {places.root}")


def _shown(impressions: ir.Table, of_clicks: list[str]) -> ir.Table:
    # what was read after the impression is known for one click alone
    single = impressions.clicked.length() == 1
    known = {name: ibis.ifelse(single, impressions[name], ibis.null("float32")) for name in of_clicks}
    rows = impressions.select("impression", "clicked", news_id=impressions.inview, **known)
    rows = rows.unnest("news_id", offset="order")
    rows = rows.mutate(clicked=rows.clicked.contains(rows.news_id), order=rows.order.cast("int32"))
    return rows.mutate(**{name: ibis.ifelse(rows.clicked, rows[name], ibis.null("float32")) for name in of_clicks})


def _history(engine: Engine, parts: list[Path], root: Path) -> ir.Table:
    tables = []
    for index, part in enumerate(parts):
        file = part / "history.parquet"
        table = engine.parquet(file)
        require_columns(table.columns, HISTORY, file, root)
        tables.append(
            table.select(part=_number(index), user_id=table.user_id.cast("string"), news_id="article_id_fixed")
        )
    rows = ibis.union(*tables)
    first = rows.group_by("user_id").aggregate(part=rows.part.min())
    rows = rows.semi_join(first, ["user_id", "part"]).unnest("news_id", offset="order")
    return rows.mutate(news_id=rows.news_id.cast("string"), order=rows.order.cast("int32"))


@dataclass(frozen=True)
class EbnerdPlaces:
    """The rows of an EB-NeRD folder, for error messages."""

    root: Path
    parts: tuple[Path, ...]

    def first_fault(self) -> str | None:
        """The first row that breaks the format."""
        try:
            self._check_articles()
            for part in self.parts:
                self._check_behaviors(part)
        except LogError as fault:
            return str(fault)
        return None

    def where_shown(self, news_id: str) -> str:
        """The first row that shows the news."""
        for part in self.parts:
            for place, record in records(part / "behaviors.parquet", self.root):
                if news_id in map(str, record["article_ids_inview"]):
                    return place
        return relative(self.parts[0] / "history.parquet", self.root)

    def _check_articles(self) -> None:
        titles: dict[Any, tuple[str, str]] = {}
        rows = 0
        for place, record in records(self.root / "articles.parquet", self.root):
            rows += 1
            news_id, title = record["article_id"], record["title"]
            if news_id is None:
                raise LogError(f"{place}: article_id is empty")
            before, first = titles.setdefault(news_id, (title, place))
            if before != title:
                raise LogError(
                    f"{place}: news {news_id} is {title!r} here but {before!r} in {first}; keep one of the two"
                )
        if rows == 0:
            raise LogError("articles.parquet has no rows")

    def _check_behaviors(self, part: Path) -> None:
        seen: dict[Any, tuple[str, str]] = {}
        for place, record in self._rows(part):
            for name in BEHAVIORS:
                if record[name] is None:
                    raise LogError(f"{place}: {name} is empty")
            impression_id = record["impression_id"]
            if not record["article_ids_inview"]:
                raise LogError(f"{place}: impression {impression_id} shows no news; leave the row out")
            before, first = seen.setdefault(impression_id, (str(record), place))
            if before != str(record):
                raise LogError(f"{place}: impression {impression_id} was already in {first}, with other content")
        if not seen:
            raise LogError(f"{relative(part / 'behaviors.parquet', self.root)} has no rows")

    def _rows(self, part: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        return records(part / "behaviors.parquet", self.root)

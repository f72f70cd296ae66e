"""MIND: `train/` and `dev/`, each with `news.tsv` and `behaviors.tsv`, or one such folder.

Wu et al., "MIND: A Large-scale Dataset for News Recommendation", ACL 2020. The files have no header. A line of
`behaviors.tsv` is impression id, user id, time, clicks before the log, and the candidates as `N1-0 N2-1`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import ibis
import ibis.expr.types as ir

from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.logs.fault_lines import explain_engine_errors, relative, require_files, text_lines
from drpn.logs.sources import sources_of
from drpn.logs.tables import Logs, deduplicate_news, number_impressions

LAYOUT = "MIND logs are train/ and dev/, each with news.tsv and behaviors.tsv, or one such folder"
TIME_FORMAT = "%m/%d/%Y %I:%M:%S %p"
_QUERY_TIME_FORMAT = "%-m/%-d/%Y %-I:%M:%S %p"
"""The same for query engines: Spark takes `%m` for exactly two digits."""
BEHAVIORS = ("impression_id", "user_id", "time", "history", "candidates")
NEWS = ("news_id", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities")
_REQUIRED_NEWS_COLUMNS = 4


def looks_like(folder: Path) -> bool:
    """Whether the folder is in this format."""
    return any((folder / part / "behaviors.tsv").exists() for part in ("", "train"))


def read(folder: Path, engine: Engine, *, history: bool = False) -> Logs:
    """The tables of a MIND folder; `history` includes the clicks before the log."""
    parts = _parts(folder)
    files = [part / name for part in parts for name in ("news.tsv", "behaviors.tsv")]
    require_files(*files, root=folder, layout=LAYOUT)
    truth = folder / "truth.parquet"
    sources = sources_of([*files, *([truth] if truth.exists() else [])])
    finder = MindFaultFinder(folder, tuple(parts))
    with explain_engine_errors(finder):
        news = deduplicate_news(
            engine, ibis.union(*[_read_news(engine, part / "news.tsv", folder) for part in parts]), finder
        )
        columns = BEHAVIORS if history else tuple(name for name in BEHAVIORS if name != "history")
        lines = ibis.union(
            *[
                engine.read_tsv(part / "behaviors.tsv", BEHAVIORS).select(*columns).mutate(part=_part_number(index))
                for index, part in enumerate(parts)
            ]
        )
        impressions = number_impressions(
            engine, lines.mutate(time=lines.time.as_timestamp(_QUERY_TIME_FORMAT).cast("timestamp")), finder
        )
        _check_impressions(engine, impressions, finder)
    return Logs(
        news=news,
        impressions=impressions.drop("candidates", *(["history"] if history else [])),
        shown=_add_truth(engine, truth, impressions, _shown(impressions)),
        history=_history(impressions) if history else None,
        parts=len(parts),
        sources=sources,
        fault_finder=finder,
    )


def has_entities(folder: Path) -> bool:
    """Whether a title of a MIND folder has entities."""
    column = NEWS.index("title_entities")
    files = [part / "news.tsv" for part in _parts(folder) if (part / "news.tsv").exists()]
    lines = (line.split("\t") for file in files for _, line in text_lines(file, folder))
    return any(len(fields) > column and fields[column].strip() not in ("", "[]") for fields in lines)


def _parts(folder: Path) -> list[Path]:
    if (folder / "behaviors.tsv").exists():
        return [folder]
    if (folder / "dev").exists():
        return [folder / "train", folder / "dev"]
    return [folder / "train"]


def _part_number(part: int) -> ir.IntegerScalar:
    return ibis.literal(part, type="int8")


def _read_news(engine: Engine, file: Path, root: Path) -> ir.Table:
    location, first_line = next(text_lines(file, root))
    count = first_line.count("\t") + 1
    if not _REQUIRED_NEWS_COLUMNS <= count <= len(NEWS):
        raise LogError(f"{location}: {count} columns; a line of news.tsv has {', '.join(NEWS)}")
    names = NEWS[:count]
    table = engine.read_tsv(file, names).select(*[name for name in names if name != "url"])
    return table.mutate(**{name: ibis.null("string") for name in NEWS[count:] if name != "url"})


def _check_impressions(engine: Engine, impressions: ir.Table, finder: "MindFaultFinder") -> None:
    text = [impressions[name].fill_null("").strip() for name in ("impression_id", "user_id", "candidates")]
    bad = impressions.time.isnull() | (text[0] == "") | (text[1] == "") | (text[2] == "")
    counts = engine.single_row(impressions.aggregate(rows=impressions.count(), bad=bad.sum().coalesce(0)))
    if counts["rows"] == 0 or counts["bad"]:
        raise LogError(finder.first_fault() or f"no impressions in {finder.root}")


def _shown(impressions: ir.Table) -> ir.Table:
    tokens = impressions.select("impression", "day", token=impressions.candidates.strip().split(" "))
    tokens = tokens.unnest("token", offset="order")
    ending = ibis.ifelse(tokens.token.length() > 2, tokens.token.right(2), "")
    return tokens.select(
        "impression",
        "day",
        order=tokens.order.cast("int32"),
        news_id=tokens.token.substr(0, tokens.token.length() - 2),
        # an ending other than -0 and -1 becomes null; the caller counts nulls and asks the fault finder for the line
        clicked=ibis.cases((ending == "-1", True), (ending == "-0", False)),
    )


def _add_truth(engine: Engine, file: Path, impressions: ir.Table, shown: ir.Table) -> ir.Table:
    """Join opinion and appeal from the simulator's truth file; without that file, `shown` unchanged."""
    if not file.exists():
        return shown
    truth = engine.read_parquet(file)
    part = (truth.part == "dev").cast("int8")
    truth = truth.select("impression_id", "opinion", "appeal", part=part, order=truth.position)
    keys = impressions.select("impression", "impression_id", "part")
    truth = truth.join(keys, ["impression_id", "part"]).select("impression", "order", "opinion", "appeal")
    return shown.left_join(truth, ["impression", "order"]).drop("impression_right", "order_right")


def _history(impressions: ir.Table) -> ir.Table:
    """The history of each user's first impression."""
    rows = impressions.select("impression", "part", "user_id", news_id=impressions.history.strip().split(" "))
    first = rows.group_by("user_id").aggregate(impression=rows.impression.min())
    rows = rows.semi_join(first, ["user_id", "impression"]).unnest("news_id", offset="order")
    return rows.filter(rows.news_id != "").select("user_id", "part", "news_id", order=rows.order.cast("int32"))


@dataclass(frozen=True)
class MindFaultFinder:
    """Finds bad lines in a MIND folder."""

    root: Path
    parts: tuple[Path, ...]

    def first_fault(self) -> str | None:
        """The error message for the first bad line; None if every line is valid."""
        titles: dict[str, tuple[str, str]] = {}
        try:
            for part in self.parts:
                for location, line in text_lines(part / "news.tsv", self.root):
                    _check_news_line(location, line, titles)
            for part in self.parts:
                seen: dict[str, tuple[int, str]] = {}
                for location, line in text_lines(part / "behaviors.tsv", self.root):
                    _check_behaviors_line(location, line, seen)
        except LogError as fault:
            return str(fault)
        return None

    def first_shown(self, news_id: str) -> str:
        """The location of the first line with the story among its candidates or in its history."""
        for location, fields in self._behaviors():
            if any(token[:-2] == news_id for token in fields[4].split()) or news_id in fields[3].split():
                return location
        return relative(self.parts[0] / "behaviors.tsv", self.root)

    def _behaviors(self) -> Iterator[tuple[str, list[str]]]:
        for part in self.parts:
            for location, line in text_lines(part / "behaviors.tsv", self.root):
                yield location, line.split("\t")


def _check_news_line(location: str, line: str, titles: dict[str, tuple[str, str]]) -> None:
    fields = line.split("\t")
    if not _REQUIRED_NEWS_COLUMNS <= len(fields) <= len(NEWS):
        raise LogError(f"{location}: {len(fields)} columns; a line of news.tsv has {', '.join(NEWS)}")
    news_id, title = fields[0], fields[3]
    if not news_id.strip():
        raise LogError(f"{location}: the news id is empty")
    first_title, first_location = titles.setdefault(news_id, (title, location))
    if first_title != title:
        raise LogError(
            f"{location}: news {news_id} is {title!r} here but {first_title!r} in {first_location}; keep one of the two"
        )


def _check_behaviors_line(location: str, line: str, seen: dict[str, tuple[int, str]]) -> None:
    fields = line.split("\t")
    if len(fields) != len(BEHAVIORS):
        raise LogError(f"{location}: {len(fields)} columns; a line of behaviors.tsv has {', '.join(BEHAVIORS)}")
    impression_id, user_id, time, _, candidates = fields
    if not impression_id.strip():
        raise LogError(f"{location}: the impression id is empty")
    if not user_id.strip():
        raise LogError(
            f"{location}: the user of impression {impression_id} is empty; give it an id or leave the line out"
        )
    try:
        datetime.strptime(time, TIME_FORMAT)
    except ValueError as error:
        raise LogError(f"{location}: {time!r} is not a time such as 11/15/2019 8:55:22 AM") from error
    if not candidates.strip():
        raise LogError(f"{location}: impression {impression_id} has no candidates; leave the line out")
    for token in candidates.strip().split(" "):
        if not token.endswith(("-0", "-1")) or len(token) < 3:
            raise LogError(f"{location}: impression {token!r} does not end in -0 or -1")
    first_content, first_location = seen.setdefault(impression_id, (hash(line), location))
    if first_content != hash(line):
        raise LogError(
            f"{location}: impression {impression_id} was already in {first_location}, with different content; "
            "give it another id"
        )

"""MIND: `train/` and `dev/`, each with `news.tsv` and `behaviors.tsv`, or one such folder alone.

Wu et al., "MIND: A Large-scale Dataset for News Recommendation", ACL 2020. Files have no header; a line of
`behaviors.tsv` is impression id, user id, time, clicks from before the log, and what was shown as `N1-0 N2-1`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import ibis
import ibis.expr.types as ir

from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.logs.places import relative, require_files, text_lines
from drpn.logs.tables import Logs, blaming, number_impressions, one_row_per_news

LAYOUT = "MIND logs are train/ and dev/, each with news.tsv and behaviors.tsv, or one such folder"
TIME_FORMAT = "%m/%d/%Y %I:%M:%S %p"
BEHAVIORS = ("impression_id", "user_id", "time", "history", "candidates")
NEWS = ("news_id", "category", "subcategory", "title", "abstract", "url", "title_entities", "abstract_entities")
_NEWS_REQUIRED = 4


def looks_like(folder: Path) -> bool:
    """Whether the folder is in this format."""
    return any((folder / part / "behaviors.tsv").exists() for part in ("", "train"))


def read(folder: Path, engine: Engine, *, history: bool = False) -> Logs:
    """The tables of a MIND folder; `history` asks for the clicks from before the log too."""
    parts = _parts(folder)
    files = [part / name for part in parts for name in ("news.tsv", "behaviors.tsv")]
    require_files(*files, root=folder, layout=LAYOUT)
    places = MindPlaces(folder, tuple(parts))
    with blaming(places):
        news = one_row_per_news(
            engine, ibis.union(*[_news(engine, part / "news.tsv", folder) for part in parts]), places
        )
        columns = BEHAVIORS if history else tuple(name for name in BEHAVIORS if name != "history")
        lines = ibis.union(
            *[
                engine.tab_separated(part / "behaviors.tsv", BEHAVIORS).select(*columns).mutate(part=_number(index))
                for index, part in enumerate(parts)
            ]
        )
        impressions = number_impressions(
            engine, lines.mutate(time=lines.time.as_timestamp(TIME_FORMAT).cast("timestamp")), places
        )
        _check(engine, impressions, places)
    return Logs(
        news=news,
        impressions=impressions.drop("candidates", *(["history"] if history else [])),
        shown=_with_truth(engine, folder / "truth.parquet", impressions, _shown(impressions)),
        history=_history(impressions) if history else None,
        parts=len(parts),
        sources=tuple(files),
        places=places,
    )


def _parts(folder: Path) -> list[Path]:
    if (folder / "behaviors.tsv").exists():
        return [folder]
    if (folder / "dev").exists():
        return [folder / "train", folder / "dev"]
    return [folder / "train"]


def _number(part: int) -> ir.IntegerScalar:
    return ibis.literal(part, type="int8")


def _news(engine: Engine, file: Path, root: Path) -> ir.Table:
    place, first = next(text_lines(file, root))
    count = first.count("\t") + 1
    if not _NEWS_REQUIRED <= count <= len(NEWS):
        raise LogError(f"{place}: {count} columns; a line of news.tsv has {', '.join(NEWS)}")
    names = NEWS[:count]
    table = engine.tab_separated(file, names).select(*[name for name in names if name != "url"])
    return table.mutate(**{name: ibis.null("string") for name in NEWS[count:] if name != "url"})


def _check(engine: Engine, impressions: ir.Table, places: "MindPlaces") -> None:
    text = [impressions[name].fill_null("").strip() for name in ("impression_id", "user_id", "candidates")]
    wrong = impressions.time.isnull() | (text[0] == "") | (text[1] == "") | (text[2] == "")
    found = engine.one(impressions.aggregate(rows=impressions.count(), wrong=wrong.sum().coalesce(0)))
    if found["rows"] == 0 or found["wrong"]:
        raise LogError(places.first_fault() or f"no impressions in {places.root}")


def _shown(impressions: ir.Table) -> ir.Table:
    words = impressions.select("impression", word=impressions.candidates.strip().split(" "))
    words = words.unnest("word", offset="order")
    ending = ibis.ifelse(words.word.length() > 2, words.word.right(2), "")
    return words.select(
        "impression",
        order=words.order.cast("int32"),
        news_id=words.word.substr(0, words.word.length() - 2),
        # anything but -0 and -1 becomes null, which the caller asks `places` about
        clicked=ibis.cases((ending == "-1", True), (ending == "-0", False)),
    )


def _with_truth(engine: Engine, file: Path, impressions: ir.Table, shown: ir.Table) -> ir.Table:
    """What a simulator knows of each shown news, where the logs come from one."""
    if not file.exists():
        return shown
    truth = engine.parquet(file)
    part = (truth.part == "dev").cast("int8")
    known = truth.select("impression_id", "opinion", "appeal", part=part, order=truth.position)
    keys = impressions.select("impression", "impression_id", "part")
    known = known.join(keys, ["impression_id", "part"]).select("impression", "order", "opinion", "appeal")
    return shown.left_join(known, ["impression", "order"]).drop("impression_right", "order_right")


def _history(impressions: ir.Table) -> ir.Table:
    words = impressions.select("impression", "part", "user_id", word=impressions.history.strip().split(" "))
    first = words.group_by("user_id").aggregate(impression=words.impression.min())
    words = words.semi_join(first, ["user_id", "impression"]).unnest("word", offset="order")
    return words.filter(words.word != "").select("user_id", "part", news_id=words.word, order=words.order.cast("int32"))


@dataclass(frozen=True)
class MindPlaces:
    """The lines of a MIND folder, for error messages."""

    root: Path
    parts: tuple[Path, ...]

    def first_fault(self) -> str | None:
        """The first line that breaks the format."""
        titles: dict[str, tuple[str, str]] = {}
        try:
            for part in self.parts:
                for place, line in text_lines(part / "news.tsv", self.root):
                    _check_news(place, line, titles)
            for part in self.parts:
                seen: dict[str, tuple[int, str]] = {}
                for place, line in text_lines(part / "behaviors.tsv", self.root):
                    _check_behavior(place, line, seen)
        except LogError as fault:
            return str(fault)
        return None

    def where_shown(self, news_id: str) -> str:
        """The first line that shows the news, or has it in the history."""
        for place, fields in self._behaviors():
            if any(word[:-2] == news_id for word in fields[4].split()) or news_id in fields[3].split():
                return place
        return relative(self.parts[0] / "behaviors.tsv", self.root)

    def _behaviors(self) -> Iterator[tuple[str, list[str]]]:
        for part in self.parts:
            for place, line in text_lines(part / "behaviors.tsv", self.root):
                yield place, line.split("\t")


def _check_news(place: str, line: str, titles: dict[str, tuple[str, str]]) -> None:
    fields = line.split("\t")
    if not _NEWS_REQUIRED <= len(fields) <= len(NEWS):
        raise LogError(f"{place}: {len(fields)} columns; a line of news.tsv has {', '.join(NEWS)}")
    news_id, title = fields[0], fields[3]
    if not news_id.strip():
        raise LogError(f"{place}: the news id is empty")
    before, first = titles.setdefault(news_id, (title, place))
    if before != title:
        raise LogError(f"{place}: news {news_id} is {title!r} here but {before!r} in {first}; keep one of the two")


def _check_behavior(place: str, line: str, seen: dict[str, tuple[int, str]]) -> None:
    fields = line.split("\t")
    if len(fields) != len(BEHAVIORS):
        raise LogError(f"{place}: {len(fields)} columns; a line of behaviors.tsv has {', '.join(BEHAVIORS)}")
    impression_id, user_id, time, _, candidates = fields
    if not impression_id.strip():
        raise LogError(f"{place}: the impression id is empty")
    if not user_id.strip():
        raise LogError(f"{place}: the user of impression {impression_id} is empty; give it an id or leave the line out")
    try:
        datetime.strptime(time, TIME_FORMAT)
    except ValueError as error:
        raise LogError(f"{place}: {time!r} is not a time such as 11/15/2019 8:55:22 AM") from error
    if not candidates.strip():
        raise LogError(f"{place}: impression {impression_id} shows no news; leave the line out")
    for word in candidates.strip().split(" "):
        if not word.endswith(("-0", "-1")) or len(word) < 3:
            raise LogError(f"{place}: impression {word!r} does not end in -0 or -1")
    content, first = seen.setdefault(impression_id, (hash(line), place))
    if content != hash(line):
        raise LogError(
            f"{place}: impression {impression_id} was already in {first}, with other content; give it its own id"
        )

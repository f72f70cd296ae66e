"""Write what a store knows as an events log, which `drpn prepare` reads: `news.parquet` and `impressions.parquet`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from drpn import schema
from drpn.errors import StoreError
from drpn.output import atomic_folder
from drpn.store.base import Store
from drpn.store.records import Erased, LoggedRanking, StoredImpression, Story

_TYPES = {
    "text": pa.string(),
    "time": pa.timestamp("us"),
    "flag": pa.bool_(),
    "whole": pa.int32(),
    "number": pa.float64(),
    "vector": pa.list_(pa.float32()),
}
_IMPRESSIONS_AT_ONCE = 2_000
_STORIES_AT_ONCE = 2_000
T = TypeVar("T")


@dataclass
class Exported:
    """Figures of an export."""

    impressions: int = 0
    shown: int = 0
    clicks: int = 0
    stories: int = 0
    without_text: int = 0
    """Stories that were shown but are neither in the store nor among those given: their titles are empty."""
    shown_ids: set[str] = field(default_factory=set, repr=False)


def export_events(
    store: Store,
    folder: Path,
    start: datetime,
    stop: datetime,
    *,
    stories: Iterable[Story] = (),
    replace: bool = False,
) -> Exported:
    """Write the closed impressions from `start` to before `stop`, with their clicks and skips, and the news.

    `stories` are those that the store was not given, such as the stories of a bundle. Erased users do not appear. If
    one is erased meanwhile, everything is written again.
    """
    others = {story.news_id: story for story in stories}
    with atomic_folder(folder, replace=replace) as scratch:
        while True:
            begun = store.last_sequence()
            exported = _write_impressions(store, scratch / "impressions.parquet", start, stop)
            if not exported.impressions:
                raise StoreError(
                    f"the store has no closed impressions from {start.isoformat()} to {stop.isoformat()}; choose "
                    "another period"
                )
            if not _erased_since(store, begun):
                break
        _write_news(store, scratch / "news.parquet", others, exported)
    return exported


def _write_impressions(store: Store, file: Path, start: datetime, stop: datetime) -> Exported:
    exported = Exported()

    def rows() -> Iterator[dict[str, Any]]:
        for part in _parts(store.closed_impressions(start, stop), _IMPRESSIONS_AT_ONCE):
            rankings = store.rankings([stored.impression.impression_id for stored in part])
            for stored in part:
                lines = _lines(stored, rankings.get(stored.impression.impression_id))
                exported.impressions += 1
                exported.shown += len(lines)
                exported.clicks += len(stored.clicks)
                page = stored.impression.page
                exported.shown_ids |= {line["news_id"] for line in lines} | ({page} if page else set())
                yield from lines

    _write(file, schema.IMPRESSIONS, rows(), at_once=_IMPRESSIONS_AT_ONCE)
    return exported


def _lines(stored: StoredImpression, ranking: LoggedRanking | None) -> list[dict[str, Any]]:
    """One row for each shown story; scores that the report of the impression lacks come from the logged ranking."""
    impression, positions = stored.impression, stored.impression.positions()
    clicked = {click.news_id for click in stored.clicks}
    of_page = {name: getattr(impression, name, None) for name in _names(schema.IMPRESSION)}
    of_page["policy"] = _policy(stored, ranking)
    scores, propensities = dict[str, float](), dict[str, float]()
    if ranking is not None:
        scores = dict(zip(ranking.news_ids, ranking.scores or (), strict=False))
        propensities = dict(zip(ranking.news_ids, ranking.propensities or (), strict=False))
    return [
        of_page
        | {
            "news_id": story.news_id,
            "clicked": story.news_id in clicked,
            "position": positions[story.news_id],
            "seen": True if story.news_id in clicked and story.seen is False else story.seen,
            "score": scores.get(story.news_id) if story.score is None else story.score,
            "propensity": propensities.get(story.news_id) if story.propensity is None else story.propensity,
        }
        for story in impression.shown
    ]


def _policy(stored: StoredImpression, ranking: LoggedRanking | None) -> str | None:
    source = stored.impression if stored.impression.bundle is not None or ranking is None else ranking
    names = [name for name in (source.bundle, source.variant) if name]
    return "/".join(names) or None


def _write_news(store: Store, file: Path, others: dict[str, Story], exported: Exported) -> None:
    missing = set(exported.shown_ids)

    def rows() -> Iterator[dict[str, Any]]:
        for stored in store.stories():
            story = stored.story
            if stored.taken_down and not story.title:
                continue  # only known to be taken down
            others.pop(story.news_id, None)
            yield _news_row(story)
        yield from map(_news_row, others.values())

    def counted() -> Iterator[dict[str, Any]]:
        for row in rows():
            missing.discard(row["news_id"])
            exported.stories += 1
            yield row
        exported.without_text = len(missing)
        for news_id in sorted(missing):
            exported.stories += 1
            yield _news_row(Story(news_id, ""))

    _write(file, schema.NEWS, counted(), at_once=_STORIES_AT_ONCE)


def _news_row(story: Story) -> dict[str, Any]:
    return {name: getattr(story, name, None) for name in _names(schema.NEWS)} | {"title_entities": story.entities}


def _names(columns: tuple[schema.Column, ...]) -> list[str]:
    return [column.name for column in columns]


def _write(file: Path, columns: tuple[schema.Column, ...], rows: Iterator[dict[str, Any]], *, at_once: int) -> None:
    """Write rows in parts; then leave out columns without any value, which the log does not have."""
    table_schema = pa.schema([(column.name, _TYPES[column.kind]) for column in columns])
    whole = file.with_suffix(".all")
    with pq.ParquetWriter(whole, table_schema, compression="zstd") as writer:
        for part in _parts(rows, at_once):
            writer.write_table(pa.Table.from_pylist([_in_utc(row) for row in part], schema=table_schema))
    with pq.ParquetFile(whole) as source:
        kept = [name for number, name in enumerate(table_schema.names) if _has_values(source.metadata, number)]
        kept = kept or table_schema.names
        with pq.ParquetWriter(file, pa.schema([table_schema.field(name) for name in kept]), compression="zstd") as out:
            for batch in source.iter_batches(columns=kept):
                out.write_batch(batch)
    whole.unlink()


def _has_values(metadata: Any, column: int) -> bool:
    groups = (metadata.row_group(number).column(column) for number in range(metadata.num_row_groups))
    return any(group.statistics is None or group.statistics.null_count < group.num_values for group in groups)


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """The row with times as the tables have them: in UTC, without a time zone."""
    return {name: value.replace(tzinfo=None) if isinstance(value, datetime) else value for name, value in row.items()}


def _parts(things: Iterator[T], size: int) -> Iterator[list[T]]:
    while part := list(islice(things, size)):
        yield part


def _erased_since(store: Store, sequence: int) -> bool:
    while events := store.events_after(sequence):
        if any(isinstance(event.what, Erased) for event in events):
            return True
        sequence = events[-1].sequence
    return False

"""The tables of a log become a dataset folder."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

import drpn
from drpn.dataset.arrays import ArrayReader, ArrayWriter, sha256
from drpn.dataset.folder import FORMAT, MANIFEST, SPLITS, Dataset
from drpn.errors import SettingsError
from drpn.logs.engines.engine import Engine
from drpn.logs.tables import Logs, blaming
from drpn.prepare.entities import ENTITY_FILE
from drpn.prepare.graph import groups_of_readers, neighbour_users, neighbours
from drpn.prepare.impressions import DTYPES, MISSING, SplitWriter, code_texts, stored
from drpn.prepare.news import write_news
from drpn.prepare.rows import history_rows, impressions_of, news_rows, shown_rows, user_rows
from drpn.prepare.settings import DataSettings
from drpn.prepare.split import Split, split
from drpn.prepare.statistics import feedback_counts, statistics
from drpn.prepare.texts import strings
from drpn.progress import Progress
from drpn.schema import SHOWN, Column
from drpn.state import profile_expressions as fb
from drpn.versioned import write_versioned

_USERS_AT_ONCE = 50_000
"""Users whose neighbours are counted at once, which bounds the memory for it."""

_OF_PROFILES = {"clicked": ("read_seconds", "scroll", "opinion"), "skipped": ("opinion",)}
"""Optional columns that are kept for the news of profiles too."""


@dataclasses.dataclass(frozen=True)
class Builder:
    """Writes one dataset folder, stage by stage."""

    logs: Logs
    engine: Engine
    settings: DataSettings
    writer: ArrayWriter
    progress: Progress

    def build(self, *, vectors: Path | None, entities: Sequence[Path], skip_unknown: bool) -> dict[str, Any]:
        """Write every array; gives the statistics."""
        with blaming(self.logs.places):
            with self.progress.stage("what was shown"):
                news = news_rows(self.engine, self.logs)
                shown = shown_rows(self.engine, self.logs, news, skip_unknown=skip_unknown, progress=self.progress)
            with self.progress.stage("to whom, and when"):
                known = impressions_of(self.engine, self.logs, shown)
                cut = split(self.engine, known, parts=self.logs.parts, settings=self.settings)
                users = user_rows(self.engine, known)
                self.writer.strings("users/id", strings(self._column(users.order_by("user"), "user_id"), padding=True))
                impressions = self._impressions(known, users)
            with self.progress.stage("feedback"):
                history = history_rows(self.engine, self.logs, news, users, skip_unknown=skip_unknown)
                feedback = self._feedback(shown, impressions, history, cut)
                counts = feedback_counts(self.engine, feedback)
            news_count, user_count = self._count(news), self._count(users)
            with self.progress.stage("profiles"):
                for name, keep in (("clicked", self.settings.clicked), ("skipped", self.settings.skipped)):
                    self._write_profiles(feedback, shown, name, keep, users=user_count)
            with self.progress.stage("graph"):
                self._write_graph(feedback, news_count)
                if self.settings.user_neighbours:
                    self._write_user_graph(feedback, user_count)
            with self.progress.stage("impressions"):
                splits = SplitWriter(self.engine, impressions, shown, self.logs.extras(), self.writer)
                for name in SPLITS:
                    splits.write(name, getattr(cut, name))
            with self.progress.stage("words"):
                times_shown = self._write_counts(shown, cut, news_count)
                words = write_news(
                    self.engine,
                    news,
                    times_shown,
                    self.writer,
                    self.settings,
                    vectors=vectors,
                    entities=entities,
                    progress=self.progress,
                )
        return self._statistics(user_count, news_count, words, counts)

    def _impressions(self, known: ir.Table, users: ir.Table) -> ir.Table:
        impressions = known.join(users, "user_id").drop("user_id", "part")
        return self.engine.keep("heads", code_texts(self.engine, impressions, self.logs.extras(), self.writer))

    def _feedback(self, shown: ir.Table, impressions: ir.Table, history: ir.Table | None, cut: Split) -> ir.Table:
        window = shown.filter((shown.impression >= cut.profile.start) & (shown.impression < cut.profile.stop))
        events = fb.events(window, impressions.select("impression", "user"))
        if history is not None:
            events = events.union(fb.history_events(history))
        return self.engine.keep("feedback", fb.feedback(events))

    def _write_profiles(self, feedback: ir.Table, shown: ir.Table, name: str, keep: int, *, users: int) -> None:
        kept = fb.profiles(feedback, clicked=name == "clicked", keep=keep)
        extras = [column for column in SHOWN if column.name in _OF_PROFILES[name] and column.name in shown.columns]
        if extras:
            known = shown.select(*[column.name for column in extras], moment=fb.moment(shown))
            kept = kept.left_join(known, "moment")
        rows = self.writer.empty(f"users/{name}", (users + 1, keep), np.int32)
        arrays = {column: self._nothing_known(f"users/{name}_{column.name}", rows.shape, column) for column in extras}
        for batch in self.engine.rows(kept):
            at = batch["user"].to_numpy(), batch["slot"].to_numpy()
            rows[at] = batch["news"].to_numpy()
            for column, array in arrays.items():
                array[at] = stored(batch[column.name], column)

    def _nothing_known(self, name: str, shape: tuple[int, ...], column: Column) -> Any:
        array = self.writer.empty(name, shape, DTYPES[column.kind])
        array[...] = MISSING[column.kind]
        return array

    def _write_graph(self, feedback: ir.Table, news: int) -> None:
        shape = (news + 1, self.settings.neighbours)
        rows = self.writer.empty("news/neighbours", shape, np.int32)
        weights = self.writer.empty("news/neighbour_weight", shape, np.int32)
        for batch in self.engine.rows(neighbours(feedback, kind=self.settings.graph, keep=self.settings.neighbours)):
            at = batch["news"].to_numpy(), batch["slot"].to_numpy()
            rows[at] = batch["neighbour"].to_numpy()
            weights[at] = batch["weight"].to_numpy()

    def _write_user_graph(self, feedback: ir.Table, users: int) -> None:
        keep = self.settings.user_neighbours
        rows = self.writer.empty("users/neighbours", (users + 1, keep), np.int32)
        groups = self.engine.keep("groups_of_readers", groups_of_readers(feedback))
        for start in range(1, users + 1, _USERS_AT_ONCE):
            for batch in self.engine.rows(neighbour_users(groups, range(start, start + _USERS_AT_ONCE), keep=keep)):
                rows[batch["user"].to_numpy(), batch["slot"].to_numpy()] = batch["neighbour"].to_numpy()

    def _write_counts(self, shown: ir.Table, cut: Split, news: int) -> Any:
        """How often each news was shown and clicked up to the end of training, profile window included."""
        known = shown.filter((shown.impression >= cut.profile.start) & (shown.impression < cut.train.stop))
        counts = known.group_by("news").aggregate(
            shown=known.count().cast("int32"), clicked=known.clicked.sum().cast("int32")
        )
        arrays = {name: np.zeros(news + 1, dtype=np.int32) for name in ("shown", "clicked")}
        for batch in self.engine.rows(counts):
            for name, array in arrays.items():
                array[batch["news"].to_numpy()] = batch[name].to_numpy()
        for name, array in arrays.items():
            self.writer.array(f"news/times_{name}", array)
        return arrays["shown"]

    def _statistics(self, users: int, news: int, words: dict[str, Any], counts: dict[str, int]) -> dict[str, Any]:
        reader = ArrayReader(self.writer.folder, dict.fromkeys(self.writer.names, ""))
        dataset = Dataset(self.writer.folder, {}, reader)
        return statistics(
            users=users,
            news=news,
            words=words,
            counts=counts,
            splits={name: dataset.impressions(name) for name in SPLITS},
            clicked=dataset.clicked,
            skipped=dataset.skipped,
            neighbours=dataset.neighbours,
        )

    def _column(self, table: ir.Table, name: str) -> pa.ChunkedArray:
        table = table.select(name)
        return pa.Table.from_batches(list(self.engine.rows(table)), schema=table.schema().to_pyarrow())[name]

    def _count(self, table: ir.Table) -> int:
        return int(self.engine.one(table.aggregate(rows=table.count()))["rows"])


def build(
    logs: Logs,
    engine: Engine,
    folder: Path,
    settings: DataSettings,
    *,
    vectors: Path | None,
    entities: Path | None,
    skip_unknown: bool,
    progress: Progress,
) -> Dataset:
    """Write the dataset of `logs` into `folder`, which is there and empty."""
    entity_files = _entity_files(logs, settings, entities)
    writer = ArrayWriter(folder)
    builder = Builder(logs, engine, settings, writer, progress)
    numbers = builder.build(vectors=vectors, entities=entity_files, skip_unknown=skip_unknown)
    with progress.stage("checksums"):
        sources = [*logs.sources, *([vectors] if vectors else []), *entity_files]
        manifest = {
            "format": FORMAT,
            "drpn": drpn.__version__,
            "settings": dataclasses.asdict(settings) | {"skip_unknown_news": skip_unknown},
            "statistics": numbers,
            "columns": [_describe(column) for column in logs.extras()],
            "sources": [_source(file) for file in sources],
            "files": writer.checksums(),
        }
        write_versioned(folder / MANIFEST, manifest)
    return Dataset.open(folder, verify=False)


def _entity_files(logs: Logs, settings: DataSettings, named: Path | None) -> list[Path]:
    """The file that was named, or those that lie beside the logs; none where no entities are asked for."""
    if named is not None:
        if not settings.entities:
            raise SettingsError(
                f"{named} has entity vectors, but data.entities is 0; set how many entities of each title to keep",
                hint="for example --set data.entities=5",
            )
        return [named]
    beside = dict.fromkeys(file.parent / ENTITY_FILE for file in logs.sources) if settings.entities else ()
    return [file for file in beside if file.is_file()]


def _describe(column: Column) -> dict[str, str]:
    return {"name": column.name, "kind": column.kind, "meaning": column.meaning}


def _source(file: Path) -> dict[str, Any]:
    return {"name": f"{file.parent.name}/{file.name}", "bytes": file.stat().st_size, "sha256": sha256(file)}

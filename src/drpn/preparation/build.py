"""Build a dataset folder from the tables of a log."""

import dataclasses
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

from drpn.dataset.arrays import ArrayReader, ArrayWriter, Strings, sha256
from drpn.dataset.folder import FORMAT, MANIFEST, SPLITS, Dataset, Impressions
from drpn.logs.engines.engine import Engine
from drpn.logs.fault_lines import explain_engine_errors
from drpn.logs.sources import Source
from drpn.logs.tables import Logs
from drpn.preparation.entities import EntityFiles
from drpn.preparation.graph import group_readers, neighbour_users, neighbours
from drpn.preparation.impressions import DTYPES, MISSING, PAGE, SplitWriter, code_texts, stored
from drpn.preparation.latest import latest_feedback, write_latest
from drpn.preparation.live import write_live
from drpn.preparation.news import write_news
from drpn.preparation.repeats import merge_repeats
from drpn.preparation.rows import history_rows, known_impressions, news_rows, shown_rows, user_rows
from drpn.preparation.settings import DataSettings
from drpn.preparation.split import Split, split
from drpn.preparation.statistics import feedback_counts, statistics
from drpn.preparation.stretches import profile_stretch, stretches, warnings
from drpn.preparation.texts import strings
from drpn.preparation.times import leave_out_implausible
from drpn.progress import Progress
from drpn.schema import SHOWN, Column
from drpn.state.profile_expressions import (
    PLACES,
    event_moment,
    feedback_matrix,
    history_events,
    history_moment,
    impression_events,
    profile_sequences,
)
from drpn.version import VERSION
from drpn.versioned import write_versioned

_USERS_AT_ONCE = 50_000
"""Users whose neighbours are counted in one query, to bound memory."""

_PROFILE_COLUMNS = {"clicked": ("read_seconds", "scroll", "opinion"), "skipped": ("opinion",)}
"""Optional columns that are also stored for the stories of profiles."""


@dataclasses.dataclass(frozen=True)
class Builder:
    """Writes one dataset folder, stage by stage."""

    logs: Logs
    engine: Engine
    settings: DataSettings
    writer: ArrayWriter
    progress: Progress

    def build(self, *, vectors: Path | None, entities: EntityFiles, skip_unknown: bool) -> dict[str, Any]:
        """Write all arrays; return the statistics."""
        with explain_engine_errors(self.logs.fault_finder):
            with self.progress.stage("matching shown stories"):
                news = news_rows(self.engine, self.logs)
                shown = shown_rows(self.engine, self.logs, news, skip_unknown=skip_unknown, progress=self.progress)
                shown, corrections = merge_repeats(self.engine, self.logs, shown, news, self.progress)
            with self.progress.stage("splitting impressions"):
                known = known_impressions(self.engine, self.logs, shown)
                known, shown, corrections["implausible_times"] = leave_out_implausible(
                    self.engine, known, shown, self.progress
                )
                windows = split(self.engine, known, parts=self.logs.parts, settings=self.settings)
                users = user_rows(self.engine, known)
                user_count = self._write_users(users)
                impressions = self._impressions(known, users, news)
            with self.progress.stage("computing feedback"):
                history = history_rows(self.engine, self.logs, news, users, known, skip_unknown=skip_unknown)
                self._report_late_history(history, windows)
                feedback = self._feedback(shown, impressions, history, windows)
                counts = feedback_counts(self.engine, feedback)
            news_count = self._count(news)
            with self.progress.stage("writing profiles"):
                for name, keep in (("clicked", self.settings.clicked), ("skipped", self.settings.skipped)):
                    self._write_profiles(feedback, shown, history, name, keep, users=user_count)
                readers = impressions.select("impression", "user")
                latest = latest_feedback(self.engine, feedback, shown, readers, history, windows.profile)
                write_latest(self.engine, latest, self.writer, self.settings, users=user_count)
            with self.progress.stage("writing graph"):
                self._write_graph(feedback, news_count)
                if self.settings.user_neighbours:
                    self._write_user_graph(feedback, user_count)
            with self.progress.stage("writing impressions"):
                shown = self._population(shown, impressions, feedback)
                splits = SplitWriter(self.engine, impressions, shown, self.logs.extras(), self.writer)
                for name in SPLITS:
                    splits.write(name, getattr(windows, name))
            with self.progress.stage("writing stories and words"):
                times_shown = self._write_counts(shown, windows, news_count)
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
            live = self._write_live(windows, impressions, shown, history)
            profile = profile_stretch(self.engine, impressions, windows)
            left_out = self._left_out(impressions, feedback, windows)
        return self._statistics(user_count, news_count, words, counts, profile) | left_out | corrections | live

    def _write_live(
        self, windows: Split, impressions: ir.Table, shown: ir.Table, history: ir.Table | None
    ) -> dict[str, Any]:
        """Write what the live protocol adds; return its columns."""
        if self.settings.protocol != "live":
            return {}
        columns = write_live(
            self.engine,
            windows.profile,
            impressions,
            shown,
            history,
            self._written(),
            self.writer,
            self.settings,
            self.progress,
        )
        return {"live": columns}

    def _write_users(self, users: ir.Table) -> int:
        """Write the id of each user; return the number of users."""
        count = self._count(users)
        with self.writer.growing_strings("users/id", count + 1) as ids:
            ids.append(Strings.of([""]))  # padding
            for batch in self.engine.stream(users.order_by("user").select("user_id")):
                ids.append(strings(batch["user_id"]))
        return count

    def _written(self) -> Dataset:
        """What has been written so far, as a dataset."""
        return Dataset(self.writer.folder, {}, ArrayReader(self.writer.folder, dict.fromkeys(self.writer.names, "")))

    def _impressions(self, known: ir.Table, users: ir.Table, news: ir.Table) -> ir.Table:
        """The impressions with user rows in place of ids and codes in place of texts."""
        impressions = known.join(users, "user_id").drop("user_id", "part")
        if PAGE in impressions.columns:
            stories = news.select("news_id", page_row="news")
            impressions = impressions.left_join(stories, impressions[PAGE] == stories.news_id)
            impressions = impressions.drop(PAGE, "news_id").rename({PAGE: "page_row"})
        coded = code_texts(self.engine, impressions, self.logs.extras(), self.writer)
        return self.engine.materialize("coded_impressions", coded, by="day")

    def _feedback(self, shown: ir.Table, impressions: ir.Table, history: ir.Table | None, windows: Split) -> ir.Table:
        readers = windows.profile.within(impressions).select("impression", "user")
        events = impression_events(windows.profile.within(shown), readers)
        if history is not None:
            clicks = history_events(history)
            events = events.union(clicks.filter(clicks.moment < windows.profile.stop * PLACES))
        return self.engine.materialize("feedback", feedback_matrix(events))

    def _report_late_history(self, history: ir.Table | None, windows: Split) -> None:
        """Report clicks of the history that are later than the profile window."""
        if history is None or "after" not in history.columns:
            return
        late = self._count(history.filter(history.after >= windows.profile.stop))
        if late:
            self.progress.note(
                f"clicks of the history that are later than the profile window: {late:,}; only the profiles of the end "
                "of the log have them"
            )

    def _population(self, shown: ir.Table, impressions: ir.Table, feedback: ir.Table) -> ir.Table:
        """The shown stories of the users that `data.users` asks for."""
        if self.settings.users == "all":
            return shown
        profiled = impressions.semi_join(feedback, "user").select("impression")
        return shown.semi_join(self.engine.materialize("population", profiled), "impression")

    def _left_out(self, impressions: ir.Table, feedback: ir.Table, windows: Split) -> dict[str, Any]:
        """How many impressions of each split `_population` leaves out; nothing if it keeps all users."""
        if self.settings.users == "all":
            return {}
        rest = impressions.anti_join(feedback, "user").select("impression", "day")
        counts = {name: self._count(getattr(windows, name).within(rest)) for name in SPLITS}
        return {"impressions_left_out": counts}

    def _write_profiles(
        self, feedback: ir.Table, shown: ir.Table, history: ir.Table | None, name: str, keep: int, *, users: int
    ) -> None:
        profiles = profile_sequences(feedback, clicked=name == "clicked", keep=keep)
        present = {*shown.columns, *(history.columns if history is not None else ())}
        extras = [column for column in SHOWN if column.name in _PROFILE_COLUMNS[name] and column.name in present]
        profiles = _add_values(profiles, shown, history, [column.name for column in extras])
        rows = self.writer.empty(f"users/{name}", (users + 1, keep), np.int32)
        arrays = {column: self._missing(f"users/{name}_{column.name}", rows.shape, column) for column in extras}
        for batch in self.engine.stream(profiles):
            at = batch["user"].to_numpy(), batch["slot"].to_numpy()
            rows[at] = batch["news"].to_numpy()
            for column, array in arrays.items():
                array[at] = stored(batch[column.name], column)

    def _missing(self, name: str, shape: tuple[int, ...], column: Column) -> Any:
        """A new array filled with the column's value for missing data."""
        array = self.writer.empty(name, shape, DTYPES[column.kind])
        array[...] = MISSING[column.kind]
        return array

    def _write_graph(self, feedback: ir.Table, news: int) -> None:
        shape = (news + 1, self.settings.neighbours)
        rows = self.writer.empty("news/neighbours", shape, np.int32)
        for batch in self.engine.stream(neighbours(feedback, kind=self.settings.graph, keep=self.settings.neighbours)):
            rows[batch["news"].to_numpy(), batch["slot"].to_numpy()] = batch["neighbour"].to_numpy()

    def _write_user_graph(self, feedback: ir.Table, users: int) -> None:
        keep = self.settings.user_neighbours
        rows = self.writer.empty("users/neighbours", (users + 1, keep), np.int32)
        groups = self.engine.materialize("reader_groups", group_readers(feedback))
        for start in range(1, users + 1, _USERS_AT_ONCE):
            for batch in self.engine.stream(neighbour_users(groups, range(start, start + _USERS_AT_ONCE), keep=keep)):
                rows[batch["user"].to_numpy(), batch["slot"].to_numpy()] = batch["neighbour"].to_numpy()

    def _write_counts(self, shown: ir.Table, windows: Split, news: int) -> Any:
        """Write how often each story was shown and clicked in the profile window and training; return times shown."""
        past = windows.profile.through(windows.train).within(shown)
        counts = past.group_by("news").aggregate(
            shown=past.count().cast("int32"), clicked=past.clicked.sum().cast("int32")
        )
        arrays = {name: np.zeros(news + 1, dtype=np.int32) for name in ("shown", "clicked")}
        for batch in self.engine.stream(counts):
            for name, array in arrays.items():
                array[batch["news"].to_numpy()] = batch[name].to_numpy()
        for name, array in arrays.items():
            self.writer.array(f"news/times_{name}", array)
        return arrays["shown"]

    def _statistics(
        self, users: int, news: int, words: dict[str, Any], counts: dict[str, int], profile: dict[str, Any]
    ) -> dict[str, Any]:
        dataset = self._written()
        splits: dict[str, Impressions] = {name: dataset.impressions(name) for name in SPLITS}
        measured = stretches(profile, splits)
        problems = warnings(measured)
        for warning in problems:
            self.progress.note(f"warning: {warning}")
        return statistics(
            users=users,
            news=news,
            words=words,
            counts=counts,
            splits=splits,
            stretches=measured,
            clicked=dataset.clicked,
            skipped=dataset.skipped,
            neighbours=dataset.neighbours,
        ) | {"warnings": problems}

    def _count(self, table: ir.Table) -> int:
        return int(self.engine.single_row(table.aggregate(rows=table.count()))["rows"])


def _add_values(profiles: ir.Table, shown: ir.Table, history: ir.Table | None, names: list[str]) -> ir.Table:
    """The profiles with the columns `names` of the impression or the history that each story comes from."""
    sources = {"shown": (shown.mutate(moment=event_moment(shown)), ["moment", "news"])}  # stories may share a moment
    if history is not None:  # clicks of different users may share a moment, too
        sources["history"] = (history.mutate(moment=history_moment(history)), ["user", "moment", "news"])
    columns = list(profiles.columns)
    for source, (table, keys) in sources.items():
        values = {f"{name}_{source}": table[name] for name in names if name in table.columns}
        if values:
            joined = profiles.left_join(table.select(*keys, **values), keys)
            profiles = joined.select(*profiles.columns, *values)
    by_name = {
        name: [profiles[f"{name}_{source}"] for source in sources if f"{name}_{source}" in profiles.columns]
        for name in names
    }
    return profiles.select(*columns, **{name: ibis.coalesce(*values) for name, values in by_name.items()})


def build(
    logs: Logs,
    engine: Engine,
    folder: Path,
    settings: DataSettings,
    *,
    vectors: Path | None,
    entities: Path | None,
    contexts: Path | None,
    skip_unknown: bool,
    progress: Progress,
) -> Dataset:
    """Write the dataset of `logs` to `folder`, which must exist and be empty."""
    log_files = [source.file for source in logs.sources]
    entity_files = EntityFiles.choose(log_files, entities=settings.entities, vectors=entities, contexts=contexts)
    other_files = [*([vectors] if vectors else []), *entity_files.vectors, *entity_files.contexts]
    others = [Source.before_reading(file) for file in other_files]
    writer = ArrayWriter(folder, settings.part_rows)
    builder = Builder(logs, engine, settings, writer, progress)
    figures = builder.build(vectors=vectors, entities=entity_files, skip_unknown=skip_unknown)
    with progress.stage("computing checksums"):
        manifest = {
            "format": FORMAT,
            "drpn": VERSION,
            "settings": dataclasses.asdict(settings) | {"skip_unknown_news": skip_unknown},
            "statistics": figures,
            "columns": [_describe(column) for column in logs.extras()],
            "sources": [_describe_source(source) for source in (*logs.sources, *others)],
            "files": writer.checksums(),
        }
        write_versioned(folder / MANIFEST, manifest)
    return Dataset.open(folder, verify=False)


def _describe(column: Column) -> dict[str, str]:
    return {"name": column.name, "kind": column.kind, "meaning": column.meaning}


def _describe_source(source: Source) -> dict[str, Any]:
    """Name, size and checksum of the bytes that were read; a file that changed since is refused."""
    file = source.file
    source.check_unchanged()
    facts = {"name": f"{file.absolute().parent.name}/{file.name}", "bytes": file.stat().st_size, "sha256": sha256(file)}
    source.check_unchanged()
    return facts

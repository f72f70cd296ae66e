"""Write the files of a simulated log: MIND's two files per part, the truth and a summary."""

import json
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from drpn.logs.simulate.settings import Simulated, SimulationSettings
from drpn.logs.simulate.stories import Stories
from drpn.logs.simulate.visits import CAUSES, Shown, Visits

FIRST_DAY = datetime(2019, 11, 9)
"""The first day of MIND-small, a Saturday."""

ROWS_PER_GROUP = 1 << 20
"""Rows per row group of truth.parquet."""

TRUTH_SCHEMA = pa.schema([
    ("part", pa.dictionary(pa.int8(), pa.string())),
    ("impression_id", pa.string()),
    ("position", pa.int32()),
    ("user_id", pa.string()),
    ("news_id", pa.string()),
    ("clicked", pa.bool_()),
    ("opinion", pa.int8()),
    ("seen", pa.bool_()),
    ("cause", pa.dictionary(pa.int8(), pa.string())),
    ("appeal", pa.float32()),
    ("place", pa.int32()),
])  # fmt: skip


def part_of(hour: int, days: int) -> str:
    """'dev' for the last day, 'train' for the days before."""
    return "dev" if hour >= (days - 1) * 24 else "train"


class LogWriter:
    """Writes behaviors.tsv of both parts and the truth, hour by hour."""

    def __init__(self, folder: Path, stories: int, histories: list[NDArray[np.int64]]) -> None:
        news_ids = [f"N{number}" for number in range(1, stories + 1)]
        self._candidates = np.array([f"{news_id}-{label}" for news_id in news_ids for label in "01"], dtype=object)
        self._news_ids = pa.array(news_ids)
        self._user_ids = pa.array([f"U{number}" for number in range(1, len(histories) + 1)])
        self._user_id_list: list[str] = self._user_ids.to_pylist()
        self._histories = [" ".join([news_ids[story] for story in history.tolist()]) for history in histories]
        self._truth = TruthWriter(folder / "truth.parquet")
        self._files: dict[str, TextIO] = {}
        for part in ("train", "dev"):
            (folder / part).mkdir()
            self._files[part] = (folder / part / "behaviors.tsv").open("w", encoding="utf-8", newline="\n")
        self._logged_users = np.zeros(len(histories), dtype=bool)
        self.impressions = self.clicks = self.shown = 0

    def write(self, part: str, visits: Visits, shown: Shown) -> None:
        """Write the visits of an hour; `shown` is sorted by visit."""
        if not len(shown.visit):
            return  # an hour without clicks
        starts = np.flatnonzero(np.diff(shown.visit, prepend=-1))
        ends = np.append(starts[1:], len(shown.visit))
        logged = shown.visit[starts]
        tokens = self._candidates[shown.story * 2 + shown.clicked].tolist()
        numbers = range(self.impressions + 1, self.impressions + 1 + len(starts))
        users = visits.user[logged]
        rows = zip(
            numbers, users.tolist(), visits.second[logged].tolist(), starts.tolist(), ends.tolist(), strict=True
        )  # fmt: skip
        self._files[part].writelines(
            f"{number}\t{self._user_id_list[user]}\t{format_time(second)}\t{self._histories[user]}\t"
            f"{' '.join(tokens[start:end])}\n"
            for number, user, second, start, end in rows
        )
        lengths = ends - starts
        impression_ids = pa.array([str(number) for number in numbers], pa.string())
        self._truth.add(
            pa.table(
                [
                    _dictionary(np.zeros(len(tokens), dtype=np.int8), [part]),
                    impression_ids.take(pa.array(np.repeat(np.arange(len(starts)), lengths))),
                    pa.array(np.arange(len(tokens)) - np.repeat(starts, lengths), pa.int32()),
                    self._user_ids.take(pa.array(visits.user[shown.visit])),
                    self._news_ids.take(pa.array(shown.story)),
                    pa.array(shown.clicked),
                    pa.array(shown.opinion),
                    pa.array(shown.seen),
                    _dictionary(shown.cause, CAUSES),
                    pa.array(shown.appeal),
                    pa.array(shown.place, pa.int32()),
                ],
                schema=TRUTH_SCHEMA,
            )
        )
        self._logged_users[users] = True
        self.impressions += len(starts)
        self.clicks += int(shown.clicked.sum())
        self.shown += len(tokens)

    @property
    def users(self) -> int:
        """Number of users with an impression."""
        return int(self._logged_users.sum())

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._truth.close()


class TruthWriter:
    """Writes truth.parquet in row groups of equal size."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, TRUTH_SCHEMA, compression="zstd")
        self._buffer: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        """Buffer rows; full row groups are written at once."""
        self._buffer.append(table)
        if sum(len(table) for table in self._buffer) >= ROWS_PER_GROUP:
            rows = pa.concat_tables(self._buffer).unify_dictionaries()
            complete = len(rows) // ROWS_PER_GROUP * ROWS_PER_GROUP
            self._writer.write_table(rows.slice(0, complete), row_group_size=ROWS_PER_GROUP)
            self._buffer = [rows.slice(complete)]

    def close(self) -> None:
        """Write the remaining rows and close the file."""
        if self._buffer:
            self._writer.write_table(pa.concat_tables(self._buffer).unify_dictionaries())
        self._writer.close()


def write_news(path: Path, stories: Stories, *, before: float) -> None:
    """Write the stories published before the hour `before` as MIND's news.tsv."""
    topics = stories.topics
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in np.flatnonzero(stories.born < before).tolist():
            subtopic = stories.subtopic[row]
            category, subcategory = topics.topics[topics.topic_of[subtopic]], topics.subtopics[subtopic]
            news_id, title, abstract = f"N{row + 1}", stories.titles[row], stories.abstracts[row]
            url = f"https://newsroom.example/{news_id}"
            file.write(f"{news_id}\t{category}\t{subcategory}\t{title}\t{abstract}\t{url}\t[]\t[]\n")


def write_summary(path: Path, settings: SimulationSettings, *, borrowed: bool, counts: Simulated) -> None:
    """Write the settings and the counts as JSON."""
    resolved = {**asdict(settings), "news": settings.stories}
    if settings == replace(settings, preset="newsroom", noise=None):
        del resolved["preset"], resolved["noise"]  # the files of the default newsroom are the same in all versions
    summary = {"settings": resolved, "titles": "borrowed" if borrowed else "invented", "written": asdict(counts)}
    path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def format_time(second: int) -> str:
    """A time in MIND's format, such as 11/11/2019 9:05:58 AM."""
    time = FIRST_DAY + timedelta(seconds=second)
    half = "AM" if time.hour < 12 else "PM"
    return f"{time.month}/{time.day}/{time.year} {(time.hour - 1) % 12 + 1}:{time.minute:02}:{time.second:02} {half}"


def _dictionary(codes: NDArray[np.int8], words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(words))

"""Write the files of a live site in the events format: news and impressions as Parquet."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from drpn.logs.simulate.live import DEVICES, Views
from drpn.logs.simulate.stories import Stories
from drpn.logs.simulate.write import FIRST_DAY

FRONT, ARTICLE = "front page", "article page"
"""Values of the column `surface`."""

IMPRESSIONS = pa.schema([
    ("impression_id", pa.string()),
    ("user_id", pa.string()),
    ("time", pa.timestamp("s")),
    ("session", pa.string()),
    ("surface", pa.string()),
    ("device", pa.string()),
    ("page", pa.string()),
    ("news_id", pa.string()),
    ("clicked", pa.bool_()),
    ("position", pa.int32()),
    ("opinion", pa.int8()),
    ("appeal", pa.float32()),
])  # fmt: skip


class EventsWriter:
    """Writes impressions.parquet, one row group for each hour."""

    def __init__(self, folder: Path, stories: int, users: int) -> None:
        self._writer = pq.ParquetWriter(folder / "impressions.parquet", IMPRESSIONS, compression="zstd")
        self._news_ids = pa.array([f"N{number}" for number in range(1, stories + 1)])
        self._user_ids = pa.array([f"U{number}" for number in range(1, users + 1)])
        self._logged_users = np.zeros(users, dtype=bool)
        self.impressions = self.clicks = self.shown = 0

    def write(self, parts: list[Views]) -> None:
        """Write the page views of an hour."""
        if parts:
            self._writer.write_table(pa.concat_tables([self._table(views) for views in parts]).combine_chunks())

    def _table(self, views: Views) -> pa.Table:
        starts = np.flatnonzero(np.diff(views.view, prepend=-1))
        position = np.arange(len(views.view)) - np.repeat(starts, np.diff(starts, append=len(views.view)))
        numbers = range(self.impressions + 1, self.impressions + 1 + len(views.user))
        self.impressions += len(views.user)
        self.clicks += int(views.clicked.sum())
        self.shown += len(views.view)
        self._logged_users[views.user] = True
        article = np.maximum(views.article, 0)
        page = self._news_ids.take(pa.array(article, mask=views.article < 0))
        of_view = [
            pa.array([str(number) for number in numbers]),
            self._user_ids.take(pa.array(views.user)),
            _times(views.second / 3600),
            pa.array([f"S{number + 1}" for number in views.session.tolist()]),
            pa.array([FRONT, ARTICLE]).take(pa.array((views.article >= 0).astype(np.int8))),
            pa.array(DEVICES).take(pa.array(views.device)),
            page,
        ]
        row = pa.array(views.view)
        of_story = [
            self._news_ids.take(pa.array(views.story)),
            pa.array(views.clicked),
            pa.array(position, pa.int32()),
            pa.array(views.opinion),
            pa.array(views.appeal),
        ]
        return pa.table([*(column.take(row) for column in of_view), *of_story], schema=IMPRESSIONS)

    @property
    def users(self) -> int:
        """Number of users with an impression."""
        return int(self._logged_users.sum())

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def write_news_table(path: Path, stories: Stories) -> None:
    """Write all stories with their publication times."""
    topics = stories.topics
    columns = {
        "news_id": [f"N{number}" for number in range(1, len(stories) + 1)],
        "title": stories.titles,
        "category": [topics.topics[topic] for topic in topics.topic_of[stories.subtopic].tolist()],
        "subcategory": [topics.subtopics[subtopic] for subtopic in stories.subtopic.tolist()],
        "abstract": stories.abstracts,
        "published": _times(stories.born),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


def _times(hour: NDArray[np.float64]) -> pa.Array:
    """Hours from the start of the log as times."""
    start = np.datetime64(FIRST_DAY, "s")
    return pa.array(start + np.round(hour * 3600).astype(np.int64).astype("timedelta64[s]"), pa.timestamp("s"))

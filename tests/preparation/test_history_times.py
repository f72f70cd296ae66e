"""Clicks before the log that have a time: where they enter profiles, and what is kept of their reading."""

import math
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.dataset.folder import SPLITS, Dataset
from drpn.errors import LogError
from drpn.preparation.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.prepare import prepare
from drpn.state.count_columns import PAGE
from reference import raw_logs

START = datetime(2026, 3, 2, 7)
TRAINING = datetime(2026, 3, 5)
STORIES = 40
USERS = 12
"""The last four are only in the second part, so that their histories overlap the first part."""
TYPES = {
    "user_id": pa.uint32(),
    "article_id_fixed": pa.list_(pa.int32()),
    "impression_time_fixed": pa.list_(pa.timestamp("us")),
    "read_time_fixed": pa.list_(pa.float32()),
    "scroll_percentage_fixed": pa.list_(pa.float32()),
}
SETTINGS = DataSettings(history=True, clicked=20, vector_size=0)


class Notes(Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def behaviors(first: datetime, users: Sequence[int], number: int, rng: random.Random) -> dict[str, Any]:
    """Three days with an impression every half hour, the first of them at `first`."""
    pages = range(number, number + 144)
    shown = [rng.sample(range(1, STORIES + 1), 4) for _ in pages]
    return {
        "impression_id": pa.array(pages, pa.uint32()),
        "user_id": pa.array([rng.choice(users) for _ in pages], pa.uint32()),
        "impression_time": [first + timedelta(minutes=30 * (page - number)) for page in pages],
        "article_ids_inview": shown,
        "article_ids_clicked": [stories[:1] for stories in shown],
        "next_read_time": pa.array([float(rng.randrange(100)) for _ in pages], pa.float32()),
    }


def history(users: Sequence[int], last: datetime, rng: random.Random) -> list[dict[str, Any]]:
    """Unsorted clicks of the days before `last`, with repeated stories and missing values."""
    rows = []
    for user in users:
        clicks = range(rng.randrange(4, 20))
        times = [last - timedelta(minutes=rng.randrange(6 * 24 * 2) * 15) for _ in clicks]
        if last > TRAINING:
            times[0] = TRAINING  # not earlier than the first training impression, so not in the profile window
        seconds = [rng.choice([None, float(rng.randrange(1, 200))]) for _ in clicks]
        row = {
            "user_id": user,
            "article_id_fixed": [rng.randrange(1, STORIES + 1) for _ in clicks],
            "impression_time_fixed": [None if rng.random() < 0.1 else time for time in times],
            "read_time_fixed": seconds,
            "scroll_percentage_fixed": [None if value is None else value / 2 for value in seconds],
        }
        rows.append(row | ({"read_time_fixed": None, "scroll_percentage_fixed": None} if user % 4 == 3 else {}))
    return rows


def write_history(folder: Path, rows: list[dict[str, Any]], *without: str) -> None:
    schema = pa.schema([(name, kind) for name, kind in TYPES.items() if name not in without])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "history.parquet")


@pytest.fixture(scope="module", params=range(2))
def logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An EB-NeRD folder of two parts."""
    folder = tmp_path_factory.mktemp("logs")
    rng = random.Random(request.param)
    stories = {
        "article_id": range(1, STORIES + 1),
        "title": [f"Story {number}" for number in range(STORIES)],
        "category": ["news"] * STORIES,
        "subcategory": pa.array([[]] * STORIES, pa.list_(pa.int32())),
    }
    pq.write_table(pa.table(stories), folder / "articles.parquet")
    parts = {"train": (START, range(8)), "validation": (START + timedelta(days=3), range(4, USERS))}
    for number, (name, (first, users)) in enumerate(parts.items()):
        (folder / name).mkdir()
        pq.write_table(pa.table(behaviors(first, users, 1000 * number, rng)), folder / name / "behaviors.parquet")
        write_history(folder / name, history(users, first - timedelta(minutes=1 - number), rng))
    return folder


@pytest.fixture(scope="module")
def dataset(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return prepare(logs, tmp_path_factory.mktemp("prepared") / "dataset", SETTINGS)


def sequences(log: raw_logs.RawLog, events: list[raw_logs.Event]) -> list[list[raw_logs.Event]]:
    """The newest clicks of each user, in the order of the rows of users."""
    feedback = raw_logs.feedback(events)
    users = raw_logs.users(log)
    return [raw_logs.sequence(feedback.get(user, {}), clicked=True)[-SETTINGS.clicked :] for user in users]


def stories(dataset: Dataset, name: str) -> list[list[str]]:
    """The ids of the stories of each user."""
    return [[dataset.news_ids[news] for news in row if news] for row in dataset.arrays.array(name)[1:]]


def test_clicks_of_a_history_enter_profiles_at_their_own_time(logs: Path, dataset: Dataset) -> None:
    log = raw_logs.read_ebnerd(logs)
    expected = sequences(log, raw_logs.profile_events(log, history=True))
    assert stories(dataset, "users/clicked") == [[event.news for event in events] for events in expected]
    latest = sequences(log, raw_logs.history_events(log) + raw_logs.shown_events(log.impressions))
    assert stories(dataset, "latest/clicked") == [[event.news for event in events] for events in latest]
    graph = raw_logs.co_click_graph(raw_logs.feedback(raw_logs.profile_events(log, history=True)))
    for row in range(1, STORIES + 1):
        neighbours = [dataset.news_ids[news] for news in dataset.neighbours[row] if news]
        assert neighbours == [news for news, _ in raw_logs.heaviest(graph, dataset.news_ids[row], 5)]


def test_the_written_histories_are_the_hard_case(logs: Path) -> None:
    """Clicks before the log, among its impressions, at the same time as one, and later than the profile window."""
    log = raw_logs.read_ebnerd(logs)
    window = raw_logs.split(log).profile
    clicks = [click for user in raw_logs.users(log) for click in log.histories[user]]
    times = [click.time for click in clicks]
    assert any(datetime.min < time < START for time in times)
    assert datetime.min in times
    assert any(window[0].time <= time <= window[-1].time for time in times)
    assert {impression.time for impression in window} & set(times)
    assert any(window[-1].time < time for time in times)
    assert raw_logs.split(log).train[0].time == TRAINING
    assert TRAINING in times
    assert any(len({click.news for click in past}) < len(past) for past in log.histories.values()), "clicked again"


def test_reading_of_a_history_is_kept(logs: Path, dataset: Dataset) -> None:
    log = raw_logs.read_ebnerd(logs)
    expected = sequences(log, raw_logs.profile_events(log, history=True))
    seconds = dataset.arrays.array("users/clicked_read_seconds")[1:]
    scroll = dataset.arrays.array("users/clicked_scroll")[1:]
    read_clicks = 0
    for row, events in enumerate(expected):
        values = [math.nan if event.read_seconds is None else event.read_seconds for event in events]
        np.testing.assert_array_equal(seconds[row], values + [math.nan] * (SETTINGS.clicked - len(values)))
        of_history = [event.moment.position >= raw_logs.AFTER_THE_PAGE for event in events]
        read_clicks += sum(of_history[place] and not math.isnan(value) for place, value in enumerate(values))
        halves = [value / 2 if past else math.nan for past, value in zip(of_history, values, strict=True)]
        np.testing.assert_array_equal(scroll[row], halves + [math.nan] * (SETTINGS.clicked - len(values)))
    assert read_clicks > 9


def test_late_clicks_are_reported(logs: Path, tmp_path: Path) -> None:
    notes = Notes()
    prepare(logs, tmp_path / "dataset", SETTINGS, progress=notes)
    log = raw_logs.read_ebnerd(logs)
    late = set(raw_logs.history_events(log)) - set(raw_logs.profile_events(log, history=True))
    assert late
    message = f"clicks of the history that are later than the profile window: {len(late)}; only the profiles of the end"
    assert [note for note in notes.notes if note.startswith(message)]


def test_histories_of_one_user_and_without_times(tmp_path: Path, logs: Path) -> None:
    """The order of a list counts if there are no times; with times, the times."""
    rows = [
        {
            "user_id": 0,
            "article_id_fixed": [5, 6, 7, 5],
            "impression_time_fixed": [START - timedelta(hours=hours) for hours in (1, 3, 2, 4)],
            "read_time_fixed": [1.0, 2.0, 3.0, 4.0],
            "scroll_percentage_fixed": [None] * 4,
        }
    ]
    expected = {
        (): (["6", "7", "5"], [2.0, 3.0, 1.0]),
        ("impression_time_fixed",): (["6", "7", "5"], [2.0, 3.0, 4.0]),
    }
    for without, (news, seconds) in expected.items():
        folder = tmp_path / f"logs{len(without)}"
        copy_logs(logs, folder)
        write_history(folder / "train", rows, *without)
        dataset = prepare(folder, tmp_path / f"dataset{len(without)}", DataSettings(history=True, vector_size=0))
        row = list(dataset.user_ids).index("0")
        window = set(stories(prepare_plain(folder, tmp_path / f"plain{len(without)}"), "users/clicked")[row - 1])
        before = [(one, read) for one, read in zip(news, seconds, strict=True) if one not in window]
        assert stories(dataset, "users/clicked")[row - 1][: len(before)] == [one for one, _ in before]
        read = dataset.arrays.array("users/clicked_read_seconds")[row]
        assert read[: len(before)].tolist() == [read for _, read in before]


def copy_logs(logs: Path, folder: Path) -> None:
    """The first part only."""
    (folder / "train").mkdir(parents=True)
    for name in ("articles.parquet", "train/behaviors.parquet", "train/history.parquet"):
        (folder / name).write_bytes((logs / name).read_bytes())


def prepare_plain(logs: Path, folder: Path) -> Dataset:
    return prepare(logs, folder, DataSettings(vector_size=0))


def test_lists_of_different_lengths_are_refused(tmp_path: Path, logs: Path) -> None:
    copy_logs(logs, tmp_path / "logs")
    rows = history([0, 1, 2], START, random.Random(1))
    rows[1]["impression_time_fixed"].append(START)
    count = len(rows[1]["article_id_fixed"])
    write_history(tmp_path / "logs" / "train", rows)
    message = (
        rf"train/history.parquet: row 2: impression_time_fixed has {count + 1} values, but article_id_fixed {count}"
    )
    with pytest.raises(LogError, match=message):
        prepare(tmp_path / "logs", tmp_path / "dataset", SETTINGS)
    prepare_plain(tmp_path / "logs", tmp_path / "dataset")  # a history that is not asked for is not read


def test_live_counts_know_each_click_of_a_history_once_and_from_its_own_time_on(logs: Path, tmp_path: Path) -> None:
    """Some clicks are later than impressions of their user; a click without a time is older than all others."""
    folder = Path(shutil.copytree(logs, tmp_path / "logs"))
    write_history(folder / "train", history(range(8), START + timedelta(days=5), random.Random(7)))
    dataset = prepare(folder, tmp_path / "live", replace(SETTINGS, protocol="live"))
    log = raw_logs.read_ebnerd(folder)
    page, place = dataset.arrays.array("readers/page"), PAGE.index("user past clicks")
    late = 0
    for name in SPLITS:
        split = dataset.impressions(name)
        for number, user in enumerate(split.users):
            user_id, now = dataset.user_ids[user], split.times[number].astype(object)
            before = [click for click in log.histories[user_id] if click.time < now]
            late += len(log.histories[user_id]) - len(before)
            shown = [page for page in log.impressions if page.user == user_id and page.time < now]
            clicks = len(before) + sum(sum(page.clicked) for page in shown)
            reader = split.readers[number]
            assert page[reader, place] == pytest.approx(math.log1p(clicks))
            clicked = {dataset.news_ids[news] for news in dataset.arrays.array("readers/clicked")[reader] if news}
            assert clicked <= {click.news for click in before} | {
                story for page in shown for story, click in zip(page.candidates, page.clicked, strict=True) if click
            }
    assert late

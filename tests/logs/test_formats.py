"""The same logs in different formats give the same dataset."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.dataset.folder import Dataset
from drpn.errors import LogError
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

ROWS = [
    {"impression_id": f"i{page}", "user_id": f"u{page % 3}", "time": f"2026-01-0{1 + page // 4}T0{1 + page % 8}:30:00",
     "news_id": f"n{(page * 5 + position * 3) % 7}", "clicked": int(position == page % 3), "position": position}
    for page in range(16) for position in range(4)
]  # fmt: skip
"""Four days with four impressions each; users click some stories in one impression and skip them in another."""
NEWS = [{"news_id": f"n{row}", "title": f"Story, number {row}!", "category": "news" if row else ""} for row in range(7)]


def write_as_mind(folder: Path, rows: list[dict], news: list[dict]) -> None:
    pages: dict[str, list[dict]] = {}
    for row in rows:
        pages.setdefault(row["impression_id"], []).append(row)
    lines = []
    for page, shown in pages.items():
        date, clock = shown[0]["time"].split("T")
        year, month, day = date.split("-")
        candidates = " ".join(f"{row['news_id']}-{row['clicked']}" for row in shown)
        lines.append(MindLine(page, shown[0]["user_id"], f"{month}/{day}/{year} {clock} AM", candidates))
    write_mind(folder, lines, [f"{story['news_id']}\t{story['category']}\t\t{story['title']}" for story in news])


def write_as_csv(folder: Path, rows: list[dict], news: list[dict]) -> None:
    for name, table in (("impressions", rows), ("news", news)):
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(table[0]))
            writer.writeheader()
            writer.writerows(table)


def write_as_json_lines(folder: Path, rows: list[dict], news: list[dict]) -> None:
    for name, table in (("impressions", rows), ("news", news)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))


def write_as_parquet(folder: Path, rows: list[dict], news: list[dict]) -> None:
    typed = [row | {"time": np.datetime64(row["time"], "us"), "clicked": bool(row["clicked"])} for row in rows]
    columns = {name: [row[name] for row in typed] for name in typed[0]}
    pq.write_table(pa.table(columns), folder / "impressions.parquet")
    pq.write_table(pa.Table.from_pylist(news), folder / "news.parquet")


def prepare_as(tmp_path: Path, write: Callable, rows: list[dict] = ROWS, news: list[dict] = NEWS) -> Dataset:
    folder = tmp_path / write.__name__
    folder.mkdir(parents=True)
    write(folder, rows, news)
    return prepare(folder, tmp_path / f"{write.__name__}-data")


@pytest.mark.parametrize("write", [write_as_csv, write_as_json_lines, write_as_parquet])
def test_events_and_mind_give_the_same_bytes(tmp_path: Path, write: Callable) -> None:
    events = prepare_as(tmp_path, write).arrays.checksums
    mind = prepare_as(tmp_path, write_as_mind).arrays.checksums
    without_positions = {name: checksum for name, checksum in events.items() if not name.endswith("/position.npy")}
    assert without_positions == mind


def test_row_order_of_events_does_not_matter_without_positions(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "position"} for row in ROWS]
    first = prepare_as(tmp_path / "a", write_as_csv, rows).arrays.checksums
    second = prepare_as(tmp_path / "b", write_as_csv, rows[::-1] + rows[:5]).arrays.checksums
    assert first == second


def test_times_with_an_offset_are_stored_as_utc(tmp_path: Path) -> None:
    rows = [row | {"time": row["time"] + "+01:00"} for row in ROWS]
    with_offset = prepare_as(tmp_path / "a", write_as_csv, rows).impressions("train")
    without_offset = prepare_as(tmp_path / "b", write_as_csv, ROWS).impressions("train")
    assert without_offset.times[0] - with_offset.times[0] == np.timedelta64(1, "h")


def test_optional_columns_are_stored(tmp_path: Path) -> None:
    devices = ["phone", "desktop", ""]
    rows = [
        row | {"seen": int(row["position"] < 3), "policy": "popular", "propensity": 0.25, "score": row["position"] / 4,
               "device": devices[int(row["impression_id"][1:]) % 3]}
        for row in ROWS
    ]  # fmt: skip
    news = [story | {"vector": f"{row}.5 1", "abstract": "More."} for row, story in enumerate(NEWS)]
    dataset = prepare_as(tmp_path, write_as_csv, rows, news)
    train = dataset.impressions("train")
    assert train.extras["position"].tolist() == [0, 1, 2, 3] * len(train)
    assert train.extras["seen"].tolist() == [1, 1, 1, 0] * len(train)
    assert train.extras["score"].tolist() == [0, 0.25, 0.5, 0.75] * len(train)
    names = dataset.arrays.strings("names/device")
    pages = [int(name[1:]) for name in train.ids]
    assert [names[row] for row in train.extras["device"]] == [devices[page % 3] for page in pages]
    assert dataset.arrays.array("news/vector")[1:].tolist() == [[row + 0.5, 1] for row in range(7)]
    assert dataset.arrays.strings("news/abstract")[7] == "More."
    described = {column["name"] for column in dataset.manifest["columns"]}
    assert described == {"position", "seen", "policy", "device", "propensity", "score"}


def test_unseen_candidates_are_not_skipped(tmp_path: Path) -> None:
    """Candidates at positions 2 and 3 are unseen, so no profile has them as skipped."""
    rows = [row | {"seen": int(row["position"] < 2)} for row in ROWS]
    dataset = prepare_as(tmp_path, write_as_csv, rows)
    window = [row for row in rows if row["time"] < "2026-01-03"]
    clicked = {(row["user_id"], row["news_id"]) for row in window if row["clicked"]}
    skipped = {(row["user_id"], row["news_id"]) for row in window if row["seen"] and not row["clicked"]} - clicked
    for side, expected in ((dataset.clicked, clicked), (dataset.skipped, skipped)):
        pairs = {(dataset.user_ids[user], dataset.news_ids[side[user, slot]]) for user, slot in np.argwhere(side)}
        assert pairs == expected


def test_optional_value_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    rows = [row | {"read_seconds": "long" if number == 9 else ""} for number, row in enumerate(ROWS)]
    with pytest.raises(LogError, match=r"impressions.csv:11: read_seconds is 'long'; it takes a number"):
        prepare_as(tmp_path, write_as_csv, rows)


def test_vectors_of_different_lengths_are_refused(tmp_path: Path) -> None:
    news = [story | {"vector": "1 2" if row else "1 2 3"} for row, story in enumerate(NEWS)]
    with pytest.raises(LogError, match=r"all vectors must have the same length, but news n\d has 2, news n0 has 3"):
        prepare_as(tmp_path, write_as_csv, news=news)


def test_two_files_for_one_table_are_refused(tmp_path: Path) -> None:
    write_as_csv(tmp_path, ROWS, NEWS)
    write_as_json_lines(tmp_path, ROWS, NEWS)
    with pytest.raises(LogError, match=r"has news.csv and news.jsonl; keep one of them"):
        prepare(tmp_path, tmp_path / "data")


def write_ebnerd(folder: Path, part: str, day: int, *, pages: int = 12, **columns: list) -> None:
    """Write one part of an EB-NeRD folder with three days, starting on `day`."""
    (folder / part).mkdir(parents=True)
    articles = {"article_id": range(1, 7), "title": ["En", "To", "Tre", "Fire", "Fem", None]}
    pq.write_table(pa.table(articles), folder / "articles.parquet")
    behaviors = {
        "impression_id": pa.array(range(day * 100, day * 100 + pages), pa.uint32()),
        "user_id": pa.array([page % 3 for page in range(pages)], pa.uint32()),
        "impression_time": [
            np.datetime64(f"2023-05-{day + page // 4:02}T{page:02}:00:00", "us") for page in range(pages)
        ],
        "article_ids_inview": [[1 + page % 6, 1 + (page + 2) % 6, 1 + (page + 3) % 6] for page in range(pages)],
        "article_ids_clicked": [[1 + (page + 2) % 6] for page in range(pages)],
    }
    pq.write_table(pa.table(behaviors | columns), folder / part / "behaviors.parquet")
    history = {"user_id": pa.array([0, 1], pa.uint32()), "article_id_fixed": [[4, 5] if part == "train" else [1], [6]]}
    pq.write_table(pa.table(history), folder / part / "history.parquet")


def test_ebnerd_with_two_parts_and_required_columns_only(tmp_path: Path) -> None:
    write_ebnerd(tmp_path / "logs", "train", 1)
    write_ebnerd(tmp_path / "logs", "validation", 8)
    dataset = prepare(tmp_path / "logs", tmp_path / "data")
    assert dataset.statistics["impressions"] == {"train": 4, "validation": 1, "test": 11}
    assert dataset.impressions("train").extras == {}
    assert dataset.titles[6] == ""


def test_ebnerd_history_comes_before_the_profile_window(tmp_path: Path) -> None:
    write_ebnerd(tmp_path / "logs", "train", 1)
    write_ebnerd(tmp_path / "logs", "validation", 8)
    plain = prepare(tmp_path / "logs", tmp_path / "plain")
    with_history = prepare(tmp_path / "logs", tmp_path / "with_history", DataSettings(history=True))
    user = list(with_history.user_ids).index("0")
    window = [with_history.news_ids[row] for row in plain.clicked[user] if row]
    clicked = [with_history.news_ids[row] for row in with_history.clicked[user] if row]
    assert clicked == [news for news in ("4", "5") if news not in window] + window


def test_ebnerd_optional_columns_are_stored(tmp_path: Path) -> None:
    write_ebnerd(
        tmp_path / "logs", "train", 1,
        article_id=pa.array([None, 3] * 6, pa.int32()), next_read_time=[float(page) for page in range(12)],
        next_scroll_percentage=pa.array([None] * 12, pa.float32()), device_type=pa.array([2] * 12, pa.int8()),
        age=pa.array([None, 40] * 6, pa.int8()), gender=pa.array([None] * 12, pa.int8()), session_id=list(range(12)),
    )  # fmt: skip
    dataset = prepare(tmp_path / "logs", tmp_path / "data")
    train = dataset.impressions("train")
    assert dataset.arrays.strings("names/surface")[train.extras["surface"][0]] == "front page"
    assert train.extras["read_seconds"][:3].tolist()[1] == 4.0
    assert np.isnan(train.extras["read_seconds"][0])
    assert train.extras["age"][1] == 40
    assert np.isnan(train.extras["age"][0])
    read_seconds = dataset.arrays.array("users/clicked_read_seconds")
    assert (np.isnan(read_seconds) == (dataset.clicked == 0)).all()


def test_impressions_without_known_stories_do_not_matter(tmp_path: Path) -> None:
    """An extra last day with unknown stories only, shown to a new user, does not move the split."""
    write_mind(tmp_path / "a", _days(3))
    stray = [MindLine("99", "stranger", "11/12/2019 8:00:00 AM", "N77-1 N78-0")]
    write_mind(tmp_path / "b", _days(3) + stray)
    plain = prepare(tmp_path / "a", tmp_path / "a-data", skip_unknown_news=True)
    with_stray = prepare(tmp_path / "b", tmp_path / "b-data", skip_unknown_news=True)
    assert plain.arrays.checksums == with_stray.arrays.checksums


def _days(count: int) -> list[MindLine]:
    return [
        MindLine(
            f"{day}{page}",
            f"U{page % 2}",
            f"11/{9 + day}/2019 {page + 1}:00:00 AM",
            f"N{1 + page}-1 N{1 + (page + 1 + day % 3) % 4}-0",
        )
        for day in range(count)
        for page in range(4)
    ]

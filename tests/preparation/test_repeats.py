"""A story counts once on a page; a click beats a skip; too many conflicting labels are refused."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.dataset.folder import SPLITS, Dataset
from drpn.errors import LogError
from drpn.progress import Lines
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

PAGES = 200
"""Impressions of a log, fifty on each of four days; each shows four stories and the first is clicked."""
Labels = dict[int, list[tuple[str, int]]]
"""impression → its stories and labels"""
Write = Callable[[Path, Labels], Path]


def ordinary() -> Labels:
    return {page: [(f"N{1 + (page + place) % 7}", int(place == 0)) for place in range(4)] for page in range(PAGES)}


def clock(page: int) -> tuple[int, int, int]:
    """Day, hour and minute of an impression."""
    return 1 + page // 50, 1 + page % 50 // 5, page % 5


def write_as_mind(folder: Path, labels: Labels) -> Path:
    lines = [
        MindLine(
            str(page),
            f"U{page % 9}",
            "11/{}/2019 {}:0{}:00 AM".format(*clock(page)),
            " ".join(f"{story}-{label}" for story, label in shown),
        )
        for page, shown in labels.items()
    ]
    return write_mind(folder, lines, [f"N{number}\tnews\t\tStory {number}" for number in range(1, 8)])


def write_as_events(folder: Path, labels: Labels) -> Path:
    folder.mkdir()
    rows = [
        {"impression_id": page, "user_id": f"U{page % 9}", "news_id": story, "clicked": label, "position": place}
        | {"time": "2019-11-0{}T{:02}:0{}:00".format(*clock(page))}
        for page, shown in labels.items()
        for place, (story, label) in enumerate(shown)
    ]
    news = [{"news_id": f"N{number}", "title": f"Story {number}"} for number in range(1, 8)]
    for name, table in (("impressions", rows), ("news", news)):
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    return folder


def read(dataset: Dataset) -> dict[str, list[tuple[str, bool]]]:
    """The stories and labels of each impression of the splits."""
    pages: dict[str, list[tuple[str, bool]]] = {}
    for split in SPLITS:
        part = dataset.impressions(split)
        for row, name in enumerate(part.ids):
            place = slice(part.offsets[row], part.offsets[row + 1])
            stories = [dataset.news_ids[int(story)] for story in part.candidates[place]]
            pages[name] = list(zip(stories, part.clicked[place].tolist(), strict=True))
    return pages


formats = pytest.mark.parametrize("write", [write_as_mind, write_as_events])


@formats
def test_a_click_beats_a_skip_of_the_same_page(write: Write, tmp_path: Path) -> None:
    """Page 120 lists a story as skipped and then clicked, page 160 one as clicked and then skipped."""
    labels = ordinary()
    labels[120] = [("N1", 0), ("N2", 0), ("N3", 0), ("N1", 1)]
    labels[160] = [("N4", 1), ("N2", 0), ("N4", 0), ("N5", 0)]
    notes: list[str] = []
    dataset = prepare(write(tmp_path / "logs", labels), tmp_path / "data", progress=Lines(notes.append))
    pages = read(dataset)
    assert pages["120"] == [("N2", False), ("N3", False), ("N1", True)]
    assert pages["160"] == [("N4", True), ("N2", False), ("N5", False)]
    assert pages["121"] == [(story, bool(label)) for story, label in labels[121]]
    assert [dataset.statistics[name] for name in ("repeated_stories", "conflicting_labels")] == [2, 2]
    (note,) = [note for note in notes if "both clicked and not clicked" in note]
    assert note == (
        "labels both clicked and not clicked: 2, such as story N1 in impression 120; the story counts as clicked"
    )
    assert "rows that repeat a story of their impression: 2; the story counts once" in notes


@formats
def test_a_story_clicked_in_the_window_is_not_also_skipped(write: Write, tmp_path: Path) -> None:
    labels = ordinary()
    labels[3] = [("N7", 1), ("N7", 0), ("N2", 0)]
    conflict = prepare(write(tmp_path / "conflict", labels), tmp_path / "first")
    labels[3] = [("N7", 1), ("N2", 0)]
    clean = prepare(write(tmp_path / "clean", labels), tmp_path / "second")
    for name in ("news/times_shown", "news/times_clicked", "users/clicked", "users/skipped", "news/neighbours"):
        assert np.array_equal(conflict.arrays.array(name), clean.arrays.array(name)), name
    means = ("mean_clicked_with_repeats", "mean_skipped_with_repeats")
    assert [conflict.statistics[name] for name in means] == [clean.statistics[name] for name in means]


@formats
@pytest.mark.parametrize(("pages", "refused"), [(2, False), (3, True), (PAGES, True)])
def test_more_than_one_conflict_in_a_hundred_impressions_is_refused(
    write: Write, tmp_path: Path, pages: int, refused: bool
) -> None:
    """As when clicks are logged in addition to what was shown."""
    labels = {page: [*shown, (shown[0][0], 0)] if page < pages else shown for page, shown in ordinary().items()}
    logs = write(tmp_path / "logs", labels)
    if not refused:
        assert prepare(logs, tmp_path / "data").statistics["conflicting_labels"] == pages
        return
    with pytest.raises(LogError) as raised:
        prepare(logs, tmp_path / "data")
    assert str(raised.value) == (
        f"{pages} of 200 impressions label a story both clicked and not clicked, such as story N1 in impression 0; "
        "write one row for each story of an impression, 1 if it was clicked and 0 if not"
    )
    assert not (tmp_path / "data").exists()


@formats
def test_repeated_stories_count_once(write: Write, tmp_path: Path) -> None:
    labels = ordinary()
    clean = prepare(write(tmp_path / "clean", labels), tmp_path / "first")
    repeated = {page: [*shown, *shown[:2]] for page, shown in labels.items()}
    dataset = prepare(write(tmp_path / "logs", repeated), tmp_path / "second")
    assert dataset.statistics["repeated_stories"] == 2 * PAGES
    assert dataset.statistics["conflicting_labels"] == 0
    assert dataset.arrays.checksums == clean.arrays.checksums


def test_rows_of_events_written_twice_count_once(tmp_path: Path) -> None:
    logs = write_as_events(tmp_path / "logs", ordinary())
    clean = prepare(logs, tmp_path / "first")
    header, *lines = (logs / "impressions.csv").read_text().splitlines()
    (logs / "impressions.csv").write_text("\n".join([header, *lines, *lines]) + "\n")
    dataset = prepare(logs, tmp_path / "second")
    assert dataset.arrays.checksums == clean.arrays.checksums
    assert dataset.statistics["repeated_stories"] == len(lines)
    assert clean.statistics["repeated_stories"] == 0


def test_of_repeated_rows_the_one_that_was_seen_counts(tmp_path: Path) -> None:
    """Also: the values of a clicked row stay with it."""
    logs = write_as_events(tmp_path / "logs", ordinary())
    header, *lines = (logs / "impressions.csv").read_text().splitlines()
    rows = [f"{header},seen,read_seconds", *(f"{line},1," for line in lines)]
    time = "2019-11-04T05:00:00"
    rows += [
        f"a,U1,N1,0,0,{time},0,",
        f"a,U1,N1,0,5,{time},1,",
        f"a,U1,N2,0,1,{time},1,",
        f"a,U1,N2,1,2,{time},1,33",
        f"a,U1,N3,0,4,{time},0,",
        f"a,U1,N3,0,3,{time},0,",
    ]
    (logs / "impressions.csv").write_text("\n".join(rows) + "\n")
    dataset = prepare(logs, tmp_path / "data")
    test = dataset.impressions("test")
    row = list(test.ids).index("a")
    place = slice(test.offsets[row], test.offsets[row + 1])
    shown = {
        dataset.news_ids[int(story)]: (bool(clicked), int(seen), int(position))
        for story, clicked, seen, position in zip(
            test.candidates[place],
            test.clicked[place],
            test.extras["seen"][place],
            test.extras["position"][place],
            strict=True,
        )
    }
    assert shown == {"N1": (False, 1, 5), "N2": (True, 1, 2), "N3": (False, 0, 3)}
    assert test.extras["read_seconds"][place].tolist()[0] == 33


def test_a_story_twice_in_view_of_ebnerd_counts_once(tmp_path: Path) -> None:
    """A label of EB-NeRD belongs to the story, so it cannot conflict."""
    (tmp_path / "logs" / "train").mkdir(parents=True)
    articles = {"article_id": range(1, 8), "title": [f"Historie {number}" for number in range(1, 8)]}
    pq.write_table(pa.table(articles), tmp_path / "logs" / "articles.parquet")
    times = [np.datetime64("2023-05-0{}T{:02}:0{}:00".format(*clock(page)), "us") for page in range(PAGES)]
    columns: dict[str, Any] = {
        "impression_id": range(PAGES),
        "user_id": [page % 9 for page in range(PAGES)],
        "impression_time": times,
        "article_ids_inview": [[1 + page % 7, 1 + (page + 1) % 7, 1 + page % 7] for page in range(PAGES)],
        "article_ids_clicked": [[1 + page % 7] for page in range(PAGES)],
    }
    pq.write_table(pa.table(columns), tmp_path / "logs" / "train" / "behaviors.parquet")
    dataset = prepare(tmp_path / "logs", tmp_path / "data")
    assert dataset.statistics["repeated_stories"] == PAGES
    assert dataset.statistics["conflicting_labels"] == 0
    assert all(labels == [(labels[0][0], True), (labels[1][0], False)] for labels in read(dataset).values())

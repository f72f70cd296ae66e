"""Every path is taken literally, whatever characters it holds, and checksums are of the bytes that were read."""

import csv
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.dataset.folder import Dataset
from drpn.errors import LogError, OutputError
from drpn.logs.engines.duckdb import DuckDB, duckdb_engine
from drpn.logs.formats import read
from drpn.preparation.settings import DataSettings
from drpn.progress import Silent
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

DAYS = ("09", "10", "11")
ODD = [
    "news [2026]", "client-A*", "a?b", "**", "a[b-d]", "[!a]", "{a,b}", "it's", 'say "hi"', "100%", "~", "$HOME",
    "new\nline", "tab\there", "ünï ☃ ニュース", "user_id=7", "clicked=1", "back\\slash", "; --", " both ", ".hidden[1]",
]  # fmt: skip
ALL_AT_ONCE = "[a] * ? ** {b} ' \" % ~ $x \n \t ☃ user_id=7 \x1b[31m"
DECOYS = ["news 2", "client-AB", "axb", "ac", "b", "x", "{", "a"]
"""Folders that an odd name matches if it is taken as a pattern."""

Write = Callable[[Path, str], Path]

ENTITIES = '[{"WikidataId": "Q1", "SurfaceForms": ["story"], "OccurrenceOffsets": [6]}]'
"""MIND's JSON for the titles, which hold the word "story"."""


def rows(user: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """News and impressions of one reader on three days, whose titles hold the reader's name."""
    news = [{"news_id": f"N{number}", "title": f"{user} story {number}"} for number in range(1, 5)]
    impressions = [
        {"impression_id": f"{day}-{visit}", "user_id": user, "time": f"2026-11-{day}T0{visit}:00:00", "news_id": story,
         "clicked": int(story == first)}
        for day in DAYS
        for visit, (first, second) in enumerate([("N1", "N2"), ("N3", "N4")], start=1)
        for story in (first, second)
    ]  # fmt: skip
    return news, impressions


def write_mind_logs(folder: Path, user: str, days: tuple[str, ...] = DAYS) -> Path:
    lines = [
        MindLine(f"{day}{visit}", user, f"11/{int(day)}/2026 {visit}:00:00 AM", f"N{visit}-1 N{visit + 2}-0")
        for day in days
        for visit in (1, 2)
    ]
    return write_mind(folder, lines, [f"N{number}\tsports\t\t{user} story {number}" for number in range(1, 5)])


def write_mind_parts(folder: Path, user: str) -> Path:
    write_mind_logs(folder / "train", user, DAYS[:2])
    write_mind_logs(folder / "dev", user, DAYS[2:])
    return folder


def write_ebnerd(folder: Path, user: str) -> Path:
    news, impressions = rows(user)
    (folder / "train").mkdir(parents=True)
    pages: dict[str, list[dict[str, Any]]] = {}
    for row in impressions:
        pages.setdefault(row["impression_id"], []).append(row)
    behaviors = {
        "impression_id": list(pages),
        "user_id": [user] * len(pages),
        "impression_time": pa.array([page[0]["time"] for page in pages.values()]).cast(pa.timestamp("us")),
        "article_ids_inview": [[row["news_id"] for row in page] for page in pages.values()],
        "article_ids_clicked": [[row["news_id"] for row in page if row["clicked"]] for page in pages.values()],
    }
    pq.write_table(pa.table(behaviors), folder / "train" / "behaviors.parquet")
    articles = {"article_id": [row["news_id"] for row in news], "title": [row["title"] for row in news]}
    pq.write_table(pa.table(articles), folder / "articles.parquet")
    pq.write_table(pa.table({"user_id": [user], "article_id_fixed": [["N4"]]}), folder / "train" / "history.parquet")
    return folder


def write_events(folder: Path, user: str, suffix: str) -> Path:
    folder.mkdir(parents=True)
    for name, table in zip(("news", "impressions"), rows(user), strict=True):
        file = folder / f"{name}.{suffix}"
        if suffix == "parquet":
            pq.write_table(pa.Table.from_pylist(table), file)
        elif suffix == "csv":
            with file.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(table[0]))
                writer.writeheader()
                writer.writerows(table)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in table))
    return folder


FORMATS: dict[str, Write] = {
    "mind": write_mind_logs,
    "mind in two parts": write_mind_parts,
    "ebnerd": write_ebnerd,
    "csv": lambda folder, user: write_events(folder, user, "csv"),
    "jsonl": lambda folder, user: write_events(folder, user, "jsonl"),
    "parquet": lambda folder, user: write_events(folder, user, "parquet"),
}


def check(dataset: Dataset, logs: Path) -> None:
    """Check that a dataset was made from exactly the files of a folder, with their checksums."""
    assert list(dataset.user_ids)[1:] == ["right"]
    assert all(title.startswith("right story") for title in list(dataset.titles)[1:])
    assert len(dataset.titles) == 5
    files = [path for path in logs.rglob("*") if path.suffix in (".tsv", ".csv", ".jsonl", ".parquet")]
    files = [file for file in files if file.name != "history.parquet"]  # read only with data.history
    digests = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files)
    assert sorted(source["sha256"] for source in dataset.manifest["sources"]) == digests


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_only_the_named_folder_is_read(write: Write, tmp_path: Path) -> None:
    for name in DECOYS:
        write(tmp_path / name, "wrong")
    with duckdb_engine(tmp_path) as engine:
        for name in ODD:
            logs = read(write(tmp_path / name, "right"), engine, history=write is write_ebnerd)
            assert logs.impressions.user_id.to_pyarrow().unique().to_pylist() == ["right"], name
            assert sorted(logs.news.title.to_pyarrow().to_pylist()) == [f"right story {n}" for n in range(1, 5)], name
            assert logs.shown.clicked.to_pyarrow().value_counts().field("counts").to_pylist() == [6, 6], name
            shutil.rmtree(tmp_path / name)
    logs_folder = write(tmp_path / ALL_AT_ONCE, "right")
    check(prepare(logs_folder, tmp_path / "data", DataSettings(vector_size=2)), logs_folder)


@pytest.mark.parametrize("name", [ALL_AT_ONCE.replace("?", ""), "news [2026]", "client-A*", "it's", "user_id=7"])
def test_all_other_paths_may_be_odd(name: str, tmp_path: Path) -> None:
    """Output folder, scratch folders, word vectors and entity vectors."""
    logs = write_mind_logs(tmp_path / "logs", "right")
    lines = (logs / "news.tsv").read_text().splitlines()
    news = ["\t".join([*line.split("\t")[:6], ENTITIES, "[]"]) for line in lines]
    (logs / "news.tsv").write_text("".join(f"{line}\n" for line in news))
    place = tmp_path / name
    place.mkdir()
    (place / f"{name}.txt").write_text("story 1 2\nright 3 4\n")
    (place / f"{name}.vec").write_text("Q1\t5\t6\n")
    settings = DataSettings(entities=1)
    vectors, vec = place / f"{name}.txt", place / f"{name}.vec"
    dataset = prepare(logs, place / name, settings, vectors=vectors, entities=vec, memory="300MB")
    assert Dataset.open(place / name).arrays.array("entities/vector").tolist() == [[0, 0], [5, 6]]
    assert dataset.arrays.array("words/vector").shape[1] == 2
    checksums = {source["name"]: source["sha256"] for source in dataset.manifest["sources"]}
    for file in (vectors, vec):
        assert checksums[f"{name}/{file.name}"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert sorted(path.name for path in place.iterdir()) == sorted([name, vectors.name, vec.name])


@pytest.mark.parametrize("name", ["out?x", "bad\udcff"])
def test_an_output_folder_that_duckdb_misunderstands_is_refused(tmp_path: Path, name: str) -> None:
    """DuckDB would write out.wal?x in place of out?x.wal."""
    logs = write_mind_logs(tmp_path / "logs", "right")
    with pytest.raises(OutputError, match="DuckDB cannot write to a path with a question mark or with"):
        prepare(logs, tmp_path / name / "data")
    assert not list((tmp_path / name).iterdir())


def test_the_command_line_takes_an_odd_path(drpn, tmp_path: Path) -> None:
    write_mind_logs(tmp_path / "news 2", "wrong")
    logs = write_mind_logs(tmp_path / "news [2026]", "right")
    assert drpn("prepare", "news [2026]", "--out", "data [2026]").returncode == 0
    check(Dataset.open(tmp_path / "data [2026]"), logs)


def test_two_dots_after_a_link_lead_where_the_system_says(tmp_path: Path) -> None:
    write_mind_logs(tmp_path / "logs", "wrong")
    logs = write_mind_logs(tmp_path / "elsewhere" / "logs", "right")
    (tmp_path / "elsewhere" / "deep").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    check(prepare(tmp_path / "link" / ".." / "logs", tmp_path / "data", DataSettings(vector_size=2)), logs)


@pytest.mark.parametrize("name", ["a\\*", "bad\udcff"])
def test_a_name_that_cannot_be_passed_on_is_refused(name: str, tmp_path: Path) -> None:
    write_mind_logs(tmp_path / "a", "wrong")
    logs = write_mind_logs(tmp_path / name, "right")
    with pytest.raises(LogError, match="cannot be passed to DuckDB by its name; rename its folders"):
        prepare(logs, tmp_path / "data")


def test_a_file_of_the_current_folder_is_named_with_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_mind_logs(tmp_path / "logs", "right")
    monkeypatch.chdir(tmp_path / "logs")
    sources = prepare(Path(), tmp_path / "data").manifest["sources"]
    assert [source["name"] for source in sources] == ["logs/news.tsv", "logs/behaviors.tsv"]


class DuringStage(Silent):
    """Does something once, when a stage of the preparation starts."""

    def __init__(self, title: str, action: Callable[[], object]) -> None:
        self._title, self._action = title, action

    def stage(self, title: str, total: int | None = None) -> Any:
        if title == self._title:
            self._action()
        return super().stage(title, total)


def append(file: Path) -> None:
    with file.open("a") as stream:
        stream.write("\n")


def rewrite(file: Path) -> None:
    """Replace a file by another of the same size and time."""
    before = file.stat()
    other = file.with_name("other")
    other.write_bytes(file.read_bytes()[::-1])
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)


@pytest.mark.parametrize("change", [append, rewrite, Path.unlink])
@pytest.mark.parametrize("name", ["logs/behaviors.tsv", "logs/truth.parquet", "words.txt", "entities.vec"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, name: str, change: Any) -> None:
    logs = write_mind_logs(tmp_path / "logs", "right")
    text = (logs / "news.tsv").read_text().replace("\t\t\t\t\n", f"\t\t\t{ENTITIES}\t[]\n")
    (logs / "news.tsv").write_text(text)
    (tmp_path / "words.txt").write_text("story 1 2\nright 3 4\n")
    (tmp_path / "entities.vec").write_text("Q1\t5\t6\n")
    truth = {"part": ["train"], "impression_id": ["091"], "position": [0], "opinion": [1], "appeal": [0.5]}
    pq.write_table(pa.table(truth), logs / "truth.parquet")
    progress = DuringStage("computing checksums", lambda: change(tmp_path / name))
    with pytest.raises(LogError, match=f"{Path(name).name} changed while it was read; wait until nothing writes to it"):
        prepare(
            logs,
            tmp_path / "data",
            DataSettings(entities=1),
            vectors=tmp_path / "words.txt",
            entities=tmp_path / "entities.vec",
            progress=progress,
        )
    assert not (tmp_path / "data").exists()


def test_a_header_of_odd_names_is_read(tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    names = ["it's", 'say "hi"', "a,b", "x}; DROP TABLE y", "[1]", "ünï"]
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([names, ["1", "2", "3", "4", "5", "6"]])
    engine = DuckDB(tmp_path)
    try:
        table = engine.read_csv(file)
        assert list(table.columns) == names
        assert engine.single_row(table) == dict(zip(names, "123456", strict=True))
    finally:
        engine.close()

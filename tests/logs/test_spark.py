"""Spark and DuckDB write the same dataset folder; and what is said when Spark cannot run.

Tests that start Spark need pyspark (`pip install 'drpn[spark]'`) and Java.
"""

import importlib.util
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from drpn.dataset.folder import Dataset
from drpn.errors import LogError, SettingsError
from drpn.logs.engines.engine import EngineError
from drpn.logs.engines.opening import open_engine
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.preparation.split import Window
from drpn.progress import Silent
from drpn.recipes.prepare import prepare
from writing import MindLine, edit, write_mind

EBNERD = (
    Path(os.environ.get("DRPN_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
    / "ebnerd-demo-week1"
)
MASTER = "local[2]"
PAPER = DataSettings(vector_size=8)
LIVE = DataSettings(vector_size=8, protocol="live")
EVERYTHING = DataSettings(
    vector_size=8, history=True, graph="consecutive", abstracts=4, user_neighbours=3, users="with-profile"
)

needs_pyspark = pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed (pip install 'drpn[spark]')"
)
needs_spark = [
    pytest.mark.real,
    needs_pyspark,
    pytest.mark.skipif(not os.environ.get("JAVA_HOME") and shutil.which("java") is None, reason="there is no Java"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]


class Notes(Silent):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def newsroom(folder: Path) -> Path:
    """MIND's format in two parts, with histories and the truth."""
    simulate(folder, SimulationSettings(users=60, news=400, days=5, seed=3))
    return folder


def odd_mind(folder: Path) -> Path:
    """MIND's format in one part: repeated lines and stories, wrong clocks, odd ids, spaces and line ends."""
    rng = random.Random(2)
    names = [
        "v1f",
        "f2v",
        "N3",
        "n4",
        "Ärger",
        "žába",
        "新聞",
        "🦊",
        "a'b",
        "back\\slash",
        "%20",
        '"quoted"',
        "N13",
        "vf",
    ]
    news = [
        f"{name}\tsport\tchess\tStory {name} of the v{'f' * place}\t{'' if place % 3 else 'An abstract.'}\t\t\t[]"
        for place, name in enumerate(names)
    ]
    lines = []
    for number in range(400):
        moment = datetime(2019, 11, 1) + timedelta(minutes=29 * number)
        shown = [f"{name}-{int(rng.random() < 0.2)}" for name in rng.sample(names, 4)]
        shown += [shown[0]] if number % 50 == 0 else []
        shown += [shown[1][:-1] + str(1 - int(shown[1][-1]))] if number == 200 else []
        if number == 90:
            moment = datetime(2999, 1, 1, 12)
        time = f"{moment.month}/{moment.day}/{moment:%Y} {moment.hour % 12 or 12}:{moment:%M:%S %p}"
        page = f" {' '.join(shown)} " if number % 7 == 0 else " ".join(shown)
        past = " ".join(rng.sample(names, 3)) if number % 2 else ""
        lines += [MindLine(f"{'üx'[number % 2]}{number}", f"u{rng.randrange(20)}", time, page, past)]
    write_mind(folder, [*lines, lines[17]], news)
    file = folder / "behaviors.tsv"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    return folder


def live_parquet(folder: Path) -> Path:
    simulate(folder, SimulationSettings(users=80, news=400, days=5, seed=4, preset="live"))
    return folder


def live_folders(folder: Path) -> Path:
    """The impressions as a folder of files, one for each day."""
    live_parquet(folder)
    table = pq.read_table(folder / "impressions.parquet")
    (folder / "impressions.parquet").unlink()
    days = np.array([str(time.date()) for time in table["time"].to_pylist()])
    for day in np.unique(days):
        part = folder / "impressions.parquet" / f"day={day}"
        part.mkdir(parents=True)
        pq.write_table(table.filter(pa.array(days == day)), part / "part-0.parquet")
        (part / "_SUCCESS").touch()
    return folder


def live_csv(folder: Path) -> Path:
    """CSV with quotes, line ends within a title, empty texts and without positions."""
    live_parquet(folder)
    impressions = pq.read_table(folder / "impressions.parquet").drop_columns(["position", "opinion", "appeal"])
    pyarrow.csv.write_csv(impressions, folder / "impressions.csv")
    news = pq.read_table(folder / "news.parquet")
    titles = [
        ["", 'She said "no", he said', "Two\nlines", "v, f"][row] if row < 4 else title
        for row, title in enumerate(news["title"].to_pylist())
    ]
    place = news.column_names.index("title")
    pyarrow.csv.write_csv(news.set_column(place, "title", pa.array(titles)), folder / "news.csv")
    for file in folder.glob("*.parquet"):
        file.unlink()
    return folder


def live_json(folder: Path) -> Path:
    """JSON Lines, with vectors of stories, unseen stories, and times with a zone."""
    live_parquet(folder)
    rng = np.random.default_rng(0)
    for name in ("news", "impressions"):
        rows = pq.read_table(folder / f"{name}.parquet").to_pylist()
        for number, row in enumerate(rows):
            for key, value in row.items():
                if isinstance(value, datetime):
                    row[key] = (value + timedelta(hours=2)).isoformat() + "+02:00"
            if name == "news":
                row["vector"] = [round(float(value), 3) for value in rng.normal(size=4)]
            else:
                row["seen"] = [True, False, None][number % 3]
        text = "".join(
            json.dumps({key: value for key, value in row.items() if value is not None}) + "\n" for row in rows
        )
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
        (folder / f"{name}.parquet").unlink()
    return folder


def ebnerd(folder: Path) -> Path:
    """EB-NeRD's format in two parts; histories overlap the log, are not sorted and miss values."""
    rng, start, stories = random.Random(1), datetime(2026, 3, 2, 7), 40
    folder.mkdir()
    articles = {
        "article_id": pa.array(range(1, stories + 1), pa.int32()),
        "title": [f"Story {number}" for number in range(stories)],
        "category": pa.array([number % 5 for number in range(stories)], pa.int16()),
        "subcategory": pa.array([[7, 8][: number % 3] for number in range(stories)], pa.list_(pa.int16())),
        "published_time": pa.array([start - timedelta(hours=number) for number in range(stories)], pa.timestamp("ns")),
    }
    pq.write_table(pa.table(articles), folder / "articles.parquet")
    for part, name in enumerate(("train", "validation")):
        (folder / name).mkdir()
        first, pages = start + timedelta(days=3 * part), range(1000 * part, 1000 * part + 144)
        shown = [rng.sample(range(1, stories + 1), 4) for _ in pages]
        behaviors = {
            "impression_id": pa.array(pages, pa.uint32()),
            "user_id": pa.array([rng.randrange(12) for _ in pages], pa.uint32()),
            "impression_time": [first + timedelta(minutes=30 * (page % 1000)) for page in pages],
            "article_ids_inview": shown,
            "article_ids_clicked": [page[: 1 + number % 2] for number, page in enumerate(shown)],
            "article_id": pa.array([rng.choice([None, rng.randrange(1, stories)]) for _ in pages], pa.int32()),
            "next_read_time": pa.array([rng.choice([None, 100 * rng.random()]) for _ in pages], pa.float32()),
            "next_scroll_percentage": pa.array([100 * rng.random() for _ in pages], pa.float32()),
            "device_type": pa.array([rng.randrange(3) for _ in pages], pa.int8()),
            "is_subscriber": [rng.random() < 0.3 for _ in pages],
            "age": pa.array([rng.choice([None, 20, 50]) for _ in pages], pa.int8()),
        }
        pq.write_table(pa.table(behaviors), folder / name / "behaviors.parquet")
        rows = []
        for user in range(4 * part, 8 + 4 * part):
            clicks = range(rng.randrange(4, 20))
            times = [first - timedelta(minutes=15 * rng.randrange(500)) for _ in clicks]
            rows.append(
                {
                    "user_id": user,
                    "article_id_fixed": [rng.randrange(1, stories + 1) for _ in clicks],
                    "impression_time_fixed": [None if rng.random() < 0.1 else time for time in times],
                    "read_time_fixed": None if user == 3 else [rng.choice([None, 9.5]) for _ in clicks],
                }
            )
        kinds = {
            "user_id": pa.uint32(),
            "article_id_fixed": pa.list_(pa.int32()),
            "impression_time_fixed": pa.list_(pa.timestamp("us")),
            "read_time_fixed": pa.list_(pa.float32()),
        }
        pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(kinds.items())), folder / name / "history.parquet")
    return folder


class Case(NamedTuple):
    """Logs and the settings to prepare them with."""

    write: Callable[[Path], Path]
    settings: DataSettings
    skip_unknown_news: bool = False

    def __str__(self) -> str:
        return f"{self.write.__name__}-{self.settings.protocol}{'-history' if self.settings.history else ''}"


def real_ebnerd(_: Path) -> Path:
    if not EBNERD.is_dir():
        pytest.skip(f"{EBNERD} is not there; DRPN_DATA names the folder of the data")
    return EBNERD


CASES = [
    Case(newsroom, PAPER),
    Case(newsroom, EVERYTHING),
    Case(newsroom, LIVE),
    Case(odd_mind, PAPER),
    Case(odd_mind, EVERYTHING),
    Case(live_parquet, PAPER),
    Case(live_parquet, LIVE),
    Case(live_folders, PAPER),
    Case(live_csv, PAPER),
    Case(live_json, LIVE),
    Case(ebnerd, PAPER),
    Case(ebnerd, DataSettings(vector_size=8, history=True)),
    Case(ebnerd, DataSettings(vector_size=8, history=True, protocol="live")),
    Case(ebnerd, LIVE),
]
REAL = [
    pytest.param(Case(real_ebnerd, settings, skip_unknown_news=True), marks=pytest.mark.data, id=f"real_ebnerd-{name}")
    for name, settings in {"paper": PAPER, "live": LIVE}.items()
]


def assert_equal_folders(actual: Dataset, expected: Dataset) -> None:
    """Numbers without a fraction and texts byte for byte, others to 1e-6, and the same manifest."""
    files = {file.relative_to(expected.path) for file in expected.path.rglob("*.npy")}
    assert files == {file.relative_to(actual.path) for file in actual.path.rglob("*.npy")}
    for file in sorted(files):
        array, other = np.load(actual.path / file), np.load(expected.path / file)
        assert (array.dtype, array.shape) == (other.dtype, other.shape), file
        if array.dtype.kind == "f":
            np.testing.assert_allclose(array, other, rtol=0, atol=1e-6, err_msg=str(file))
        else:
            assert array.tobytes() == other.tobytes(), file
    manifest, other_manifest = (json.loads((data.path / "manifest.json").read_text()) for data in (actual, expected))
    assert manifest["statistics"] == other_manifest["statistics"]
    assert manifest.keys() == other_manifest.keys()


@pytest.mark.parametrize("case", [*(pytest.param(case, id=str(case)) for case in CASES), *REAL])
@pytest.mark.usefixtures("one_thread")
class TestEqualFolders:
    pytestmark = needs_spark

    def test_spark_and_duckdb_write_the_same_arrays(self, case: Case, tmp_path: Path) -> None:
        logs = case.write(tmp_path / "logs")
        folders, notes = [], []
        for engine in ("spark", "duckdb"):
            told = Notes()
            options: dict[str, Any] = {"engine": engine, "master": MASTER if engine == "spark" else None}
            options |= {"skip_unknown_news": case.skip_unknown_news, "progress": told}
            folders.append(prepare(logs, tmp_path / engine, case.settings, **options))
            notes.append(told.notes)
        assert_equal_folders(*folders)
        assert notes[0] == notes[1]
        assert {path.name for path in tmp_path.iterdir()} <= {"logs", "spark", "duckdb"}


@pytest.mark.parametrize(
    ("line", "old", "new", "message"),
    [
        (3, "\tU1\t", "\t", "behaviors.tsv:3: 4 columns; a line of behaviors.tsv has impression_id"),
        (2, "11/9/2019", "31/9/2019", "behaviors.tsv:2: '31/9/2019 9:00:00 AM' is not a time"),
        (4, "N4-1", "N4-x", "behaviors.tsv:4: impression 'N4-x' does not end in -0 or -1"),
        (5, "U1", " ", "behaviors.tsv:5: the user of impression 5 is empty"),
    ],
)
class TestBadLines:
    pytestmark = needs_spark

    def test_a_bad_line_is_named(self, mind: Path, tmp_path: Path, line: int, old: str, new: str, message: str) -> None:
        edit(mind / "behaviors.tsv", line, old, new)
        with pytest.raises(LogError) as error:
            prepare(mind, tmp_path / "dataset", engine="spark", master=MASTER)
        assert str(error.value).startswith(message)


class TestOtherLogs:
    pytestmark = needs_spark

    def test_bytes_that_are_not_utf8_are_named(self, mind: Path, tmp_path: Path) -> None:
        file = mind / "behaviors.tsv"
        file.write_bytes(file.read_bytes().replace(b"U2", b"U\xff", 1))
        with pytest.raises(LogError, match=r"^behaviors.tsv:2: byte 0xff is not UTF-8"):
            prepare(mind, tmp_path / "dataset", engine="spark", master=MASTER)

    def test_a_path_that_is_a_pattern_is_refused(self, mind: Path, tmp_path: Path) -> None:
        logs = mind.rename(tmp_path / "logs[1]")
        with pytest.raises(LogError, match=r"news.tsv cannot be passed to Spark by its name"):
            prepare(logs, tmp_path / "dataset", engine="spark", master=MASTER)


class TestDays:
    pytestmark = needs_spark

    def test_a_window_reads_the_files_of_its_days_alone(self, tmp_path: Path) -> None:
        """The files of other days are removed; a query that opened them would fail."""
        numbers = range(400)
        columns = {"impression": list(numbers), "day": [18_000 + number // 100 for number in numbers]}
        pq.write_table(pa.table(columns), tmp_path / "impressions.parquet")
        with open_engine("spark", tmp_path, master=MASTER) as engine:
            rows = engine.read_parquet(tmp_path / "impressions.parquet")
            table = engine.materialize("days", rows, by="day")
            nothing = engine.materialize("nothing", rows.filter(rows.day < 0), by="day")
            assert table.schema() == rows.schema()
            assert engine.single_row(nothing.aggregate(rows=nothing.count())) == {"rows": 0}
            for day in (18_000, 18_003):
                [folder] = tmp_path.rglob(f"day={day}")
                shutil.rmtree(folder)
            inside = Window(150, 250, 18_001, 18_002).within(table)
            read = [number for batch in engine.stream(inside) for number in batch["impression"].to_pylist()]
            assert sorted(read) == list(range(150, 250))
            with pytest.raises(EngineError):
                list(engine.stream(table))


def test_without_pyspark_the_extra_is_named(mind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "drpn.logs.engines.spark", raising=False)
    for name in ("py4j.protocol", "pyspark"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SettingsError, match=r"^pyspark is not installed; run: pip install 'drpn\[spark\]'$"):
        prepare(mind, tmp_path / "dataset", engine="spark")
    assert not (tmp_path / "dataset").exists()


@pytest.mark.real  # `make test` has no pyspark
@needs_pyspark
def test_without_java_it_is_named(mind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SettingsError, match=r"^Spark needs Java 17 or 21, and there is none in PATH; install it"):
        prepare(mind, tmp_path / "dataset", engine="spark")


@pytest.mark.real  # `make test` has no pyspark
@needs_pyspark
def test_too_little_memory_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(SettingsError, match=r"^memory is '400MB'; Spark needs 512MiB or more$"),
        open_engine("spark", tmp_path, memory="400MB"),
    ):
        pass


def test_a_master_needs_spark(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^master is local\[2\], but DuckDB runs in this process") as error:
        open_engine("duckdb", tmp_path, master="local[2]")
    assert error.value.hint == "pass --engine spark"

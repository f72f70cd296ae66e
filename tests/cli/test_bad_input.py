"""Bad input prints one line with the place, the value and the way out, exits with 2, and leaves no partial output."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.cli.data import PresetName
from drpn.logs.simulate import PRESETS
from writing import edit


@pytest.fixture
def refused(drpn, tmp_path: Path):
    """A function that runs a command, checks that it is refused, and returns its error line."""

    def run(*arguments: object) -> str:
        before = sorted(path.name for path in tmp_path.iterdir())
        done = drpn(*arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stdout == ""
        *stages, message = done.stderr.splitlines()
        assert message.startswith("drpn: "), done.stderr
        assert not any("Traceback" in line for line in stages)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        return message.removeprefix("drpn: ")

    return run


def test_a_valid_log_is_prepared(drpn, mind: Path, tmp_path: Path) -> None:
    done = drpn("prepare", mind, "--out", "data")
    assert done.returncode == 0, done.stderr
    assert json.loads(drpn("stats", "data", "--json").stdout)["profile_users"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "logs"]


def test_missing_folder(refused) -> None:
    assert refused("prepare", "nowhere", "--out", "data") == "nowhere is missing; name a folder of logs"


def test_a_folder_without_logs(refused, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    message = refused("prepare", "logs", "--out", "data")
    assert message.startswith("logs holds no logs in a known format; name its format. MIND logs are train/ and dev/")
    assert message.endswith("; pass --format with one of mind, ebnerd, events")


def test_missing_file(refused, mind: Path) -> None:
    (mind / "news.tsv").unlink()
    assert refused("prepare", mind, "--out", "data").startswith(f"news.tsv is missing in {mind}; MIND logs are")


def test_empty_file(refused, mind: Path) -> None:
    (mind / "behaviors.tsv").write_text("")
    assert refused("prepare", mind, "--out", "data").startswith("behaviors.tsv is empty; MIND logs are")


def test_missing_column(refused, mind: Path) -> None:
    edit(mind / "behaviors.tsv", 2, "\t11/9/2019 9:00:00 AM", "")
    message = refused("prepare", mind, "--out", "data")
    assert message == (
        "behaviors.tsv:2: 4 columns; a line of behaviors.tsv has impression_id, user_id, time, history, candidates"
    )


def test_missing_column_of_news(refused, mind: Path) -> None:
    edit(mind / "news.tsv", 3, "\tchess\tStory number 3\t\t\t\t", "")
    assert refused("prepare", mind, "--out", "data").startswith(
        "news.tsv:3: 2 columns; a line of news.tsv has news_id,"
    )


def test_too_many_columns(refused, mind: Path) -> None:
    edit(mind / "behaviors.tsv", 5, "N4-1", "N4-1\textra")
    assert refused("prepare", mind, "--out", "data").startswith("behaviors.tsv:5: 6 columns;")


@pytest.mark.parametrize("label", ["N3-2", "N3", "N3-", "-1", "N3-1,"])
def test_a_label_that_is_not_0_or_1(refused, mind: Path, label: str) -> None:
    edit(mind / "behaviors.tsv", 3, "N3-1", label)
    message = refused("prepare", mind, "--out", "data")
    assert message == f"behaviors.tsv:3: impression '{label}' does not end in -0 or -1"


def test_a_story_that_is_not_in_the_news_file(refused, drpn, mind: Path) -> None:
    edit(mind / "behaviors.tsv", 4, "N1-0", "N99999-0")
    assert refused("prepare", mind, "--out", "data") == (
        "story N99999, shown in behaviors.tsv:4, is not in news.tsv (1 such); add it or skip unknown stories; "
        "pass --skip-unknown-news to skip them"
    )
    done = drpn("prepare", mind, "--out", "data", "--skip-unknown-news")
    assert done.returncode == 0, done.stderr
    assert "left out stories that are not in the news table: 1, such as N99999" in done.stderr


def test_a_bad_date(refused, mind: Path) -> None:
    edit(mind / "behaviors.tsv", 2, "11/9/2019", "31/9/2019")
    assert refused("prepare", mind, "--out", "data") == (
        "behaviors.tsv:2: '31/9/2019 9:00:00 AM' is not a time such as 11/15/2019 8:55:22 AM"
    )


@pytest.mark.parametrize(("name", "line"), [("behaviors.tsv", 4), ("news.tsv", 2)])
def test_not_utf8(refused, mind: Path, name: str, line: int) -> None:
    lines = (mind / name).read_bytes().splitlines(keepends=True)
    lines[line - 1] = b"\xff" + lines[line - 1]
    (mind / name).write_bytes(b"".join(lines))
    message = refused("prepare", mind, "--out", "data")
    assert message == f"{name}:{line}: byte 0xff is not UTF-8; convert the file to UTF-8"


def test_one_news_id_with_two_titles(refused, mind: Path) -> None:
    edit(mind / "news.tsv", 4, "N4", "N2")
    assert refused("prepare", mind, "--out", "data") == (
        "news.tsv:4: news N2 is 'Story number 4' here but 'Story number 2' in news.tsv:2; keep one of the two"
    )


@pytest.mark.parametrize("user", ["", " "])
def test_an_empty_user(refused, mind: Path, user: str) -> None:
    edit(mind / "behaviors.tsv", 3, "U1", user)
    assert refused("prepare", mind, "--out", "data") == (
        "behaviors.tsv:3: the user of impression 3 is empty; give it an id or leave the line out"
    )


def test_an_impression_without_candidates(refused, mind: Path) -> None:
    edit(mind / "behaviors.tsv", 3, "N3-1 N4-0", "")
    message = refused("prepare", mind, "--out", "data")
    assert message == "behaviors.tsv:3: impression 3 has no candidates; leave the line out"


def test_one_impression_id_with_two_contents(refused, mind: Path) -> None:
    edit(mind / "behaviors.tsv", 5, "5\t", "3\t")
    message = refused("prepare", mind, "--out", "data")
    assert message.startswith("behaviors.tsv:5: impression 3 was already in behaviors.tsv:3, with different content")


def test_parts_that_overlap_in_time(refused, mind: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    for part in ("train", "dev"):
        (both / part).mkdir(parents=True)
        for name in ("news.tsv", "behaviors.tsv"):
            (both / part / name).write_bytes((mind / name).read_bytes())
    message = refused("prepare", both, "--out", "data")
    assert message == (
        "the second part begins at 2019-11-09 08:00:00 but the first ends at 2019-11-11 09:00:00; "
        "they must not overlap in time"
    )


def test_too_few_days(refused, mind: Path) -> None:
    message = refused("prepare", mind, "--out", "data", "--set", "data.profile_days=5")
    assert message.startswith("the log has 3 days (2019-11-09 to 2019-11-11) and needs 7 or more; use a longer log")


def test_a_folder_that_is_not_a_dataset(refused, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    assert refused("stats", "logs") == (
        "logs is not a dataset folder: it has no manifest.json; prepare one from logs; "
        "run: drpn prepare LOGS --out FOLDER"
    )
    assert refused("stats", "nowhere") == (
        "nowhere is missing; prepare it from logs; run: drpn prepare LOGS --out nowhere"
    )
    (tmp_path / "logs" / "manifest.json").write_text("[]")
    assert refused("stats", "logs") == (
        "logs/manifest.json is not the manifest of a dataset folder; prepare the logs again"
    )
    (tmp_path / "logs" / "manifest.json").write_text('{"format": 99}')
    assert (
        refused("stats", "logs")
        == "logs has format 99, this version of drpn reads 1; prepare the logs again, or update drpn"
    )


def test_a_dataset_folder_with_one_byte_changed(refused, drpn, mind: Path, tmp_path: Path) -> None:
    assert drpn("prepare", mind, "--out", "data").returncode == 0
    files = sorted(path for path in (tmp_path / "data").rglob("*.*") if path.stat().st_size and path.is_file())
    assert len(files) > 20
    for file in files[:: len(files) // 6]:
        original = file.read_bytes()
        middle = len(original) // 2
        file.write_bytes(original[:middle] + bytes([original[middle] ^ 1]) + original[middle + 1 :])
        name = file.relative_to(tmp_path)
        assert refused("stats", "data") in (
            f"{name} has changed since it was written; prepare the logs again",
            f"{name} is not the manifest of a dataset folder; prepare the logs again",
        )
        file.write_bytes(original)
    (tmp_path / "data" / "users" / "clicked.npy").unlink()
    assert refused("stats", "data") == "data/users/clicked.npy is missing; prepare the logs again"


def test_a_changed_statistic_is_detected(refused, drpn, mind: Path, tmp_path: Path) -> None:
    assert drpn("prepare", mind, "--out", "data").returncode == 0
    manifest = tmp_path / "data" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"users": 2', '"users": 3'))
    assert refused("stats", "data") == "data/manifest.json has changed since it was written; prepare the logs again"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("data.cliked=5", "there is no setting 'data.cliked'; did you mean 'clicked'?"),
        ("dta.clicked=5", "setting 'dta.clicked=5': there is no section 'dta'; did you mean 'data'?"),
        ("data.clicked=many", "data.clicked is 'many'; it takes a whole number"),
        ("data.clicked=0", "data.clicked is 0; it takes 1 or more"),
        ("data.graph=clique", "data.graph is 'clique'; choose from 'co-click', 'consecutive'"),
        ("data.clicked", "setting 'data.clicked': write it as section.key=value, for example data.history=true"),
    ],
)
def test_an_unknown_setting(refused, mind: Path, assignment: str, message: str) -> None:
    assert refused("prepare", mind, "--out", "data", "--set", assignment) == message


def test_a_folder_that_exists(refused, mind: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("all I have")
    assert refused("prepare", mind, "--out", "data") == (
        f"{tmp_path / 'data'} exists; choose another folder or replace it; pass --force to replace it"
    )
    assert (tmp_path / "data" / "thesis.txt").read_text() == "all I have"


def test_force_replaces_only_datasets(refused, drpn, mind: Path, tmp_path: Path) -> None:
    assert drpn("prepare", mind, "--out", "data").returncode == 0
    assert drpn("prepare", mind, "--out", "data", "--force").returncode == 0
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("all I have")
    assert refused("prepare", mind, "--out", "home", "--force") == (
        f"{tmp_path / 'home'} was not made by drpn and will not be replaced; choose another folder"
    )
    assert (tmp_path / "home" / "thesis.txt").read_text() == "all I have"


def test_a_folder_without_write_permission(refused, mind: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refused("prepare", mind, "--out", "file/data").startswith(
        f"{tmp_path / 'file' / 'data'} cannot be written: "
    )
    closed = "/proc/drpn" if os.geteuid() == 0 else str(tmp_path / "closed" / "data")
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
    assert refused("prepare", mind, "--out", closed).startswith(f"{closed} cannot be written: ")


def test_a_full_disk(mind: Path, tmp_path: Path) -> None:
    """A limit on the file size makes DuckDB fail in the same way as a full disk."""
    before = sorted(path.name for path in tmp_path.iterdir())
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))"
    code = f"{limit}; from drpn.cli import main; main()"
    command = [sys.executable, "-c", code, "prepare", str(mind), "--out", "data"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].endswith("the disk is full; free some space or choose another place")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_disk_that_fills_up_while_arrays_are_written(refused, mind: Path, monkeypatch, tmp_path: Path) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "save", full)
    assert refused("prepare", mind, "--out", "data") == (
        f"{tmp_path / 'data'}: the disk is full; free some space or choose another place"
    )


def test_bad_vectors(refused, mind: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "glove.txt"
    assert refused("prepare", mind, "--out", "data", "--vectors", "glove.txt") == (
        "glove.txt is missing; name a GloVe or word2vec text file"
    )
    vectors.write_text("story 0.1 0.2\nnumber 0.1 zwei\n")
    assert refused("prepare", mind, "--out", "data", "--vectors", "glove.txt") == (
        "glove.txt:2: 'number' is not followed by 2 numbers"
    )


def test_ebnerd_without_a_column(refused, tmp_path: Path) -> None:
    (tmp_path / "eb" / "train").mkdir(parents=True)
    pq.write_table(pa.table({"article_id": [1], "title": ["Nyt"]}), tmp_path / "eb" / "articles.parquet")
    pq.write_table(pa.table({"impression_id": [1], "user_id": [1]}), tmp_path / "eb" / "train" / "behaviors.parquet")
    assert refused("prepare", "eb", "--out", "data") == (
        "train/behaviors.parquet has no column 'impression_time'; its columns are: impression_id, user_id"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("i2,u1,2026-01-02T08:00:00,n1,2", "impressions.csv:3: clicked is '2'; it takes 0 or 1"),
        (
            "i2,u1,2026-02-30,n1,1",
            "impressions.csv:3: time is '2026-02-30'; it takes a time such as 2026-01-31T08:15:00",
        ),
        ("i2,,2026-01-02T08:00:00,n1,1", "impressions.csv:3: user_id is empty"),
        ("i2,u1,2026-01-02T08:00:00,,1", "impressions.csv:3: news_id is empty"),
        ("i2,u1,2026-01-02T08:00:00,n1", "impressions.csv:3: 4 columns where the header has 5"),
        (
            "i1,u2,2026-01-01T08:00:00,n1,1",
            "impressions.csv:3: impression i1 is of u2 at 2026-01-01T08:00:00 here but of u1 at 2026-01-01T08:00:00 "
            "in impressions.csv:2",
        ),
    ],
)
def test_events_with_a_bad_line(refused, tmp_path: Path, line: str, message: str) -> None:
    logs = tmp_path / "events"
    logs.mkdir()
    (logs / "news.csv").write_text("news_id,title\nn1,One\n")
    good = "impression_id,user_id,time,news_id,clicked\ni1,u1,2026-01-01T08:00:00,n1,1\n"
    (logs / "impressions.csv").write_text(good + line + "\n")
    assert refused("prepare", "events", "--out", "data") == message


def test_bad_options_of_the_simulator(refused) -> None:
    assert refused("simulate", "logs", "--news", "3").startswith("--news is 3; at least")
    told = refused("simulate", "logs", "--accidents", "0.2", "--noise", "0.1")
    assert told.startswith("--accidents is 0.2, but noise, 0.1, replaces it")


def test_the_command_knows_all_presets_of_the_simulator() -> None:
    assert {name.value for name in PresetName} == set(PRESETS)

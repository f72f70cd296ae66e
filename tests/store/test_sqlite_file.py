"""The file of a SQLite store: durability, erasure, formats, limits."""

import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drpn.errors import RefusedError, SettingsError, StoreBusyError, StoreError
from drpn.state.profile import Profile
from drpn.store.moments import pack
from drpn.store.opening import open_store
from drpn.store.records import Click, Impression, LoggedRanking, Receipt, Seed, Story, shown_stories
from drpn.store.settings import StoreSettings
from drpn.store.sqlite import schema
from drpn.store.sqlite.store import SqliteStore
from drpn.store.sqlite.wiping import Wiper, empty_log
from waiting import ENOUGH, wait_until

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def page(number: int, user: str = "anna", clicked: str = "") -> Impression:
    return Impression(f"i{number}", user, shown_stories("abc", clicked), NOW)


def opened(file: Path, settings: StoreSettings | None = None) -> SqliteStore:
    store = open_store(f"sqlite:///{file}", settings, clock=lambda: NOW)
    assert isinstance(store, SqliteStore)
    return store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    store = opened(file)
    yield store
    store.close()


class Gate:
    """Holds the writer of a store until it is opened."""

    def __init__(self, store: SqliteStore) -> None:
        self._open, self._reached = threading.Event(), threading.Event()
        self._done = store._writer.submit(self._hold)
        self._reached.wait(ENOUGH)

    def _hold(self, _connection: sqlite3.Connection) -> None:
        self._reached.set()
        self._open.wait(ENOUGH)

    def open(self) -> None:
        self._open.set()
        self._done.result()


# durability


def test_every_commit_is_synced(store: SqliteStore) -> None:
    pragmas = {
        name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode", "secure_delete", "auto_vacuum")
    }
    assert pragmas == {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1, "auto_vacuum": 2}  # 2: FULL


SYNCED = """
import os, sys, threading
from drpn.store.opening import open_store
from drpn.store.moments import pack
from drpn.store.records import Impression, shown_stories

store = open_store("sqlite:///" + sys.argv[1])
store.add_impression(Impression("first", "anna", shown_stories("ab"))).result()
for number in range(20):
    store.add_impression(Impression(f"i{number}", "anna", shown_stories("ab"))).result()
    os.write(1, b"acknowledged\\n")
os.write(1, b"together\\n")
waiting = [store.add_impression(Impression(f"j{number}", "anna", shown_stories("ab"))) for number in range(200)]
for receipt in waiting:
    receipt.result()
os.write(1, b"together\\n")
store.close()
"""


def test_syncs_for_each_acknowledgement(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    log = tmp_path / "calls"
    command = ["strace", "-f", "-o", str(log), "-e", "trace=fsync,fdatasync,write", sys.executable, "-c", SYNCED]
    done = subprocess.run([*command, str(tmp_path / "store.db")], capture_output=True, text=True, check=False)
    if "PTRACE" in done.stderr:
        pytest.skip("strace is not allowed here")
    assert done.returncode == 0, done.stderr
    calls = re.findall(r"fsync\(|fdatasync\(|acknowledged|together", log.read_text())
    start = calls.index("acknowledged")
    end, last = (number for number, call in enumerate(calls) if call == "together")
    syncs_before = "".join("a" if call == "acknowledged" else "s" for call in calls[start:end])
    assert re.fullmatch(r"(as+)*a", syncs_before), "an acknowledgement came without a sync"
    assert syncs_before.count("a") == 20
    assert syncs_before.count("s") <= 25  # one for each, and those of moving the log to the main file
    assert 1 <= last - end - 1 <= 60  # 200 acknowledgements at once share syncs


def test_a_group_that_cannot_be_written_is_not_acknowledged(store: SqliteStore) -> None:
    store.add_impression(page(0)).result()
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    gate = Gate(store)
    receipts = [store.add_impression(page(number, user="u" * 200 + str(number))) for number in range(1, 200)]
    gate.open()
    for receipt in receipts:
        with pytest.raises(StoreError, match="full"):
            receipt.result()
    assert store.last_sequence() == 1
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.add_impression(page(1)).result() == Receipt(2)


@pytest.mark.parametrize(("failure", "expected"), [(RefusedError("no"), RefusedError), (ValueError("no"), StoreError)])
def test_a_change_that_fails_halfway_leaves_nothing(
    store: SqliteStore, failure: Exception, expected: type[Exception]
) -> None:
    def halfway(connection: sqlite3.Connection) -> Receipt:
        store._changes.put_news(connection, [Story("a", "Storm")])
        raise failure

    gate = Gate(store)
    before, broken = store.add_impression(page(0)), store._writer.submit(halfway)
    after = store.add_click(Click("i0", "anna", "a", NOW))
    gate.open()
    with pytest.raises(expected, match="no"):
        broken.result()
    assert [before.result(), after.result()] == [Receipt(1), Receipt(2)]
    assert list(store.stories()) == []


# limits


def test_queue_overflow(file: Path) -> None:
    store = opened(file, StoreSettings(waiting=10, rankings_waiting=5, ranking_seconds=0))
    gate = Gate(store)
    receipts = [store.add_impression(page(number)) for number in range(10)]
    with pytest.raises(StoreBusyError, match="10 changes"):
        store.add_impression(page(10))
    ranking = LoggedRanking("r", "anna", NOW, "b", "A", ("a",))
    assert store.append_rankings([ranking] * 3) == 0
    assert store.append_rankings([ranking] * 4) == 2
    figures = store.figures()
    assert (figures.waiting, figures.dropped_rankings) == (10, 2)
    gate.open()
    assert [receipt.result().sequence for receipt in receipts] == list(range(1, 11))
    assert store.add_impression(page(10)).result() == Receipt(11)
    store.close()


def test_cancelled_changes_are_not_written(store: SqliteStore) -> None:
    gate = Gate(store)
    first, second = store.add_impression(page(0)), store.add_impression(page(1))
    assert first.cancel()
    gate.open()
    assert second.result() == Receipt(1)
    assert store.impression("i0") is None


def test_rankings_are_written_without_other_changes(file: Path) -> None:
    store = opened(file, StoreSettings(ranking_seconds=0.05))
    store.append_rankings([LoggedRanking("r", "anna", NOW, "b", "A", ("a",))])
    wait_until(lambda: bool(store.rankings(["r"])))
    store.close()


def test_readers_do_not_wait_for_the_writer(store: SqliteStore) -> None:
    store.add_impression(page(0, clicked="a")).result()
    gate = Gate(store)  # a write transaction is open
    waiting = store.add_click(Click("i0", "anna", "b", NOW))
    assert store.user("anna").clicked == {"a"}
    gate.open()
    waiting.result()
    assert store.user("anna").clicked == {"a", "b"}


# erasure

ANNA = "anna-kowalska-4711"


def holds(folder: Path, text: str) -> list[str]:
    """The names of the files that contain the text."""
    return [file.name for file in sorted(folder.iterdir()) if text.encode() in file.read_bytes()]


def fill(store: SqliteStore) -> None:
    """Events of Anna between those of others, so that her rows are in many pages."""
    store.seed([Seed(ANNA, Profile(["seeded"])), Seed("ben", Profile(["seeded"]))])
    for number in range(200):
        for user in (ANNA, f"user{number}"):
            name = f"{user}-{number}"
            store.add_impression(
                Impression(name, user, shown_stories([f"s{number}", "t"], ["t"]), NOW, session=f"of {user}"), key=name
            )
    store.append_rankings(
        [LoggedRanking(f"{ANNA} ranked {number}", ANNA, NOW, "b", "A", ("a",)) for number in range(50)]
    )
    store.close_for(ANNA).result()


def test_erasure_leaves_no_byte_of_the_user_id(store: SqliteStore, file: Path) -> None:
    fill(store)
    assert holds(file.parent, ANNA)
    store.append_rankings([LoggedRanking(f"{ANNA} waits", ANNA, NOW, "b", "A", ("a",))])
    store.erase(ANNA).result()
    assert holds(file.parent, ANNA) == []
    assert len(store.user("user7").profile.clicked) == 1
    store.close()
    assert holds(file.parent, ANNA) == []


def test_erasure_reaches_rankings_that_wait(file: Path) -> None:
    store = opened(file, StoreSettings(group=4, ranking_seconds=60))
    gate = Gate(store)
    names = [f"{ANNA} waits {number}" for number in range(50)]
    store.append_rankings([LoggedRanking(name, ANNA, NOW, "b", "A", ("a",)) for name in names])
    receipt = store.erase(ANNA)
    gate.open()
    receipt.result()
    store.close()
    assert holds(file.parent, ANNA) == []


def test_erasure_waits_for_readers_of_older_data(store: SqliteStore, file: Path) -> None:
    fill(store)
    with store._readers.connection() as connection:
        connection.execute("SELECT count(*) FROM users").fetchone()
        receipt = store.erase(ANNA)
        assert not store.add_impression(page(1)).result().repeated  # others do not wait
        time.sleep(0.3)
        assert not receipt.done()
    receipt.result(ENOUGH)
    assert holds(file.parent, ANNA) == []


def test_opening_completes_an_erasure(store: SqliteStore, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store)
    with monkeypatch.context() as patch:  # as if the process had ended between the commit and the wiping
        patch.setattr(Wiper, "wipe", lambda _wiper, _connection: False)
        receipt = store.erase(ANNA)
        wait_until(lambda: store.is_erased(ANNA))
        store.close()
    with pytest.raises(StoreError, match="bytes remain"):
        receipt.result()
    assert holds(file.parent, ANNA)
    opened(file).close()
    assert holds(file.parent, ANNA) == []


# formats


@pytest.mark.usefixtures("store")
def test_only_the_owner_can_read_the_file(file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(f"{file}-wal").stat().st_mode) == 0o600


def test_a_newer_format_is_refused(file: Path) -> None:
    opened(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 1000")
    connection.close()
    with pytest.raises(StoreError, match=r"format 1000.*update drpn"):
        opened(file)


def test_migrations_keep_what_is_stored(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(file)
    store.add_impression(page(0, clicked="a")).result()
    before = store.user("anna")
    store.close()
    steps = (*schema.MIGRATIONS, "CREATE TABLE later (x); INSERT INTO later VALUES (1)", "INSERT INTO later VALUES (2)")
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    for _ in range(2):
        store = opened(file)
        assert store._connection.execute("SELECT x FROM later ORDER BY x").fetchall() == [(1,), (2,)]
        assert store.user("anna") == before
        assert store._connection.execute("PRAGMA user_version").fetchone() == (len(steps),)
        store.close()


def test_a_store_of_the_first_format_counts_each_skip_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
    opened(file).close()
    with sqlite3.connect(file) as connection:
        connection.execute("INSERT INTO users VALUES (1, 'anna', 5)")
        for story, clicked, skipped in (("a", None, pack(7, "i", 1)), ("b", pack(7, "i", 0), None)):
            connection.execute("INSERT INTO feedback VALUES (1, ?, ?, ?)", (story, clicked, skipped))
    connection.close()
    monkeypatch.undo()
    store = opened(file)
    assert {name: skips.times for name, skips in store.user("anna").skips.items()} == {"a": 1}
    store.close()


def test_a_failed_migration_changes_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(file).close()
    steps = (*schema.MIGRATIONS, "CREATE TABLE later (x); INSERT INTO nothing VALUES (1)")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", steps)
        with pytest.raises(StoreError, match="nothing"):
            opened(file)
    store = opened(file)
    assert store._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'later'").fetchone() is None
    store.close()


def test_other_files_are_refused(file: Path, tmp_path: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        opened(file)
    text = tmp_path / "text.db"
    text.write_text("not a database " * 1000)
    with pytest.raises(StoreError, match="damaged"):
        opened(text)
    assert text.read_text() == "not a database " * 1000
    with pytest.raises(StoreError, match="cannot be opened"):
        opened(tmp_path / "missing" / "store.db")
    with pytest.raises(StoreError, match="cannot be opened"):
        opened(tmp_path)


@pytest.mark.parametrize("url", ["mysql://host/db", "store.db", "sqlite:store.db", "sqlite://", "sqlite:///", ""])
def test_unknown_urls(url: str) -> None:
    with pytest.raises(SettingsError, match="sqlite:///PATH"):
        open_store(url)


def test_relative_and_quoted_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///my%20store.db").close()
    assert (tmp_path / "my store.db").exists()
    odd = tmp_path / "a?mode=ro#x.db"
    store = opened(Path(str(odd).replace("?", "%3F").replace("#", "%23")))
    store.add_impression(page(0)).result()
    assert store.user("anna").version == 1
    store.close()
    assert odd.exists()


def test_retention_gives_space_back(file: Path) -> None:
    store = opened(file)
    for number in range(3000):
        store.add_impression(page(number, user=f"user{number}"))
    store.close_before(datetime(2026, 3, 2, tzinfo=UTC), limit=5000).result()
    empty_log(store._connection)
    size = file.stat().st_size
    while store.delete_expired(datetime(2028, 3, 1, tzinfo=UTC), limit=1000).result():
        pass
    empty_log(store._connection)
    assert store._connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert file.stat().st_size < 0.9 * size
    assert len(store.user("user7").profile.skipped) == 3
    store.close()

"""A store in a PostgreSQL database: partitions, migrations, groups and errors."""

import importlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from drpn.errors import DrpnError, RefusedError, SettingsError, StoreBusyError, StoreError
from drpn.store.opening import open_store
from drpn.store.records import Click, Receipt, Story
from drpn.store.settings import StoreSettings
from postgres_server import PASSWORD, SUPERUSER, PostgresServer
from store.conformance import DAY, MINUTE, NOON, Clock, page
from waiting import ENOUGH

pytestmark = pytest.mark.real


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.database()


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now = NOON + 60 * MINUTE
    return clock


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Any]:
    with closing(open_store(url, clock=clock)) as opened:
        yield opened


def ask(url: str, sql: str) -> list[Any]:
    """The rows of a statement, executed as anybody else could."""
    psycopg = importlib.import_module("psycopg")  # may be missing where these tests are skipped
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


class Gate:
    """Holds the writer of a store until it is opened."""

    def __init__(self, store: Any) -> None:
        self._open, self._reached = threading.Event(), threading.Event()
        self._done = store._writer.submit(self._hold)
        assert self._reached.wait(ENOUGH)

    def _hold(self, _connection: object) -> None:
        self._reached.set()
        self._open.wait(ENOUGH)

    def open(self) -> None:
        self._open.set()
        self._done.result()


# partitions


def partitions(url: str) -> list[str]:
    """The names of the partitions, oldest first."""
    return [
        name
        for (name,) in ask(url, "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r' ORDER BY relname")
    ]


def test_events_have_a_partition_for_each_day(store: Any, url: str, clock: Clock) -> None:
    store.add_impression(page(0, user="anna", clicked="a")).result()
    clock.now += DAY
    store.add_click(Click("i0", "anna", "b")).result()
    clock.now -= timedelta(hours=20)  # a clock that goes back does not make an event older than those before it
    store.close_for("anna").result()
    assert partitions(url) == ["events_20260301", "events_20260302"]
    assert ask(url, "SELECT day - min(day) OVER (), sequence FROM drpn.events ORDER BY sequence") == [
        (0, 1),
        (1, 2),
        (1, 3),
    ]
    assert [event.sequence for event in store.events_after(0)] == [1, 2, 3]
    assert [event.sequence for event in store.events_after(1)] == [2, 3]
    assert [event.sequence for event in store.events_after(2)] == [3]
    assert [event.sequence for event in store.user_events("anna")] == [1, 2, 3]


def test_reading_new_events_leaves_old_partitions_alone(store: Any, url: str, clock: Clock) -> None:
    for number in range(5):
        store.put_news([Story(f"n{number}", "Storm")]).result()
        clock.now += DAY
    dialect = importlib.import_module("drpn.store.postgres.dialect").POSTGRES
    condition = dialect.after.replace("?", str(store.last_sequence() - 1))
    in_schema = url.replace("?", "?options=-csearch_path%3Ddrpn&")
    plan = [line for (line,) in ask(in_schema, f"EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM events WHERE {condition}")]
    untouched = {match[1] for line in plan if (match := re.search(r"Scan.* on (events_\d+) .*never executed", line))}
    assert untouched == {"events_20260301", "events_20260302", "events_20260303"}, plan


def test_retention_drops_partitions(store: Any, url: str, clock: Clock) -> None:
    for _ in range(3):
        store.put_news([Story(f"n{clock.now:%d}", "Storm")]).result()
        clock.now += DAY
    clock.now += 364 * DAY
    store.put_news([Story("new", "Chess")]).result()
    while store.delete_expired().result():
        pass
    assert partitions(url) == ["events_20260303", "events_20270303"]
    assert [event.sequence for event in store.events_after(0)] == [3, 4]
    assert store.last_sequence() == 4


def test_a_reader_does_not_make_retention_fail(store: Any, url: str, clock: Clock) -> None:
    store.put_news([Story("old", "Storm")]).result()
    clock.now += 400 * DAY
    with store._readers.connection() as connection:
        connection.execute("SELECT count(*) FROM events").fetchone()
        while store.delete_expired().result():
            pass
        assert len(partitions(url)) == 2
    store.delete_expired().result()
    assert len(partitions(url)) == 1


# groups


def test_changes_share_a_transaction(store: Any, url: str) -> None:
    gate = Gate(store)
    receipts = [store.add_impression(page(number, clicked="a")) for number in range(20)]
    gate.open()
    assert [receipt.result().sequence for receipt in receipts] == list(range(1, 21))
    assert len(ask(url, "SELECT DISTINCT xmin::text FROM drpn.events")) == 1


@pytest.mark.parametrize(
    "failure", [RefusedError("no"), ValueError("no"), "SELECT 1/0", "INSERT INTO users VALUES (1)"]
)
def test_a_change_that_fails_halfway_leaves_nothing(store: Any, failure: Any) -> None:
    def halfway(connection: Any) -> Receipt:
        store._changes.put_news(connection, [Story("a", "Storm")])
        if isinstance(failure, str):
            connection.execute(failure)
            return Receipt(0)
        raise failure

    gate = Gate(store)
    before, broken = store.add_impression(page(0)), store._writer.submit(halfway)
    after = store.add_click(Click("i0", "anna", "a", NOON))
    gate.open()
    with pytest.raises(RefusedError if isinstance(failure, RefusedError) else StoreError, match=r"no|failed"):
        broken.result()
    assert [before.result(), after.result()] == [Receipt(1), Receipt(2)]
    assert list(store.stories()) == []


def test_a_lost_connection_is_made_again(store: Any, url: str) -> None:
    store.add_impression(page(0)).result()
    for _ in range(2):
        ask(url, "SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity WHERE application_name = 'drpn'")
        assert store.version("anna") == 1
        assert store.add_impression(page(0)).result() == Receipt(1, repeated=True)


def test_acknowledged_means_synced(url: str) -> None:
    ask(url, f"ALTER DATABASE {url.split('?')[0].rsplit('/', 1)[1]} SET synchronous_commit = off")
    with closing(open_store(url)) as store:
        read = store._writer.submit(lambda connection: connection.execute("SHOW synchronous_commit").fetchone())  # type: ignore[attr-defined]
        assert read.result() == ("on",)


def test_a_server_that_does_not_sync_is_refused(own_postgres: PostgresServer) -> None:
    url = own_postgres.database()
    own_postgres.stop()
    own_postgres.start(fsync="off")
    with pytest.raises(StoreError, match="set fsync = on"):
        open_store(url)


# migrations


def test_a_newer_format_is_refused(url: str) -> None:
    open_store(url).close()
    ask(url, "INSERT INTO drpn.migrations VALUES (1000)")
    with pytest.raises(StoreError, match=r"format 1000.*update drpn"):
        open_store(url)


def test_migrations_keep_what_is_stored(url: str, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    schema = importlib.import_module("drpn.store.postgres.schema")
    with closing(open_store(url, clock=clock)) as store:
        store.add_impression(page(0, clicked="a")).result()
        before = store.user("anna")
    steps = (
        *schema.MIGRATIONS,
        "CREATE TABLE later (x int); INSERT INTO later VALUES (1)",
        "INSERT INTO later VALUES (2)",
    )
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    for _ in range(2):
        with closing(open_store(url, clock=clock)) as store:
            assert store.user("anna") == before
        assert ask(url, "SELECT x FROM drpn.later ORDER BY x") == [(1,), (2,)]
        assert ask(url, "SELECT version FROM drpn.migrations ORDER BY 1") == [(1,), (2,), (3,)]


def test_a_failed_migration_changes_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = importlib.import_module("drpn.store.postgres.schema")
    open_store(url).close()
    with monkeypatch.context() as patch:
        patch.setattr(
            schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE later (x int); INSERT INTO nothing VALUES (1)")
        )
        with pytest.raises(StoreError, match="nothing"):
            open_store(url)
    open_store(url).close()
    assert ask(url, "SELECT to_regclass('drpn.later')") == [(None,)]


def test_processes_that_open_an_empty_database_at_once(url: str) -> None:
    program = """
import sys
from drpn.store.opening import open_store
store = open_store(sys.argv[1])
print(store.mark("anna"), store.derived_key("ids").hex())
store.close()
"""
    processes = [subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE) for _ in range(4)]
    marks = {process.communicate()[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 4
    assert len(marks) == 1  # all have the same secret


# addresses


def test_errors_name_the_cause_and_hide_the_password(postgres: PostgresServer, url: str) -> None:
    name = url.split("?")[0].rsplit("/", 1)[1]
    secret = quote(PASSWORD, safe="")
    where = f"127.0.0.1:{postgres.port}"
    open_store(f"postgresql://{SUPERUSER}:{secret}@{where}/{name}").close()
    for wrong, words in (
        (f"postgresql://{SUPERUSER}:WRONG@{where}/{name}", "password authentication failed"),
        (f"postgresql://{SUPERUSER}:{secret}@{where}/missing", "does not exist"),
        (f"postgresql://{SUPERUSER}:{secret}@127.0.0.1:1/{name}", "refused"),
        (f"postgresql://{SUPERUSER}:{secret}@{where}/{name}?nonsense=1", "nonsense"),
    ):
        with pytest.raises(DrpnError, match=words) as raised:
            open_store(wrong)
        assert "\n" not in str(raised.value)
        assert secret not in str(raised.value)
        assert "WRONG" not in str(raised.value)
    with pytest.raises(SettingsError, match="no address"):
        open_store(f"postgresql://{where}/{name}?nonsense=1")


def test_a_user_who_may_not_make_tables(url: str) -> None:
    ask(url, "CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(StoreError, match=r"permission denied.*may make tables"):
            open_store(url.replace(SUPERUSER, "guest", 1))
    finally:
        ask(url, "DROP ROLE guest")


def test_too_many_changes(url: str, clock: Clock) -> None:
    with closing(open_store(url, StoreSettings(waiting=3), clock=clock)) as store:
        gate = Gate(store)
        receipts = [store.add_impression(page(number)) for number in range(3)]
        with pytest.raises(StoreBusyError):
            store.add_impression(page(3))
        gate.open()
        assert [receipt.result().sequence for receipt in receipts] == [1, 2, 3]


def test_after_closing(store: Any) -> None:
    store.close()
    for call in (lambda: store.version("anna"), lambda: store.add_impression(page(0))):
        with pytest.raises(StoreError, match="closed"):
            call()


def test_nothing_is_executed_that_was_sent(store: Any) -> None:
    """Texts with quotes and place holders are texts."""
    for number, text in enumerate(("'; DROP TABLE users; --", "%s %(x)s ?", '"user"', "\\", "$$")):
        store.add_impression(page(number, user=text, clicked="a")).result()
        assert store.user(text).clicked == {"a"}
        store.put_news([Story(text, text)]).result()
        assert [stored.story.title for stored in store.stories([text])] == [text]
        assert [stored.impression.user_id for stored in store.open_impressions(text)] == [text]
        store.erase(text).result()
        assert store.version(text) == 0

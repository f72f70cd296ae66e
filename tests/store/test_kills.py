"""A store whose process is killed at random moments: nothing that was acknowledged is lost or doubled."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from drpn.errors import StoreError
from drpn.state.profile import Event, ProfileState
from drpn.store.base import Store
from drpn.store.moments import microseconds
from drpn.store.opening import open_store
from drpn.store.records import ClickCounted, Closed, Impression, LoggedEvent
from postgres_server import PostgresServer
from store import killed_writer
from waiting import killed_after_enough, wait_until

PROGRAM = Path(killed_writer.__file__)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.real)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database()


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_no_acknowledged_event_is_lost(url: str, kills: int) -> None:
    chance = random.Random(kills)
    acknowledged: list[str] = []
    checked = 0
    for run in range(kills):
        if run % 5 == 0:  # killed while it opens the store; at first, while it makes the file
            said = killed(url, run, 0, 0.05 + 0.15 * chance.random())
        else:
            lines = chance.choice([1, 10, 50, 200])
            said = killed(url, run, chance.randint(lines // 2 + 1, lines), 0.05 * chance.random())
        assert said[:1] in ([], ["opened"])
        store = open_store(url)  # opens each time
        try:
            check(store, run, said[1:], checked)
            checked = store.last_sequence()
        finally:
            store.close()
        acknowledged += said[1:]
    assert len(acknowledged) > 5 * kills, "the process was killed before it wrote much"
    store = open_store(url)
    log = log_after(store, 0)
    assert all(count == 1 for count in stored(log).values())
    lost = set(acknowledged) - set(stored(log))
    assert not {line for line in lost if not line.startswith("closed")}
    check_profiles(store, log)
    store.close()


def test_two_processes_write_at_once(url: str) -> None:
    """Every decision is made from the store, so two writers neither lose nor double an event, nor break the order."""
    open_store(url).close()
    processes = [subprocess.Popen([sys.executable, PROGRAM, url, str(run)], stdout=subprocess.PIPE) for run in range(2)]
    for process in processes:
        assert first_lines(process, 1) == ["opened"]
    store = open_store(url)  # a third one reads and erases meanwhile
    last, both = 0, Counter[str]()

    def read() -> bool:
        nonlocal last
        events = store.events_after(last)
        assert [event.sequence for event in events] == list(range(last + 1, last + 1 + len(events)))
        last += len(events)
        both.update(line.split()[1][0] for line in stored(events) if not line.startswith("closing"))
        return min(both["0"], both["1"]) > 100

    try:
        wait_until(read, *processes, pause=0)
        store.erase("nobody").result()
    finally:
        for process in processes:
            process.kill()
    said = []
    for process in processes:
        assert process.stdout is not None
        said.append(process.stdout.read().decode().splitlines())
        process.stdout.close()
        process.wait()
    counts = stored(log_after(store, 0))
    assert all(count == 1 for count in counts.values())
    for lines in said:
        acknowledged = {line for line in lines if line.startswith(("impression", "click"))}
        assert len(acknowledged) > 100 - killed_writer.THREADS
        assert acknowledged <= set(counts)
    store.close()


@pytest.mark.real
def test_a_killed_server_loses_no_acknowledged_event(own_postgres: PostgresServer) -> None:
    """PostgreSQL is killed under load, again and again; a store that is open meanwhile works as soon as it is back."""
    url, acknowledged, last = own_postgres.database(), list[str](), 0
    store = open_store(url)
    for run in range(3):
        writers = [
            subprocess.Popen(
                [sys.executable, PROGRAM, url, str(2 * run + number)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for number in range(2)
        ]
        for writer in writers:
            acknowledged += first_lines(writer, 51)[1:]
        time.sleep(0.2 * run)
        own_postgres.kill()
        with pytest.raises(StoreError, match="cannot be written"):
            store.add_impression(killed_writer.impression(f"{2 * run}-0-1000000")).result()
        for writer in writers:
            writer.kill()
            assert writer.stdout is not None
            said = writer.stdout.read().decode().splitlines()
            writer.stdout.close()
            writer.wait()
            acknowledged += said
        own_postgres.start()
        events = log_after(store, last)
        assert [event.sequence for event in events] == list(range(last + 1, last + 1 + len(events)))
        last += len(events)
        receipt = store.add_impression(killed_writer.impression(f"{2 * run}-0-2000000")).result()
        assert receipt.sequence == last + 1
    log = log_after(store, 0)
    assert all(count == 1 for count in stored(log).values())
    assert {line for line in acknowledged if line.startswith(("impression", "click"))} <= set(stored(log))
    check_profiles(store, log)
    store.close()


def killed(url: str, run: int, lines: int, seconds: float) -> list[str]:
    """Start a writer, kill it some seconds after it said this many lines, and return all it said."""
    process = subprocess.Popen([sys.executable, PROGRAM, url, str(run)], stdout=subprocess.PIPE)
    first = first_lines(process, lines)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    rest = process.stdout.read().decode().splitlines()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    return first + rest


def first_lines(process: subprocess.Popen[bytes], count: int) -> list[str]:
    """The first lines of a process, which must not end before."""
    assert process.stdout is not None
    with killed_after_enough(process):
        lines = [process.stdout.readline().decode() for _ in range(count)]
    assert all(lines), "the process ended, or said nothing for minutes"
    return [line.rstrip("\n") for line in lines]


def check(store: Store, run: int, said: list[str], since: int) -> None:
    """Acknowledged events are there once; sending everything again, with what came next, makes no duplicate."""
    store.close_for("nobody").result()  # a server may still commit what the killed process sent; this waits for it
    before = stored(log_after(store, since))
    assert all(count == 1 for count in before.values())
    names = {name for line in said for kind, name in [line.split(" ")] if kind != "closed"}
    assert {line for line in said if not line.startswith("closed")} <= set(before)
    for thread in range(killed_writer.THREADS):
        numbers = [int(name.split("-")[2]) for name in names if name.split("-")[1] == str(thread)]
        last = max(numbers, default=-1)
        for number in {max(last, 0), last + 1}:  # the next one may be stored without having been acknowledged
            name = f"{run}-{thread}-{number}"
            for kind in ("impression", "click") if number % 2 else ("impression",):
                line = f"{kind} {name}"
                if kind == "impression":
                    receipt = store.add_impression(killed_writer.impression(name), key=line).result()
                else:
                    receipt = store.add_click(killed_writer.late_click(name), key=line).result()
                assert receipt.repeated == (line in before)
    assert all(count == 1 for count in stored(log_after(store, since)).values())


def stored(log: list[LoggedEvent]) -> Counter[str]:
    """How often each impression and late click is in the log, in the words of the writer."""
    lines = Counter[str]()
    for event in log:
        if isinstance(event.what, Impression):
            lines[f"impression {event.what.impression_id}"] += 1
        elif isinstance(event.what, ClickCounted):
            lines[f"click {event.what.click.impression_id}"] += 1
        elif isinstance(event.what, Closed):
            lines[f"closing {event.what.impression_id}"] += 1
    return lines


def log_after(store: Store, sequence: int) -> list[LoggedEvent]:
    log: list[LoggedEvent] = []
    while part := store.events_after(log[-1].sequence if log else sequence):
        log += part
    return log


def check_profiles(store: Store, log: list[LoggedEvent]) -> None:
    """Tables agree with the log, whichever moment the process was killed at."""
    states: dict[str, ProfileState] = {}
    impressions: dict[str, Impression] = {}
    for event in log:
        what = event.what
        if isinstance(what, Impression):
            impressions[what.impression_id] = what
            shown, clicked = [story.news_id for story in what.shown if story.clicked], True
        elif isinstance(what, ClickCounted):
            what, shown, clicked = impressions[what.click.impression_id], [what.click.news_id], True
        else:
            assert isinstance(what, Closed)
            shown, clicked = list(what.skipped), False
            what = impressions[what.impression_id]
        assert what.time is not None
        state = states.setdefault(what.user_id, ProfileState())
        for story in shown:
            state.update(Event(story, clicked, microseconds(what.time) * 1000 + what.positions()[story]))
    for user, state in states.items():
        expected, profile = state.profile(), store.user(user).profile
        assert [entry.news_id for entry in profile.clicked] == [entry.news_id for entry in expected.clicked]
        assert [entry.news_id for entry in profile.skipped] == [entry.news_id for entry in expected.skipped]

"""`drpn serve` as a process: it starts, answers, stops in order, and survives kills."""

import http.client
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from drpn.store.opening import open_store
from drpn.store.records import ClickCounted, Impression
from service.server import FOUR, ONE, Server, exchange, serving, start
from terminal import start_command
from waiting import ENOUGH, wait_until

CALLERS = 4
PAGE = {"impression_id": "p1", "user_id": "anna", "shown": [{"news_id": "s1", "clicked": True}, {"news_id": "s2"}]}


@pytest.fixture(scope="module")
def server(run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serving")
    with serving(run_path, folder / "store.db") as started:
        yield started


def test_a_ranking_and_feedback_over_the_network(server: Server) -> None:
    assert server.call("GET", "/readyz") == (200, {"status": "ok"})
    story = {"news_id": "s1", "title": "Storm closes the harbours", "category": "weather"}
    assert server.call("PUT", "/v1/news", {"stories": [story]})[0] == 200
    status, ranking = server.call("POST", "/v1/rank", {"user_id": "anna", "count": 5})
    assert status == 200
    assert len(ranking["stories"]) == 5
    first = ranking["stories"][0]["news_id"]
    page = {
        "impression_id": ranking["impression_id"],
        "user_id": "anna",
        "shown": [{"news_id": row["news_id"], "clicked": row["news_id"] == first} for row in ranking["stories"]],
    }
    assert server.call("POST", "/v1/impressions", page, Idempotency_Key="k1")[1]["repeated"] is False
    assert server.call("POST", "/v1/impressions", page, Idempotency_Key="k1")[1]["repeated"] is True
    status, again = server.call("POST", "/v1/rank", {"user_id": "anna", "count": 1000})
    assert first not in [row["news_id"] for row in again["stories"]], "a clicked story is not ranked again"
    assert server.call("GET", "/v1/users/anna")[1]["clicked"][0]["news_id"] == first
    assert server.call("GET", "/v1/users/anna/explanation")[0] == 200


def test_a_forged_impression_id_is_refused(server: Server) -> None:
    _, ranking = server.call("POST", "/v1/rank", {"user_id": "ben", "count": 2})
    shown = [{"news_id": row["news_id"]} for row in ranking["stories"]]
    page = {"impression_id": ranking["impression_id"], "user_id": "carla", "shown": shown}
    status, answer = server.call("POST", "/v1/impressions", page)
    assert (status, answer["error"]["code"]) == (422, "bad_impression_id")


def test_raw_requests_that_are_not_http(server: Server) -> None:
    for text in (
        b"hello\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\x16\x03\x01\x02",
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        with socket.create_connection((server.host, server.port), timeout=ENOUGH) as connection:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            with suppress(ConnectionResetError):
                while part := connection.recv(10_000):
                    answer += part
        assert b" 500 " not in answer
    assert server.call("GET", "/healthz")[0] == 200


def test_a_header_cannot_smuggle_a_second_answer(server: Server) -> None:
    with socket.create_connection((server.host, server.port), timeout=ENOUGH) as connection:
        connection.sendall(
            b"GET /v1/users/a%0d%0aSet-Cookie:x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        )
        answer = b""
        while part := connection.recv(10_000):
            answer += part
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"set-cookie" not in head
    assert head.startswith(b"http/1.1 422")


def test_a_used_port_is_refused(server: Server, run_path: Path, tmp_path: Path) -> None:
    process = start_command("serve", run_path, "--store", f"sqlite:///{tmp_path}/s.db", "--port", server.port)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "cannot listen at 127.0.0.1" in error
    assert "--port" in error
    assert error.count("\n") == 1


def test_log_of_the_process_holds_no_user(server: Server) -> None:
    server.call("GET", "/v1/users/secret-4711")
    wait_until(lambda: "/v1/users/{user_id} 404" in "".join(server.lines))
    text = "".join(server.lines)
    assert "secret" not in text
    assert "anna" not in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", [ONE, pytest.param(FOUR, marks=pytest.mark.real)], ids=["one", "4"])
def test_a_signal_finishes_requests_and_closes_the_store(
    run_path: Path, tmp_path: Path, number: signal.Signals, workers: tuple[object, ...]
) -> None:
    server = start(run_path, tmp_path / "store.db", *workers)
    acknowledged = Load(server, round_number=0)
    wait_until(lambda: len(acknowledged.names) > 10)
    code = server.stop(number)
    acknowledged.join()
    assert code == 0, "".join(server.lines)
    assert "stopped; all acknowledged events are stored" in "".join(server.lines)
    assert not list(tmp_path.glob("store.db-wal")), "the store was not closed"
    assert acknowledged.names
    assert acknowledged.names <= stored(f"sqlite:///{tmp_path}/store.db").keys()


def kill_cases() -> Iterator[object]:
    """Three kills of a plain service for `make test`; ten and two hundred of each kind."""
    yield pytest.param(3, "sqlite", ONE, id="sqlite-3")
    for kills, mark in ((10, pytest.mark.real), (200, pytest.mark.slow)):
        for kind in ("sqlite", "postgresql"):
            yield pytest.param(kills, kind, ONE, marks=mark, id=f"{kind}-{kills}")
            yield pytest.param(kills, kind, FOUR, marks=mark, id=f"{kind}-4-{kills}")


@pytest.mark.parametrize(("kills", "kind", "workers"), list(kill_cases()))
def test_kills_lose_no_acknowledged_event(
    run_path: Path, tmp_path: Path, kills: int, kind: str, workers: tuple[object, ...], request: pytest.FixtureRequest
) -> None:
    """Processes are killed at random moments: of several workers one, and now and then all at once."""
    chance, acknowledged = random.Random(kills), set[str]()
    url = f"sqlite:///{tmp_path}/store.db" if kind == "sqlite" else request.getfixturevalue("postgres").database()
    server = start(run_path, url, *workers)
    for number in range(kills):
        load = Load(server, round_number=number)
        if number % 4:  # else the moment may come before anything is stored
            wait_until(lambda enough=chance.randint(10, 40), load=load: len(load.names) >= enough)
        time.sleep(0.4 * chance.random())
        everything = not workers or number % 8 == 7
        if everything:
            server.kill()
        else:
            os.kill(chance.choice(server.workers()), signal.SIGKILL)
        load.join()
        acknowledged |= load.names
        before = stored(url)
        assert acknowledged <= before.keys()
        assert set(before.values()) <= {1}
        if everything:
            server = start(run_path, url, *workers)
        for caller in range(CALLERS):  # the last requests again, and the next ones, which may be stored already
            for later in range(2):
                name = f"{number}-{caller}-{load.counts[caller] - 1 + later}"
                if not name.endswith("--1"):
                    status, answer = send(server, name)
                    assert (status, answer["repeated"]) == (200, f"impression {name}" in before)
    server.kill()
    counts = stored(url)
    assert set(counts.values()) == {1}
    assert acknowledged <= counts.keys()
    assert len(acknowledged) > 2 * kills, "the service was killed before it stored much"


class Load:
    """Callers that report page views and clicks until the service, or their worker, is gone."""

    def __init__(self, server: Server, round_number: int) -> None:
        self._server, self._round, self._stopped = server, round_number, threading.Event()
        self.names: set[str] = set()
        """The events that were acknowledged."""
        self.counts = [0] * CALLERS
        """Acknowledged page views of each caller."""
        self._threads = [threading.Thread(target=self._call, args=(caller,)) for caller in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _call(self, caller: int) -> None:
        connection = http.client.HTTPConnection(self._server.host, self._server.port, timeout=30)
        try:
            while not self._stopped.is_set():
                name = f"{self._round}-{caller}-{self.counts[caller]}"
                status, _ = exchange(connection, "POST", "/v1/impressions", page(name), Idempotency_Key=f"i-{name}")
                assert status == 200
                self.counts[caller] += 1
                self.names.add(f"impression {name}")
                if self.counts[caller] % 2:
                    click = {"impression_id": name, "user_id": page(name)["user_id"], "news_id": "s2"}
                    status, _ = exchange(connection, "POST", "/v1/clicks", click, Idempotency_Key=f"c-{name}")
                    assert status == 200
                    self.names.add(f"click {name}")
                if self.counts[caller] % 3 == 0:
                    exchange(connection, "POST", "/v1/rank", {"user_id": page(name)["user_id"], "count": 3})
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()

    def join(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


def page(name: str) -> dict[str, object]:
    caller = name.split("-")[1]
    return PAGE | {"impression_id": name, "user_id": f"user{caller}"}


def send(server: Server, name: str) -> tuple[int, dict[str, object]]:
    return server.call("POST", "/v1/impressions", page(name), Idempotency_Key=f"i-{name}")


def stored(url: str) -> dict[str, int]:
    """How often each page view and click is in the log of a store that no process has open."""
    store, counts, last = open_store(url), dict[str, int](), 0
    store.close_for("nobody").result()  # a server may still commit what a killed process sent; this waits for it
    while events := store.events_after(last):
        last = events[-1].sequence
        for event in events:
            if isinstance(event.what, Impression):
                name = f"impression {event.what.impression_id}"
            elif isinstance(event.what, ClickCounted):
                name = f"click {event.what.click.impression_id}"
            else:
                continue
            counts[name] = counts.get(name, 0) + 1
    store.close()
    return counts

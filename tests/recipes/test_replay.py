"""The clock and the readers of a replay, without a network."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from drpn.logs.simulate import SimulationSettings, simulate
from drpn.logs.simulate.next_day import NextDay
from drpn.progress import Lines
from drpn.recipes.replay import FastClock, Replay
from waiting import wait_until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay") / "logs"
    simulate(folder, SimulationSettings(users=60, news=300, days=2, seed=5, preset="live"))
    return folder


def test_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = FastClock(NOON, NOON + timedelta(hours=2), seconds=60)
    now = 500.0
    assert clock() == NOON  # it has not begun
    clock.begin()
    assert clock.seconds_until(NOON + timedelta(hours=1)) == pytest.approx(30)
    now = 530.0
    assert clock() == NOON + timedelta(hours=1)
    assert clock.seconds_until(NOON) == pytest.approx(-30)
    now = 570.0
    assert clock() == NOON + timedelta(hours=2, seconds=10)  # as time does


class Service:
    """Answers like the service: the same list for everybody."""

    def __init__(self, stories: list[str], status: int = 200) -> None:
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        calls, lock = self.calls, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version, wbufsize = "HTTP/1.1", -1

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    calls.append((self.command, self.path, body))
                    number = len(calls)
                listed = [{"news_id": news_id} for news_id in stories[: body.get("count", 0)]]
                answer = json.dumps({"impression_id": f"i{number}", "stories": listed}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_PUT = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def answering(service: Service) -> Iterator[Service]:
    thread = threading.Thread(target=service.server.serve_forever)
    thread.start()
    try:
        yield service
    finally:
        service.server.shutdown()
        thread.join()
        service.server.server_close()


def test_a_whole_day(logs: Path) -> None:
    day, lines = NextDay(logs), list[str]()
    with answering(Service([story.news_id for story in day.stories])) as service:
        replay = Replay(day, 2.0, Lines(lines.append))
        replay.begin(service.url)
        assert replay._thread is not None
        replay._thread.join(60)
        done = replay.end()
    assert (done.over, done.failed) == (True, 0)
    kinds = [path for _, path, _ in service.calls]
    assert kinds.count("/v1/news") == done.stories == len(day.stories)
    assert kinds.count("/v1/rank") == kinds.count("/v1/impressions") == done.views > len(day.visits)
    assert kinds.count("/v1/clicks") == done.clicks > 0
    assert any("the day is over" in line for line in lines)
    shown: dict[str, dict[str, Any]] = {}
    for _, path, body in service.calls:
        if path == "/v1/impressions":
            asked = service.calls[int(body["impression_id"][1:]) - 1][2]
            assert (asked["user_id"], asked["session"]) == (body["user_id"], body["session"])
            assert len(body["shown"]) == min(asked["count"], len(day.stories))
            assert asked["about"]["device"] == body["device"]
            assert asked.get("page") == body.get("page")
            shown[body["impression_id"]] = body
        elif path == "/v1/clicks":
            page = shown[body["impression_id"]]
            assert body["user_id"] == page["user_id"]
            assert {"news_id": body["news_id"]} in page["shown"]
    published = [body["stories"][0]["published"] for _, path, body in service.calls if path == "/v1/news"]
    assert published == sorted(published)


def test_readers_can_be_stopped_and_survive_a_service_that_fails(logs: Path) -> None:
    day = NextDay(logs)
    replay = Replay(day, 30.0, Lines(lambda _: None))
    with answering(Service([], status=503)) as service:
        replay.begin(service.url)
        wait_until(lambda: bool(service.calls))
        done = replay.end()
    assert not done.over
    assert done.failed > 0
    assert done.views == 0
    gone = Replay(day, 2.0, Lines(lambda _: None))
    gone.begin("http://127.0.0.1:9")  # nobody listens there
    assert gone._thread is not None
    gone._thread.join(30)
    assert not gone._thread.is_alive()
    assert not gone.end().over
    assert Replay(day, 2.0, Lines()).end().views == 0  # never begun

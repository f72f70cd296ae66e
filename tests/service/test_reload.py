"""Bundles are replaced while the service answers."""

import http.client
import os
import shutil
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from service.server import FOUR, ONE, Client, Server, exchange, serving
from waiting import wait_until


@pytest.mark.parametrize("reloads", [5, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "workers"),
    [("sqlite", ONE), pytest.param("postgresql", FOUR, marks=pytest.mark.real)],
    ids=["one", "postgresql-4"],
)
def test_reloads_under_load_lose_no_request(
    run_path: Path, tmp_path: Path, reloads: int, kind: str, workers: tuple[object, ...], request: pytest.FixtureRequest
) -> None:
    store = tmp_path / "store.db" if kind == "sqlite" else request.getfixturevalue("postgres").database()
    bundles = tmp_path / "bundles"
    for name in ("first", "second", "broken", "newer", "partial"):
        shutil.copytree(run_path / "bundle", bundles / name)
    weights = bundles / "broken" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    manifest = bundles / "newer" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 999'))
    (bundles / "partial" / "news" / "recent.npy").unlink()
    with serving(bundles / "first", store, "--bundles", bundles, *workers) as server:
        callers = server.clients() if workers else [server]
        load = Load(server)
        for number in range(reloads):
            name, caller = ("second", "first")[number % 2], callers[number % len(callers)]
            assert caller.call("POST", "/v1/reload", {"bundle": name})[0] == 200
            assert ranking_bundles(callers) == [name] * len(callers)
        for number, name in enumerate(("broken", "newer", "partial")):
            before = ranking_bundles(callers)
            status, answer = callers[number % len(callers)].call("POST", "/v1/reload", {"bundle": name})
            assert (status, answer["error"]["code"]) == (422, "bad_bundle"), answer
            assert ranking_bundles(callers) == before
        wait_until(lambda: len(load.statuses) > 2 * reloads)
        load.stop()
        assert set(load.statuses) == {200}


def ranking_bundles(callers: Sequence[Server | Client]) -> list[str]:
    """The bundle with which each worker ranks."""
    return [caller.call("POST", "/v1/rank", {"user_id": "anna"})[1]["bundle"] for caller in callers]


@pytest.mark.real
def test_a_worker_that_starts_later_has_the_new_bundle(run_path: Path, tmp_path: Path) -> None:
    bundles = tmp_path / "bundles"
    for name in ("first", "second", "third"):
        shutil.copytree(run_path / "bundle", bundles / name)
    with serving(bundles / "first", tmp_path / "store.db", "--bundles", bundles, "--workers", 2) as server:
        assert server.call("POST", "/v1/reload", {"bundle": "second"})[0] == 200
        old = server.workers()
        os.kill(old[0], signal.SIGKILL)
        # a reload while a worker is missing or loads must not leave it behind
        assert server.call("POST", "/v1/reload", {"bundle": "third"})[0] == 200
        os.kill(old[1], signal.SIGKILL)
        wait_until(lambda: not set(server.workers()) & set(old) and len(server.workers()) == 2, pause=0.1)
        server.wait_for_workers(2)
        assert ranking_bundles(server.clients()) == ["third", "third"]


class Load:
    """Callers that rank and report page views until they are stopped."""

    def __init__(self, server: Server) -> None:
        self._server, self._stopped = server, threading.Event()
        self.statuses: list[int] = []
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(3)]
        for thread in self._threads:
            thread.start()

    def _call(self, caller: int) -> None:
        connection, number = http.client.HTTPConnection(self._server.host, self._server.port, timeout=60), 0
        while not self._stopped.is_set():
            number += 1
            user = f"user{caller}-{number % 7}"
            status, ranking = exchange(connection, "POST", "/v1/rank", {"user_id": user, "count": 5})
            self.statuses.append(status)
            if ranking.get("stories") and "impression_id" in ranking:
                shown = [{"news_id": story["news_id"]} for story in ranking["stories"]]
                page = {"impression_id": ranking["impression_id"], "user_id": user, "shown": shown}
                self.statuses.append(exchange(connection, "POST", "/v1/impressions", page)[0])
        connection.close()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

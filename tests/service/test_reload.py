"""Bundles are replaced while the service answers."""

import http.client
import shutil
import threading
from pathlib import Path

import pytest

from service.server import Server, exchange, serving


@pytest.mark.parametrize("reloads", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_reloads_under_load_lose_no_request(run_path: Path, tmp_path: Path, reloads: int) -> None:
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
    with serving(bundles / "first", tmp_path / "store.db", "--bundles", bundles) as server:
        load = Load(server)
        served = set()
        for number in range(reloads):
            name = ("second", "first")[number % 2]
            assert server.call("POST", "/v1/reload", {"bundle": name})[0] == 200
            served.add(server.call("POST", "/v1/rank", {"user_id": "anna"})[1]["bundle"])
        for name in ("broken", "newer", "partial"):
            before = server.call("POST", "/v1/rank", {"user_id": "anna"})[1]["bundle"]
            status, answer = server.call("POST", "/v1/reload", {"bundle": name})
            assert (status, answer["error"]["code"]) == (422, "bad_bundle"), answer
            assert server.call("POST", "/v1/rank", {"user_id": "anna"})[1]["bundle"] == before
        load.stop()
        assert set(load.statuses) == {200}
        assert len(load.statuses) > 2 * reloads
        assert len(served) == 2


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

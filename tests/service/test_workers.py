"""`drpn serve --workers`: several processes that answer as one service."""

import os
import re
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drpn.errors import OverloadError, RunError, SettingsError
from drpn.service.workers.channel import as_error, as_facts
from drpn.service.workers.folder import remove_left_behind, shared_folder
from service.server import Server, figure, serving, start
from terminal import start_command
from waiting import wait_until

KEY = "k" * 40


@pytest.fixture(scope="module")
def server(run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(run_path, tmp_path_factory.mktemp("workers") / "store.db", "--workers", 3) as started:
        yield started


def is_running(process: int) -> bool:
    """Whether a process runs; one that has ended may still have an entry."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


@pytest.mark.real
def test_metrics_are_sums_whoever_is_asked(server: Server) -> None:
    clients = server.clients()
    before = clients[0].call("GET", "/metrics")[1]
    for number, client in enumerate(clients):
        for _ in range(number + 1):
            assert client.call("POST", "/v1/rank", {"user_id": "anna", "count": 2})[0] == 200
    assert clients[0].call("GET", "/v1/users/nobody-knows")[0] == 404
    for client in clients:
        ranked = 'drpn_requests_total{method="POST",route="/v1/rank",status="200"}'

        def risen(name: str, by: float, client=client) -> bool:
            return figure(client.call("GET", "/metrics")[1], name) - figure(before, name) == by

        wait_until(lambda: risen("drpn_rankings_total", 6), pause=0.05)
        wait_until(lambda: risen("drpn_batches_total", 6), pause=0.05)
        text = client.call("GET", "/metrics")[1]
        assert sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(ranked)) >= 6
        assert figure(text, "drpn_reader_hits_total") + figure(text, "drpn_reader_misses_total") >= 6
        assert figure(text, "drpn_workers") == 3
        assert figure(text, "drpn_live_stories") == figure(before, "drpn_live_stories") > 0
        assert figure(text, "drpn_requests_running") == 1  # this request
        assert figure(text, "drpn_store_waiting") == 0


@pytest.mark.real
def test_live_figures_of_the_page_are_sums(server: Server) -> None:
    clients = server.clients()
    for client in clients:
        assert client.call("POST", "/v1/rank", {"user_id": "ben", "count": 2})[0] == 200
    total = figure(clients[0].call("GET", "/metrics")[1], "drpn_rankings_total")
    for client in clients:
        shown = re.search(r"<dt>Rankings</dt><dd>([\d,]+)</dd>", client.call("GET", "/figures")[1])
        assert shown is not None
        assert int(shown[1].replace(",", "")) >= total


@pytest.mark.real
def test_a_killed_worker_is_replaced_and_its_counts_stay(server: Server) -> None:
    clients = server.clients()
    for client in clients:
        assert client.call("POST", "/v1/rank", {"user_id": "carla", "count": 2})[0] == 200
    time.sleep(0.2)  # counts are written soon after the answer
    before = server.call("GET", "/metrics")[1]
    killed = clients[0].worker
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: killed not in server.workers() and len(server.workers()) == 3)
    server.wait_for_workers(3)
    for client in server.clients():
        text = client.call("GET", "/metrics")[1]
        assert figure(text, "drpn_rankings_total") == figure(before, "drpn_rankings_total")
        rank = 'drpn_request_seconds_count{method="POST",route="/v1/rank"}'
        assert _line(text, rank) == _line(before, rank)
    for client in server.clients():
        assert client.call("POST", "/v1/rank", {"user_id": "carla", "count": 2})[0] == 200
    assert f"(process {killed}) ended by signal 9; another one is started" in "".join(server.lines)


def _line(metrics: str, series: str) -> str:
    return next(line for line in metrics.splitlines() if line.startswith(series))


@pytest.mark.real
def test_a_login_is_known_to_all_workers(run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRPN_KEY", KEY)
    with serving(run_path, tmp_path / "store.db", "--workers", 2) as server:
        assert KEY not in "".join(
            Path(f"/proc/{process}/cmdline").read_text() for process in [server.process.pid, *server.workers()]
        )
        first, second = server.clients()
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        page = _raw(server, "GET", "/login", "", **form)
        token = re.search(r'name="token" value="([^"]+)"', page)
        cookie = re.search(r"set-cookie: (drpn_session=[^;]+)", page, re.IGNORECASE)
        assert token, page
        assert cookie, page
        answer = _raw(server, "POST", "/login", f"token={token[1]}&key={KEY}", Cookie=cookie[1], **form)
        session = re.search(r"set-cookie: (drpn_session=[^;]+)", answer, re.IGNORECASE)
        assert session, answer
        for client in (first, second):
            assert client.call("GET", "/figures", Cookie=session[1])[0] == 200
            assert client.call("GET", "/figures", Cookie=session[1][:-1])[0] != 200


def _raw(server: Server, method: str, path: str, body: str, **headers: str) -> str:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {server.host}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        connection.sendall("\r\n".join([*lines, "", body]).encode())
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    return answer.decode()


@pytest.mark.real
def test_a_second_signal_ends_at_once(run_path: Path, tmp_path: Path) -> None:
    server = start(run_path, tmp_path / "store.db", "--workers", 2)
    workers = server.workers()
    with socket.create_connection((server.host, server.port), timeout=5) as slow:
        headers = ["POST /v1/rank HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", "Content-Length: 100"]
        slow.sendall("\r\n".join([*headers, "", "{"]).encode())
        time.sleep(0.5)  # until a worker reads it
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1.0)
        assert server.process.poll() is None, "it did not wait for the running request"
        began = time.monotonic()
        assert server.stop(signal.SIGTERM) == 130
        assert time.monotonic() - began < 5
    assert not any(map(is_running, workers))


@pytest.mark.real
def test_workers_stop_without_their_supervisor(run_path: Path, tmp_path: Path) -> None:
    server = start(run_path, tmp_path / "store.db", "--workers", 2)
    workers = server.workers()
    server.process.kill()
    wait_until(lambda: not any(map(is_running, workers)))
    server.stop(signal.SIGKILL)
    assert not (tmp_path / "store.db-wal").exists(), "they did not close the store"


@pytest.mark.real
def test_a_bundle_that_cannot_be_served_by_workers(run_path: Path, tmp_path: Path) -> None:
    shutil.copytree(run_path / "bundle", tmp_path / "bundle")
    weights = tmp_path / "bundle" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    store = f"sqlite:///{tmp_path}/store.db"
    process = start_command("serve", tmp_path / "bundle", "--store", store, "--port", 0, "--workers", 2)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "model.safetensors" in error.splitlines()[-1]
    assert "Traceback" not in error


def test_a_folder_is_removed_after_use_and_after_a_kill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with shared_folder() as folder:
        assert folder.metrics.is_dir()
        assert folder.path.stat().st_mode & 0o077 == 0
        remove_left_behind(tmp_path)
        assert folder.metrics.is_dir(), "it is in use"
    assert not list(tmp_path.iterdir())
    left = tmp_path / "drpn-workers-left"
    (left / "metrics").mkdir(parents=True)
    (left / "lock").touch()
    other = tmp_path / "something-else"
    other.mkdir()
    with shared_folder() as folder:
        assert sorted(tmp_path.iterdir()) == sorted([folder.path, other])


def test_errors_are_the_same_after_they_were_sent() -> None:
    for error in (RunError("the bundle is broken"), SettingsError("wrong", hint="pass --port")):
        sent = as_error(as_facts(error))
        assert (type(sent), str(sent), sent.hint) == (type(error), str(error), error.hint)  # type: ignore[attr-defined]
    assert isinstance(as_error(as_facts(OverloadError("busy", retry_after=1.0))), OverloadError)
    unexpected = as_error(as_facts(ValueError("user anna")))
    assert isinstance(unexpected, RuntimeError)
    assert "anna" not in str(unexpected)

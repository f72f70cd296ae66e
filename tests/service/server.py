"""A service in a process of its own: `drpn serve`, started, called and stopped by tests."""

import http.client
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from terminal import start_command
from waiting import wait_until

_ADDRESS = re.compile(r"serving at http://([\d.]+):(\d+)")
ONE, FOUR = (), ("--workers", 4)
"""Options of a service."""


class Server:
    """A running process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        """Everything that it has written to standard error so far."""
        self._clients: list[Client] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._ready.wait(300)
        self.host, self.port = next(
            ((match[1], int(match[2])) for line in self.lines if (match := _ADDRESS.search(line))), ("", 0)
        )
        assert self.port, "".join(self.lines)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if _ADDRESS.search(line):
                self._ready.set()
        self._ready.set()

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def call(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON document of an answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        try:
            return exchange(connection, method, path, body, **headers)
        finally:
            connection.close()

    def workers(self) -> list[int]:
        """The processes of the workers of a service that has several, oldest first."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return sorted(map(int, path.read_text().split()))

    def clients(self) -> "list[Client]":
        """A client of each worker, until the service stops. While it connects, the other workers stand still."""
        every, clients = self.workers(), list[Client]()
        for worker in every:
            others = [other for other in every if other != worker]
            for other in others:
                os.kill(other, signal.SIGSTOP)
            try:
                clients.append(Client(self, worker))
            finally:
                for other in others:
                    os.kill(other, signal.SIGCONT)
        self._clients += clients
        return clients

    def wait_for_workers(self, count: int) -> None:
        """Wait until this many workers answer."""
        wait_until(
            lambda: figure(self.call("GET", "/metrics")[1], "drpn_workers") == count,
            pause=0.1,
            log=lambda: "".join(self.lines),
        )

    def kill(self) -> None:
        """Kill the process and all its workers at once."""
        workers = self.workers()
        self.process.kill()
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        assert self.stop(signal.SIGKILL) == -signal.SIGKILL

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop the process by a signal; returns its exit code."""
        for client in self._clients:
            client.close()
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


class Client:
    """A connection that stays open, to one worker."""

    def __init__(self, server: Server, worker: int) -> None:
        self.worker = worker
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        assert self.call("GET", "/healthz")[0] == 200

    def call(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """The status and the JSON document of an answer."""
        return exchange(self._connection, method, path, body, **headers)

    def close(self) -> None:
        self._connection.close()


def figure(metrics: str, name: str) -> float:
    """The sum of the series of a name."""
    return sum(float(line.split()[-1]) for line in metrics.splitlines() if re.match(rf"{name}[ {{]", line))


def exchange(
    connection: http.client.HTTPConnection, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, Any]:
    """Send a request over an open connection."""
    text = None if body is None else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, text, {"Content-Type": "application/json", **named})
    answer = connection.getresponse()
    content = answer.read()
    is_json = answer.headers.get("Content-Type") == "application/json"
    return answer.status, json.loads(content) if is_json else content.decode()


@contextmanager
def serving(run: Path, store: Path | str, *options: object) -> Iterator[Server]:
    """Run `drpn serve` at a free port while the block runs."""
    server = start(run, store, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def start(run: Path, store: Path | str, *options: object) -> Server:
    """Start `drpn serve` at a free port; the store is a file or has a URL."""
    url = f"sqlite:///{store}" if isinstance(store, Path) else store
    return Server(start_command("serve", run, "--store", url, "--port", 0, *options))

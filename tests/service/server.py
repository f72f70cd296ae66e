"""A service in a process of its own: `drpn serve`, started, called and stopped by tests."""

import http.client
import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from terminal import start_command

_ADDRESS = re.compile(r"serving at http://([\d.]+):(\d+)")


class Server:
    """A running process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        """Everything that it has written to standard error so far."""
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._ready.wait(120)
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
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            return exchange(connection, method, path, body, **headers)
        finally:
            connection.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop the process by a signal; returns its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        return code


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
            server.stop(signal.SIGKILL)


def start(run: Path, store: Path | str, *options: object) -> Server:
    """Start `drpn serve` at a free port; the store is a file or has a URL."""
    url = f"sqlite:///{store}" if isinstance(store, Path) else store
    return Server(start_command("serve", run, "--store", url, "--port", 0, *options))

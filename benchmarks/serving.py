"""Load a running service: `python benchmarks/serving.py`.

Starts `drpn serve` at loopback and calls it for thousands of users; one request in five is feedback, so caches earn
their hits. Three phases: a fixed number of requests per second, as many as possible over a few connections, and
rankings of the whole live catalogue. Each prints requests per second, p50, p95, p99 and errors. At a fixed rate, the
time of a request starts when it is due, so that a slow answer also delays those behind it.

On a machine with several cores, the service gets one core and the load the others.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.bundle.files import Bundle, data_shape, write_bundle
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.prepare import prepare
from reporting import OUT, leave, table

CANDIDATES, SHOWN, FEEDBACK = 100, 10, 0.2
ADDRESS = re.compile(r"serving at http://[\d.]+:(\d+)")


@dataclass
class Phase:
    """Times of the requests of one phase."""

    name: str
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {"rank": [], "feedback": []})
    errors: int = 0
    fallbacks: int = 0
    seconds: float = 0.0

    def row(self, kind: str) -> dict[str, Any]:
        """The figures of one kind of request."""
        times = self.milliseconds[kind]
        p50, p95, p99 = np.percentile(times, [50, 95, 99]) if times else (0.0, 0.0, 0.0)
        return {
            "phase": self.name,
            "requests": kind,
            "per_s": len(times) / self.seconds,
            "p50_ms": float(p50),
            "p95_ms": float(p95),
            "p99_ms": float(p99),
            "errors": self.errors,
            "fallbacks": self.fallbacks,
        }


class Connection:
    """One kept connection; answers are read by their length."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Status and content of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        text = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        content = await reader.readexactly(int(length[1])) if length else b""
        return int(answer[9:12]), content

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Load:
    """Random requests: rankings of some candidates, or of all live stories, and page views."""

    def __init__(self, port: int, users: list[str], stories: list[str], *, seed: int = 0) -> None:
        self._port, self._users, self._stories = port, users, stories
        self._chance, self._number = random.Random(seed), 0

    def request(self, *, whole: bool = False) -> tuple[str, dict[str, Any]]:
        """Path and body of the next request."""
        user = self._chance.choice(self._users)
        if not whole and self._chance.random() < FEEDBACK:
            self._number += 1
            names = self._chance.sample(self._stories, SHOWN)
            shown: list[dict[str, str | bool]] = [{"news_id": name} for name in names]
            shown[0]["clicked"] = self._chance.random() < 0.1
            return "/v1/impressions", {"impression_id": f"b{self._number}", "user_id": user, "shown": shown}
        body: dict[str, Any] = {"user_id": user, "count": SHOWN}
        if not whole:
            body["candidates"] = self._chance.sample(self._stories, min(CANDIDATES, len(self._stories)))
        return "/v1/rank", body

    async def one(self, connection: Connection, phase: Phase, due: float, *, whole: bool = False) -> None:
        """Send one request and note its time since it was due."""
        path, body = self.request(whole=whole)
        try:
            status, content = await connection.send(path, body)
        except (OSError, asyncio.IncompleteReadError):
            phase.errors += 1
            return
        phase.milliseconds["rank" if path == "/v1/rank" else "feedback"].append(1000 * (time.perf_counter() - due))
        phase.errors += status != 200
        phase.fallbacks += b'"fallback":true' in content

    async def encode(self) -> None:
        """Ask for every story once: a story of the bundle is encoded when it is first asked for."""
        connection = Connection(self._port)
        for first in range(0, len(self._stories), CANDIDATES):
            await connection.send("/v1/rank", {"candidates": self._stories[first : first + CANDIDATES]})
        connection.close()

    async def paced(self, rate: float, seconds: float) -> Phase:
        """A fixed number of requests per second, whatever the answers take."""
        phase, free, tasks = Phase(f"{rate:g} requests/s"), list[Connection](), set[asyncio.Task[None]]()
        start = time.perf_counter()

        async def call(due: float) -> None:
            connection = free.pop() if free else Connection(self._port)
            await self.one(connection, phase, due)
            free.append(connection)

        for number in range(int(rate * seconds)):
            due = start + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.add(asyncio.create_task(call(due)))
        await asyncio.gather(*tasks)
        phase.seconds = time.perf_counter() - start
        for connection in free:
            connection.close()
        return phase

    async def saturated(self, name: str, callers: int, seconds: float, *, whole: bool = False) -> Phase:
        """Callers that each send the next request as soon as they have an answer."""
        phase, start = Phase(name), time.perf_counter()

        async def call() -> None:
            connection = Connection(self._port)
            while (now := time.perf_counter()) < start + seconds:
                await self.one(connection, phase, now, whole=whole)
            connection.close()

        await asyncio.gather(*(call() for _ in range(callers)))
        phase.seconds = time.perf_counter() - start
        return phase


@contextmanager
def serving(bundle: Path, folder: Path, cores: set[int]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The service while the block runs: its process and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "drpn.cli", "serve", bundle, "--store", f"sqlite:///{folder}/store.db", "--port", "0"],
        env=os.environ | {"OMP_NUM_THREADS": str(len(cores))},
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("w"),
        text=True,
    )
    os.sched_setaffinity(process.pid, cores)
    try:
        yield process, wait_for(lambda: _port(folder / "log", process))
    finally:
        process.terminate()
        process.wait()


def _port(log: Path, process: subprocess.Popen[str]) -> int | None:
    text = log.read_text()
    if process.poll() is not None:
        raise SystemExit(f"the service did not start:\n{text}")
    match = ADDRESS.search(text)
    return int(match[1]) if match else None


def wait_for(value: Callable[[], int | None], seconds: float = 600.0) -> int:
    """The first value that is not None."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (result := value()) is not None:
            return result
        time.sleep(0.1)
    raise SystemExit("the service did not start in time")


def make_bundle(folder: Path, model: str, users: int, news: int) -> Path:
    """A bundle of a simulated newsroom with random weights: they do not change the time that a ranking takes."""
    simulate(folder / "logs", SimulationSettings(users=users, news=news))
    dataset = prepare(folder / "logs", folder / "data")
    torch.manual_seed(0)
    settings = CATALOGUE[model].settings
    network = CATALOGUE[model].model(settings, data_shape(dataset)).eval()
    write_bundle(folder / "bundle", network, name=model, settings=settings, dataset=dataset, facts={})
    return folder / "bundle"


def memory(process: subprocess.Popen[str]) -> float:
    """Megabytes that the service uses now."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help="by default a simulated newsroom and a model of the paper's sizes")
    parser.add_argument("--model", default="drpn", help="model of the simulated newsroom")
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--news", type=int, default=5_000)
    parser.add_argument("--rate", type=float, default=50.0, help="requests per second of the first phase")
    parser.add_argument("--callers", type=int, default=8, help="connections of the second phase")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each phase")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    every = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = options.bundle or make_bundle(folder, options.model, options.users, options.news)
        data = Bundle.open(bundle).data
        users, stories = list(data.user_ids)[1:], list(data.news_ids)[1:]
        users += [f"new-{number}" for number in range(max(0, options.users - len(users)))]
        with serving(bundle, folder, {every[0]}) as (process, port):
            if len(every) > 1:
                os.sched_setaffinity(0, every[1:])
            load = Load(port, users, stories)
            asyncio.run(load.encode())
            warm = asyncio.run(load.saturated("warm-up", options.callers, min(5.0, options.seconds)))
            started = memory(process)
            phases = [
                asyncio.run(load.paced(options.rate, options.seconds)),
                asyncio.run(load.saturated(f"{options.callers} callers", options.callers, options.seconds)),
                asyncio.run(load.saturated("whole catalogue", 1, min(10.0, options.seconds), whole=True)),
            ]
            used = memory(process)
    rows = [phase.row(kind) for phase in phases for kind in ("rank", "feedback") if phase.milliseconds[kind]]
    table(
        ["phase", "requests", "per s", "p50 ms", "p95 ms", "p99 ms", "errors", "fallbacks"],
        [list(row.values()) for row in rows],
    )
    print(f"\n{len(users):,} users, {len(stories):,} stories, memory {started:,.0f} MB, at the end {used:,.0f} MB")
    facts = {
        "users": len(users),
        "stories": len(stories),
        "feedback": FEEDBACK,
        "warm_up_errors": warm.errors,
        "phases": rows,
        "megabytes": [started, used],
        "cores": {"service": 1, "load": max(1, len(every) - 1)},
    }
    leave("serving", facts, [], options.out)


if __name__ == "__main__":
    main()

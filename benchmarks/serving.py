"""Load a running service: `python benchmarks/serving.py --page docs/results/bench/serving.md`.

Starts `drpn serve` at loopback with a bundle of 100,000 users and 20,000 live stories, and calls it for 10,000 of the
users; one request in five is feedback, so that caches earn their hits. Every user comes once before the measurements.
Three phases: a fixed number of requests per second, as many as possible over a few connections, and rankings of the
whole live catalogue. At a fixed rate, the time of a request starts when it is due, so that a slow answer also delays
those behind it.

The service gets one core, and two for the whole catalogue; the load gets the others. Processor time is that of the
service, for feedback and rankings together, divided by the rankings. It depends little on what else the machine does.

    python benchmarks/serving.py --workers 1 2 4 --store postgresql:///empty --page docs/results/bench/workers.md

compares numbers of workers, which share all cores with the load. `--store` names an empty database, whose tables are
removed after each measurement. Processor time is that of all processes of the service, without the database's.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from drpn.bundle.files import Bundle
from random_bundle import bundle_in
from reporting import OUT, leave, markdown, table

CANDIDATES, SHOWN, FEEDBACK, CLICKED = 100, 10, 0.2, 0.1
ADDRESS = re.compile(r"serving at http://[\d.]+:(\d+)")
HEADS = {
    "phase": "phase",
    "requests": "requests",
    "per_s": "per s",
    "p50_ms": "p50 ms",
    "p95_ms": "p95 ms",
    "p99_ms": "p99 ms",
    "errors": "errors",
    "fallbacks": "fallbacks",
    "processor_ms": "processor ms per ranking",
}


@dataclass
class Phase:
    """Times of the requests of one phase."""

    name: str
    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {"rank": [], "feedback": []})
    errors: dict[str, int] = field(default_factory=lambda: {"rank": 0, "feedback": 0})
    fallbacks: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    """Seconds of processor time that the service used."""

    def rows(self) -> list[dict[str, Any]]:
        """The figures of each kind of request."""
        return [self._row(kind) for kind, times in self.milliseconds.items() if times]

    def _row(self, kind: str) -> dict[str, Any]:
        times = self.milliseconds[kind]
        p50, p95, p99 = np.percentile(times, [50, 95, 99]).tolist()
        return {
            "phase": self.name,
            "requests": kind,
            "per_s": len(times) / self.seconds,
            "p50_ms": p50,
            "p95_ms": p95,
            "p99_ms": p99,
            "errors": self.errors[kind],
            "fallbacks": self.fallbacks if kind == "rank" else None,
            "processor_ms": 1000 * self.processor / len(times) if kind == "rank" else None,
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

    def __init__(self, service: "Service", users: list[str], stories: list[str], *, seed: int = 0) -> None:
        self._service, self._users, self._stories = service, users, stories
        self._chance, self._number = random.Random(seed), 0

    def request(self, *, whole: bool = False) -> tuple[str, dict[str, Any]]:
        """Path and body of the next request."""
        user = self._chance.choice(self._users)
        if not whole and self._chance.random() < FEEDBACK:
            self._number += 1
            shown: list[dict[str, Any]] = [{"news_id": name} for name in self._chance.sample(self._stories, SHOWN)]
            shown[0]["clicked"] = self._chance.random() < CLICKED
            return "/v1/impressions", {"impression_id": f"b{self._number}", "user_id": user, "shown": shown}
        body: dict[str, Any] = {"user_id": user, "count": SHOWN}
        if not whole:
            body["candidates"] = self._chance.sample(self._stories, min(CANDIDATES, len(self._stories)))
        return "/v1/rank", body

    async def one(self, connection: Connection, phase: Phase, due: float, *, whole: bool = False) -> None:
        """Send one request and note its time since it was due."""
        path, body = self.request(whole=whole)
        kind = "rank" if path == "/v1/rank" else "feedback"
        try:
            status, content = await connection.send(path, body)
        except (OSError, asyncio.IncompleteReadError):
            phase.errors[kind] += 1
            return
        phase.milliseconds[kind].append(1000 * (time.perf_counter() - due))
        phase.errors[kind] += status != 200
        phase.fallbacks += b'"fallback":true' in content

    def everybody(self, callers: int, times: int = 1) -> None:
        """Rank for every user and every story, so that caches are as in a service that runs for long."""

        async def call(users: list[str]) -> None:
            connection = Connection(self._service.port)
            for user in users:
                some = self._chance.sample(self._stories, min(CANDIDATES, len(self._stories)))
                await connection.send("/v1/rank", {"user_id": user, "candidates": some})
            connection.close()

        async def calls() -> None:
            for _ in range(times):
                await asyncio.gather(*(call(self._users[first::callers]) for first in range(callers)))

        asyncio.run(calls())

    def paced(self, rate: float, seconds: float) -> Phase:
        """A fixed number of requests per second, whatever the answers take."""
        phase, free, tasks = Phase(f"{rate:g} requests/s"), list[Connection](), set[asyncio.Task[None]]()

        async def call(due: float) -> None:
            connection = free.pop() if free else Connection(self._service.port)
            await self.one(connection, phase, due)
            free.append(connection)

        async def calls() -> None:
            start = time.perf_counter()
            for number in range(int(rate * seconds)):
                due = start + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.add(asyncio.create_task(call(due)))
            await asyncio.gather(*tasks)
            for connection in free:
                connection.close()

        return self._measured(phase, calls)

    def saturated(self, name: str, callers: int, seconds: float, *, whole: bool = False) -> Phase:
        """Callers that each send the next request as soon as they have an answer."""
        phase, end = Phase(name), time.perf_counter() + seconds

        async def call() -> None:
            connection = Connection(self._service.port)
            while (now := time.perf_counter()) < end:
                await self.one(connection, phase, now, whole=whole)
            connection.close()

        async def calls() -> None:
            await asyncio.gather(*(call() for _ in range(callers)))

        return self._measured(phase, calls)

    def _measured(self, phase: Phase, calls: Callable[[], Any]) -> Phase:
        processor, start = self._service.processor(), time.perf_counter()
        asyncio.run(calls())
        phase.seconds = time.perf_counter() - start
        phase.processor = self._service.processor() - processor
        return phase


class Service:
    """A running `drpn serve`."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    @property
    def workers(self) -> list[int]:
        """The processes of the workers; empty for a service that is one process."""
        return [int(child) for child in (_task(self.process.pid) / "children").read_text().split()]

    def processor(self) -> float:
        """Seconds of processor time of all processes so far."""
        seconds = 0.0
        for process in (self.process.pid, *self.workers):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return seconds

    def proportional(self) -> list[float]:
        """Megabytes of each process, of shared pages its part (PSS): the supervisor first, then the workers."""
        return [
            int(re.search(r"^Pss: +(\d+)", Path(f"/proc/{process}/smaps_rollup").read_text(), re.MULTILINE)[1]) / 1024
            for process in (self.process.pid, *self.workers)
        ]

    def megabytes(self, kind: str) -> float:
        """Memory: VmRSS is that of now, VmHWM the largest so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1024

    def pin(self, cores: set[int]) -> None:
        """Run all threads on these cores."""
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)


def _task(process: int) -> Path:
    return Path(f"/proc/{process}/task/{process}")


@contextmanager
def serving(
    bundle: Path, folder: Path, cores: set[int], store: str | None = None, workers: int = 1
) -> Iterator[Service]:
    """The service while the block runs."""
    url = store or f"sqlite:///{folder}/store.db"
    process = subprocess.Popen(
        [sys.executable, "-m", "drpn.cli", "serve", bundle, "--store", url, "--port", "0", "--workers", str(workers)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("w"),
        text=True,
    )
    try:
        service = Service(process, wait_for(lambda: _port(folder / "log", process)))
        service.pin(cores)
        yield service
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


def measure(bundle: Path, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one bundle."""
    every = sorted(os.sched_getaffinity(0))
    data = Bundle.open(bundle).data
    known, stories = list(data.user_ids)[1:], list(data.news_ids)[1:]
    visitors = known[: options.visitors]
    visitors += [f"new-{number}" for number in range(options.visitors - len(visitors))]
    began = time.perf_counter()
    with serving(bundle, scratch, {every[0]}) as service:
        started = time.perf_counter() - began
        os.sched_setaffinity(0, every[1:] or every)
        load = Load(service, visitors, stories)
        load.everybody(options.callers)
        phases = [
            load.paced(options.rate, options.seconds),
            load.saturated(f"{options.callers} callers", options.callers, options.seconds),
        ]
        service.pin(set(every[:2]))
        phases.append(load.saturated("whole catalogue", 1, min(10.0, options.seconds), whole=True))
        memory = {"now": round(service.megabytes("VmRSS")), "peak": round(service.megabytes("VmHWM"))}
    os.sched_setaffinity(0, every)
    return {
        "users": len(known),
        "stories": len(stories),
        "visitors": len(visitors),
        "started_s": round(started, 1),
        "phases": [row for phase in phases for row in phase.rows()],
        "megabytes": memory,
    }


def measure_workers(bundle: Path, scratch: Path, options: argparse.Namespace, workers: int) -> dict[str, Any]:
    """The figures of one number of workers; nothing is pinned."""
    data = Bundle.open(bundle).data
    known, stories = list(data.user_ids)[1:], list(data.news_ids)[1:]
    with serving(bundle, scratch, set(os.sched_getaffinity(0)), options.store, workers) as service:
        load = Load(service, known[: options.visitors], stories)
        # a connection may lead to any worker: after three times their number, 95 % of users have been at each of them
        callers = workers * options.callers
        load.everybody(callers, times=1 if workers == 1 else 3 * workers)
        phases = [
            load.paced(options.rate, options.seconds),
            load.saturated(f"{options.callers} callers for each worker", callers, options.seconds),
        ]
        megabytes = [round(one) for one in service.proportional()]
    if options.store:
        empty(options.store)
    return {
        "users": len(known),
        "stories": len(stories),
        "visitors": min(options.visitors, len(known)),
        "phases": [row for phase in phases for row in phase.rows()],
        "megabytes": megabytes,
    }


def empty(url: str, *, only_check: bool = False) -> None:
    """Remove the tables of a service from a database, or refuse one that has some."""
    import psycopg

    with psycopg.connect(url) as connection:
        if not only_check:
            connection.execute("DROP SCHEMA drpn CASCADE")
        elif connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'drpn'").fetchone():
            raise SystemExit("the database holds a store; name an empty one")


def compare_workers(options: argparse.Namespace) -> None:
    """Measure some numbers of workers, print, write."""
    if options.store:
        empty(options.store, only_check=True)
    results: dict[str, Any] = {}
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as name:
            bundle = options.bundle or bundle_in(
                options.folder or Path(name), options.users, options.news, options.models[0]
            )
            results[str(workers)] = measure_workers(bundle, Path(name), options, workers)
    rows = [[int(workers), *row.values()] for workers, facts in results.items() for row in facts["phases"]]
    heads = ["workers", *HEADS.values()]
    notes = []
    for workers, facts in results.items():
        first, *rest = facts["megabytes"]
        parts = f", {first:,} for the supervisor and {', '.join(f'{one:,}' for one in rest)} for the workers"
        name = f"{workers} workers" if rest else "One worker"
        notes.append(f"{name}: {sum(facts['megabytes']):,} MB of memory{parts if rest else ''}.")
    table(heads, rows)
    print("", *notes, sep="\n")
    leave("workers", {"feedback": FEEDBACK, "candidates": CANDIDATES, "workers": results}, [], options.out)
    if options.page:
        any_one = next(iter(results.values()))
        text = [
            f"Rankings of {CANDIDATES} random candidates by {options.models[0]}, with {any_one['users']:,} users and "
            f"{any_one['stories']:,} live stories; requests for {any_one['visitors']:,} users, {FEEDBACK:.0%} of them "
            f"feedback. The store is in {'PostgreSQL' if options.store else 'SQLite'}. Workers, load"
            f"{' and database' if options.store else ''} share all cores. Processor time is that of all processes of "
            "the service for feedback and rankings together. Memory is the proportional set size at the end: a page "
            "that several processes share counts once.",
            " ".join(notes),
        ]
        markdown(options.page, "Workers of one service", heads, rows, text, "serving")


def sentence(model: str, facts: dict[str, Any]) -> str:
    """The measurements in words."""
    return (
        f"{model}: {facts['users']:,} users and {facts['stories']:,} live stories, requests for "
        f"{facts['visitors']:,} users; {facts['megabytes']['peak']:,} MB of memory at most, "
        f"{facts['megabytes']['now']:,} MB at the end; started in {facts['started_s']:g} s."
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, help="by default one of random weights for each model")
    parser.add_argument("--models", nargs="+", default=["drpn"], help="models of the bundles, at the paper's sizes")
    parser.add_argument("--users", type=int, default=100_000, help="that the bundle knows")
    parser.add_argument("--visitors", type=int, default=10_000, help="users that requests come from")
    parser.add_argument("--news", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=50.0, help="requests per second of the first phase")
    parser.add_argument("--callers", type=int, default=8, help="connections of the second phase, for each worker")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each phase")
    parser.add_argument("--folder", type=Path, help="keep bundles here, and use them again")
    parser.add_argument("--workers", type=int, nargs="+", help="compare these numbers of workers instead")
    parser.add_argument("--store", help="URL of an empty database; with --workers, by default a file")
    parser.add_argument("--page", type=Path, help="write the table as Markdown, too")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.store and not options.workers:
        parser.error("--store needs --workers")
    if options.workers:
        compare_workers(options)
        return
    results: dict[str, Any] = {}
    for model in ["given"] if options.bundle else options.models:
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            bundle = options.bundle or bundle_in(options.folder or scratch, options.users, options.news, model)
            results[model] = measure(bundle, scratch, options)
    rows = [[model, *row.values()] for model, facts in results.items() for row in facts["phases"]]
    heads, notes = ["model", *HEADS.values()], [sentence(*pair) for pair in results.items()]
    table(heads, rows)
    print("", *notes, sep="\n")
    leave("serving", {"feedback": FEEDBACK, "candidates": CANDIDATES, "models": results}, [], options.out)
    if options.page:
        text = [
            f"Rankings of {CANDIDATES} random candidates, or of all live stories; {FEEDBACK:.0%} of the other requests "
            "are feedback. The service has one core, and two for the whole catalogue. Processor time is that of the "
            "service for feedback and rankings together.",
            *notes,
        ]
        markdown(options.page, "Speed of the service", heads, rows, text, "serving")


if __name__ == "__main__":
    main()

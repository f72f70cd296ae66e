"""Starts worker processes behind one listening socket, and keeps them running.

uvicorn has a supervisor of its own, which starts and restarts processes, but they cannot agree on anything. This one
also loads a bundle in all workers or in none, keeps what they share (tables of stories, metrics) in a folder, and ends
at once at a second signal. It has one thread, reads no requests, and opens neither bundles nor the store.

Workers are new programs, never copies of this process: a copy of a process whose libraries have started threads may
wait for ever. All of them accept connections at the same socket, so a worker that ends leaves those that wait to the
others. If the supervisor dies, the workers notice it and stop in order.
"""

import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from prometheus_client.multiprocess import mark_process_dead

from drpn.bundle.shared_tables import remove_others
from drpn.errors import RunError
from drpn.progress import Progress
from drpn.service.workers.channel import Channel, Message, as_error
from drpn.service.workers.folder import SharedFolder

_STOP_SECONDS = 36.0
"""How long workers may take to stop; their own limit is shorter."""
_LONGEST_PAUSE = 10.0
_THREADS = "OMP_NUM_THREADS"


@dataclass
class _Worker:
    """One process; `number` is that of its place, which a later process may take."""

    number: int
    process: subprocess.Popen[bytes]
    channel: Channel
    bundles: int
    """How often bundles had been replaced when it was started."""
    loaded: bool = False
    told_to_go: bool = False
    serving: bool = False
    failure: Message | None = None


@dataclass
class _Reload:
    """A bundle that all workers are to load."""

    asker: _Worker
    number: int
    path: str
    variant: str | None
    step: str = "open"
    waiting: list[_Worker] = field(default_factory=list)
    error: Message | None = None


class Supervisor:
    """Runs workers until a signal comes."""

    def __init__(
        self, workers: int, bound: socket.socket, job: Message, folder: SharedFolder, progress: Progress
    ) -> None:
        """`job` is what a worker needs to know; see `worker.main`."""
        self._count, self._bound, self._folder, self._progress = workers, bound, folder, progress
        self._job = job | {"tables": str(folder.path), "metrics": str(folder.metrics)}
        self._job["http"] |= {"session_secret": secrets.token_hex(32)}
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._environment = {_THREADS: str(max(1, cores // workers))} | os.environ
        self._environment["PROMETHEUS_MULTIPROC_DIR"] = str(folder.metrics)
        self._workers: dict[int, _Worker] = {}
        self._due: dict[int, float] = {}
        """When to start a worker for a place that has none."""
        self._failures = [0] * workers
        self._announced = False
        self._signals = 0
        self._reloads: deque[_Reload] = deque()
        self._replaced = 0
        self._selector = selectors.DefaultSelector()

    def run(self, started: Callable[[], None]) -> bool:
        """Run until a signal comes and all workers have stopped; `started` is called when all of them answer.

        Returns False if a second signal ended them at once. Raises the error of a worker that cannot start.
        """
        with ExitStack() as stack:
            stack.callback(self._kill)
            stack.enter_context(self._watch_signals())
            with self._progress.stage("Load the bundles, seed the store and replay its events"):
                self._start(0)  # alone: the others find a store that is seeded, and tables that are made
                self._turn_until(lambda: self._workers[0].serving)
            for number in range(1, self._count):
                self._start(number)
            self._turn_until(lambda: all(worker.serving for worker in self._workers.values()))
            if not self._signals:
                self._announced = True
                started()
            self._turn_until(lambda: False)
            return self._stop()

    # processes

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        inherited = (self._bound.fileno(), theirs.fileno())
        process = subprocess.Popen(
            [sys.executable, "-m", "drpn.service.workers.worker", *map(str, inherited)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            pass_fds=(*inherited, self._folder.lock),
            process_group=0,  # Ctrl-C reaches the supervisor alone
        )
        theirs.close()
        worker = _Worker(number, process, Channel(Connection(ours.detach())), self._replaced)
        self._workers[number] = worker
        self._selector.register(worker.channel, selectors.EVENT_READ, worker)
        worker.channel.send("job", **self._job)

    def _turn_until(self, done: Callable[[], bool]) -> None:
        while not self._signals and not done():
            self._turn()

    def _turn(self) -> None:
        """Wait for something to happen, and do what is to be done then."""
        now = time.monotonic()
        soonest = min(self._due.values(), default=now + 1.0)
        for key, _ in self._selector.select(max(0.0, min(soonest - now, 1.0))):
            if isinstance(key.data, _Worker):
                self._hear(key.data)
            else:
                key.data()
        for worker in list(self._workers.values()):
            if worker.process.poll() is not None:
                self._bury(worker)
        if not self._signals:
            for number in [number for number, due in self._due.items() if due <= time.monotonic()]:
                del self._due[number]
                self._start(number)

    def _hear(self, worker: _Worker) -> None:
        """Take the message of a worker."""
        message = worker.channel.receive()
        if message is None:  # it ends
            self._forget_channel(worker)
        elif message["kind"] == "loaded":
            worker.loaded = True
            self._let_go()
        elif message["kind"] == "serving":
            worker.serving = True
            self._failures[worker.number] = 0
        elif message["kind"] == "failed":
            worker.failure = message
        elif message["kind"] == "reload":
            self._reloads.append(_Reload(worker, message["number"], message["path"], message["variant"]))
            if len(self._reloads) == 1:
                self._begin_reload()
        elif self._reloads and worker in self._reloads[0].waiting:
            self._step_done(worker, message["error"])

    def _bury(self, worker: _Worker) -> None:
        """Clean up after a process that ended, and have it replaced."""
        while worker.channel in self._selector.get_map() and worker.channel.waiting():
            self._hear(worker)  # its last words
        self._forget_channel(worker)
        worker.channel.close()
        del self._workers[worker.number]
        mark_process_dead(worker.process.pid, str(self._folder.metrics))  # type: ignore[no-untyped-call]
        if self._signals:
            return
        if not self._announced:
            raise self._why(worker)
        pause = 0.0
        if not worker.serving:
            self._failures[worker.number] += 1
            pause = min(_LONGEST_PAUSE, 0.25 * 2 ** self._failures[worker.number])
        self._due[worker.number] = time.monotonic() + pause
        self._progress.note(f"{self._why(worker)}; another one is started")
        if self._reloads and worker in self._reloads[0].waiting:
            self._step_done(worker, None)  # its successor has the bundles of then

    def _why(self, worker: _Worker) -> Exception:
        """The error that says why a worker ended."""
        if worker.failure is not None:
            return as_error(worker.failure)
        code = worker.process.returncode
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        return RunError(f"worker {worker.number + 1} (process {worker.process.pid}) ended {how}")

    def _forget_channel(self, worker: _Worker) -> None:
        if worker.channel in self._selector.get_map():
            self._selector.unregister(worker.channel)

    # bundles

    def _let_go(self) -> None:
        """Let workers answer that have loaded, unless bundles are being replaced; those with older ones start again."""
        if self._reloads:
            return
        for worker in self._workers.values():
            if worker.loaded and not worker.told_to_go:
                if worker.bundles == self._replaced:
                    worker.told_to_go = True
                    worker.channel.send("go")
                else:
                    worker.process.kill()

    def _begin_reload(self) -> None:
        reload = self._reloads[0]
        self._begin_step(reload, "open", path=reload.path, variant=reload.variant)

    def _begin_step(self, reload: _Reload, step: str, **facts: str | None) -> None:
        reload.step = step
        reload.waiting = [worker for worker in self._workers.values() if worker.told_to_go]
        for worker in reload.waiting:
            worker.channel.send(step, **facts)
        if not reload.waiting:
            self._end_step(reload)

    def _step_done(self, worker: _Worker, error: Message | None) -> None:
        reload = self._reloads[0]
        reload.waiting.remove(worker)
        if reload.step == "open":
            reload.error = reload.error or error
        if not reload.waiting:
            self._end_step(reload)

    def _end_step(self, reload: _Reload) -> None:
        if reload.step == "open":
            if reload.error is None:
                self._replace(reload)  # from here on, a worker that dies is replaced by one with the new bundle
            self._begin_step(reload, "drop" if reload.error else "swap")
            return
        self._reloads.popleft()
        remove_others(self._folder.path, [Path(path) for _, path, _ in self._job["variants"]])
        reload.asker.channel.send("answer", number=reload.number, error=reload.error)
        if self._reloads:
            self._begin_reload()
        else:
            self._let_go()

    def _replace(self, reload: _Reload) -> None:
        variants = self._job["variants"]
        name = variants[0][0] if reload.variant is None else reload.variant
        self._job["variants"] = [[one, reload.path if one == name else path, share] for one, path, share in variants]
        self._replaced += 1

    # the end

    def _stop(self) -> bool:
        """Let workers finish their requests; returns False if a second signal or the clock ended them."""
        first, end = self._signals, time.monotonic() + _STOP_SECONDS
        for worker in self._workers.values():
            worker.process.terminate()
        while self._workers and self._signals == first and time.monotonic() < end:
            self._turn()
        return not self._workers

    def _kill(self) -> None:
        """End all processes that are left."""
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.wait()

    @contextmanager
    def _watch_signals(self) -> Iterator[None]:
        """Count SIGINT and SIGTERM; they and ended processes end a wait."""

        def count(*_: object) -> None:
            self._signals += 1

        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        handlers = {signal.SIGINT: count, signal.SIGTERM: count, signal.SIGCHLD: lambda *_: None}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ, lambda: os.read(reader, 4096))
        try:
            yield
        finally:
            self._selector.close()
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(reader)
            os.close(writer)

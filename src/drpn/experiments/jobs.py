"""Run the tasks of a comparison, one at a time or several in parallel processes, under one progress view."""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

import torch

from drpn.errors import DrpnError, TrainingError
from drpn.experiments.results import Task
from drpn.experiments.run_task import free_gpu_memory, run_task
from drpn.progress import Advance, Progress

_REPORT_SECONDS = 0.2
"""Time between two progress reports of a worker."""
_STOP_SECONDS = 120.0
"""Time that a worker gets to finish its step and write its checkpoint when the comparison is stopped."""

_Message = tuple[Literal["advance", "note", "done", "failed", "broken", "died"], Any]
"""A report of a worker: its kind, and units, text or None."""


def run_tasks(tasks: Sequence[Task], jobs: int, samples: int, progress: Progress) -> None:
    """Run every task, `jobs` in parallel; when one fails the others still run.

    `samples` is the number of samples in one pass over the dataset, the unit of progress.
    """
    if not tasks:
        return
    failures: dict[str, str] = {}
    total = samples * sum(task.passes for task in tasks)
    with progress.stage("1 run" if len(tasks) == 1 else f"{len(tasks)} runs", total) as advance:
        views = {task.name: _TaskProgress(task, samples, advance, progress.note) for task in tasks}
        try:
            if jobs == 1:
                _run_in_this_process(tasks, views, failures)
            else:
                _run_in_workers(tasks, jobs, views, failures)
        except KeyboardInterrupt:
            progress.note("stopped; the same command resumes it")
            raise
    if failures:
        name, message = next(iter(failures.items()))
        many = f"{len(failures)} of {len(tasks)} runs failed, the first of them " if len(failures) > 1 else ""
        raise TrainingError(
            f"{many}{name}: {message} (finished runs are kept)",
            hint="leave the model out of --models, or give it its own settings: a table [models.NAME] in a file for "
            "--configs",
        )


class _TaskProgress:
    """The progress of one run as part of the whole: all its stages count, and its notes start with its name."""

    def __init__(self, task: Task, samples: int, advance: Advance, note: Callable[[str], None]) -> None:
        self._name, self._left = task.name, samples * task.passes
        self._advance, self._note = advance, note

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield self.advance

    def advance(self, units: int) -> None:
        """Count `units` more of this run as done."""
        units = min(units, self._left)
        self._left -= units
        self._advance(units)

    def note(self, text: str) -> None:
        self._note(f"{self._name}: {text.strip()}")

    def finish(self) -> None:
        """Count the rest as done: epochs saved by early stopping, or trained before the run was resumed."""
        self.advance(self._left)


def _run_in_this_process(tasks: Sequence[Task], views: dict[str, _TaskProgress], failures: dict[str, str]) -> None:
    for task in tasks:
        try:
            run_task(task, views[task.name])
        except DrpnError as error:
            failures[task.name] = str(error)
        free_gpu_memory()
        views[task.name].finish()


def _run_in_workers(
    tasks: Sequence[Task], jobs: int, views: dict[str, _TaskProgress], failures: dict[str, str]
) -> None:
    waiting = list(reversed(tasks))
    threads = max(1, torch.get_num_threads() // jobs)
    workers = [_Worker(threads) for _ in range(min(jobs, len(tasks)))]
    try:
        for worker in workers:
            worker.start(waiting.pop())
        while busy := {worker.connection: worker for worker in workers if worker.task}:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                assert worker.task is not None
                name = worker.task.name
                kind, content = worker.receive()
                if kind == "advance":
                    views[name].advance(content)
                elif kind == "note":
                    views[name].note(content)
                elif kind == "broken":
                    raise RuntimeError(f"{name} raised:\n{content}")
                else:
                    if kind in ("failed", "died"):
                        failures[name] = content
                    views[name].finish()
                    worker.task = None
                    if kind == "died":
                        workers.remove(worker)
                        workers.append(worker := _Worker(threads))
                    worker.start(waiting.pop() if waiting else None)
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()


class _Worker:
    """A process that runs one task after another."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # CUDA does not work in a forked process
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, threads), daemon=True)
        with _ignore_ctrl_c():
            self.process.start()
        other.close()
        self.task: Task | None = None

    def start(self, task: Task | None) -> None:
        """Send the next task; None ends the process."""
        self.task = task
        self.connection.send(task)

    def receive(self) -> _Message:
        """Return the next message of the process, or `died` if the process has ended."""
        try:
            message: _Message = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            return "died", f"its process ended with exit code {code}; if memory is short, run fewer jobs at once"
        return message

    def stop(self) -> None:
        """Ask the process to finish its step and write a checkpoint; between two tasks it ends at once."""
        if self.process.is_alive():
            with suppress(ConnectionError):
                self.connection.send("stop")

    def join(self) -> None:
        """Wait until the process has ended; terminate it if that takes too long."""
        deadline = time.monotonic() + _STOP_SECONDS
        with suppress(ConnectionError):
            # discard its messages until it closes the pipe: with a full pipe it would never reach the end of its step
            while self.connection.poll(max(0.0, deadline - time.monotonic())):
                if not os.read(self.connection.fileno(), 1 << 16):  # bytes: Ctrl-C may have cut a message in two
                    break
        self.process.join(max(0.0, deadline - time.monotonic()))
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()
        self.connection.close()


@contextmanager
def _ignore_ctrl_c() -> Iterator[None]:
    """Start processes that ignore Ctrl-C within this block; they are stopped by a message instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _PipeProgress:
    """Reports the progress of a worker to the main process."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection, self._units, self._reported, self._stop = connection, 0, 0.0, False

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield self.advance
        self._report()

    def advance(self, units: int) -> None:
        """Report now and then; if the main process has asked to stop, interrupt the training as Ctrl-C does."""
        self._units += units
        if time.monotonic() - self._reported > _REPORT_SECONDS:
            self._report()
        self._stop = self._stop or self._connection.poll()
        if self._stop:
            signal.raise_signal(signal.SIGINT)

    def note(self, text: str) -> None:
        self._connection.send(("note", text))

    def _report(self) -> None:
        self._connection.send(("advance", self._units))
        self._units, self._reported = 0, time.monotonic()


def _work(connection: "Connection[Any, Any]", threads: int) -> None:
    """The main function of a worker: receive tasks, run them, send messages."""
    os.setpgid(0, 0)  # a terminal sends Ctrl-C to the whole process group; only the main process should get it
    torch.set_num_threads(threads)
    with suppress(KeyboardInterrupt, EOFError, ConnectionError):  # stopped, or the main process has ended
        while isinstance(task := connection.recv(), Task):
            try:
                run_task(task, _PipeProgress(connection))
            except DrpnError as error:
                connection.send(("failed", str(error)))
            except Exception:
                connection.send(("broken", traceback.format_exc()))
                return
            else:
                connection.send(("done", None))
            free_gpu_memory()

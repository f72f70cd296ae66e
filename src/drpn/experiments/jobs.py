"""The runs of a comparison, one by one or several at once in processes of their own, under one progress view."""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from drpn.errors import DrpnError, TrainingError
from drpn.experiments.results import Task
from drpn.experiments.run_task import free_gpu_memory, run_task
from drpn.progress import Advance, Progress

_EVERY = 0.2
"""Seconds between two words of a process about its progress."""
_PATIENCE = 120.0
"""Seconds that a process gets to end its step and write its checkpoint when the comparison is stopped."""


def run_tasks(tasks: Sequence[Task], jobs: int, samples: int, progress: Progress) -> None:
    """Carry out every task; one that fails does not keep the others from being carried out.

    `samples` are those of one pass over the dataset, in which progress is counted.
    """
    if not tasks:
        return
    failures: dict[str, str] = {}
    total = samples * sum(task.training.epochs for task in tasks)
    with progress.stage("1 run" if len(tasks) == 1 else f"{len(tasks)} runs", total) as advance:
        shares = {task.name: _Share(task, samples, advance, progress.note) for task in tasks}
        try:
            _one_by_one(tasks, shares, failures) if jobs == 1 else _at_once(tasks, jobs, shares, failures)
        except KeyboardInterrupt:
            progress.note("stopped; the same command goes on from here")
            raise
    if failures:
        name, message = next(iter(failures.items()))
        many = f"{len(failures)} of {len(tasks)} runs failed, the first of them " if len(failures) > 1 else ""
        raise TrainingError(
            f"{many}{name}: {message} (the runs that ended well are kept; leave a model out with --models, or give it "
            "its own settings: a table [models.NAME] in a file for --configs)"
        )


class _Share:
    """What one run says, as a part of the whole: all its stages count, and its notes begin with its name."""

    def __init__(self, task: Task, samples: int, advance: Advance, note: Callable[[str], None]) -> None:
        self._name, self._left = task.name, samples * task.training.epochs
        self._advance, self._note = advance, note

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield self.advance

    def advance(self, units: int) -> None:
        """So much more of this run is done."""
        units = min(units, self._left)
        self._left -= units
        self._advance(units)

    def note(self, text: str) -> None:
        self._note(f"{self._name}: {text.strip()}")

    def finish(self) -> None:
        """Count what was not needed: passes that early stopping saved, or that were trained before."""
        self.advance(self._left)


def _one_by_one(tasks: Sequence[Task], shares: dict[str, _Share], failures: dict[str, str]) -> None:
    for task in tasks:
        try:
            run_task(task, shares[task.name])
        except DrpnError as error:
            failures[task.name] = str(error)
        free_gpu_memory()
        shares[task.name].finish()


def _at_once(tasks: Sequence[Task], jobs: int, shares: dict[str, _Share], failures: dict[str, str]) -> None:
    waiting = list(reversed(tasks))
    threads = max(1, torch.get_num_threads() // jobs)
    workers = [_Worker(threads) for _ in range(min(jobs, len(tasks)))]
    try:
        for worker in workers:
            worker.give(waiting.pop())
        while busy := {worker.connection: worker for worker in workers if worker.task}:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                assert worker.task is not None
                name = worker.task.name
                word, content = worker.hear()
                if word == "advance":
                    shares[name].advance(content)
                elif word == "note":
                    shares[name].note(content)
                elif word == "broken":
                    raise RuntimeError(f"{name} broke off:\n{content}")
                else:
                    if word in ("failed", "died"):
                        failures[name] = content
                    shares[name].finish()
                    worker.task = None
                    if word == "died":
                        workers.remove(worker)
                        workers.append(worker := _Worker(threads))
                    worker.give(waiting.pop() if waiting else None)
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.end()


class _Worker:
    """A process that carries out one task after the other."""

    def __init__(self, threads: int) -> None:
        context = multiprocessing.get_context("spawn")  # a GPU cannot be used in a forked process
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, threads), daemon=True)
        with _ctrl_c_left_to_us():
            self.process.start()
        other.close()
        self.task: Task | None = None

    def give(self, task: Task | None) -> None:
        """The next task; None is the end of work."""
        self.task = task
        self.connection.send(task)

    def hear(self) -> tuple[str, Any]:
        """What the process says next; if it has died, that."""
        try:
            said: tuple[str, Any] = self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            code = self.process.exitcode
            return "died", f"its process ended with exit code {code}; if memory is short, lower --jobs"
        return said

    def stop(self) -> None:
        """Ask it to end its step and leave a checkpoint."""
        if self.task and self.process.is_alive():
            with suppress(ConnectionError):
                self.connection.send("stop")

    def end(self) -> None:
        """Wait until it is gone."""
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()
        self.connection.close()


@contextmanager
def _ctrl_c_left_to_us() -> Iterator[None]:
    """A process started within the block does not hear Ctrl-C: it is told to stop in words, once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _PipeProgress:
    """Tells the process that asked for the work how far it is."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection, self._units, self._told, self._stop = connection, 0, 0.0, False

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield self.advance
        self._tell()

    def advance(self, units: int) -> None:
        """Told now and then; if the answer is to stop, that is done as by Ctrl-C."""
        self._units += units
        if time.monotonic() - self._told > _EVERY:
            self._tell()
        self._stop = self._stop or self._connection.poll()
        if self._stop:
            signal.raise_signal(signal.SIGINT)

    def note(self, text: str) -> None:
        self._connection.send(("note", text))

    def _tell(self) -> None:
        self._connection.send(("advance", self._units))
        self._units, self._told = 0, time.monotonic()


def _work(connection: "Connection[Any, Any]", threads: int) -> None:
    """The life of a process: tasks come in, words go out."""
    os.setpgid(0, 0)  # a terminal's Ctrl-C goes to a whole group: it is for the one who asked, who tells the others
    torch.set_num_threads(threads)
    with suppress(KeyboardInterrupt, EOFError, ConnectionError):  # stopped, or nobody listens any more
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

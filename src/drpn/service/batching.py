"""One thread that answers waiting requests together, within a time limit, and never lets them pile up."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Generic, TypeVar

from drpn.errors import OverloadError

Job = TypeVar("Job")
Result = TypeVar("Result")

_SHORTEST_RETRY = 0.05


class Waiting(Generic[Job, Result]):
    """A job and the future of its result."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.future: Future[Result] = Future()
        self.put_back = False
        """Whether it waited for something else before."""

    @property
    def done(self) -> bool:
        """Whether it was answered, or nobody waits for it any more."""
        return self.future.done()

    def answer(self, result: Result) -> bool:
        """Answer the job, unless it was answered before; returns whether this was the answer."""
        try:
            self.future.set_result(result)
        except InvalidStateError:
            return False
        return True

    def fail(self, error: BaseException) -> None:
        """Answer the job with an error, unless it was answered before."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class Batcher(Generic[Job, Result]):
    """Runs jobs in batches on one thread; a second thread answers jobs that take too long."""

    def __init__(
        self,
        run: Callable[[list[Waiting[Job, Result]]], None],
        overdue: Callable[[Waiting[Job, Result]], None],
        *,
        seconds: float,
        waiting: int,
        batch: int,
        batch_seconds: float,
    ) -> None:
        """`run` answers all jobs of a batch or puts them back; `overdue` answers a job that was not answered in time.

        What these raise is the answer of the jobs.
        """
        self._run, self._overdue = run, overdue
        self._seconds, self._limit, self._size, self._patience = seconds, waiting, batch, batch_seconds
        self._queue: queue.SimpleQueue[Waiting[Job, Result] | None] = queue.SimpleQueue()
        self._lock, self._waiting, self._closed = threading.Lock(), 0, False
        self._deadlines: deque[tuple[float, Waiting[Job, Result]]] = deque()
        self._work_to_watch, self._ended = threading.Event(), threading.Event()
        self._seconds_per_job = 0.001
        self.batches = 0
        self.refused = 0
        self._worker = threading.Thread(target=self._work, name="drpn ranking", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="drpn deadlines", daemon=True)
        self._worker.start()
        self._watcher.start()

    @property
    def waiting(self) -> int:
        """Jobs that wait or are being answered."""
        return self._waiting

    def submit(self, job: Job) -> "Future[Result]":
        """Queue a job; raises `OverloadError` if too many wait."""
        waiting: Waiting[Job, Result] = Waiting(job)
        with self._lock:
            if self._closed:
                raise OverloadError("the newsroom is closed", retry_after=1.0)
            if self._waiting >= self._limit:
                self.refused += 1
                retry = max(_SHORTEST_RETRY, self._waiting * self._seconds_per_job)
                raise OverloadError(f"{self._waiting} requests wait already; try again later", retry_after=retry)
            self._waiting += 1
            idle = not self._deadlines
            self._deadlines.append((time.monotonic() + self._seconds, waiting))
        waiting.future.add_done_callback(self._release)
        if idle:
            self._work_to_watch.set()
        self._queue.put(waiting)
        return waiting.future

    def put_back(self, waiting: Waiting[Job, Result]) -> None:
        """Queue a job again that waited for something else."""
        waiting.put_back = True
        self._queue.put(waiting)

    def answer_overdue(self, waiting: Waiting[Job, Result]) -> None:
        """Answer a job as one that was not answered in time."""
        try:
            self._overdue(waiting)
        except BaseException as error:  # the answer of the job
            waiting.fail(error)

    def close(self) -> None:
        """Answer what waits, then stop both threads."""
        with self._lock:
            self._closed = True
        self._queue.put(None)
        self._worker.join()
        self._ended.set()
        self._work_to_watch.set()
        self._watcher.join()

    def _release(self, _future: "Future[Result]") -> None:
        with self._lock:
            self._waiting -= 1

    def _work(self) -> None:
        last, closing = 1, False
        while True:
            batch, ended = self._take(last, closing)
            closing = closing or ended
            jobs = [job for job in batch if not job.done]
            last = max(1, len(jobs))
            if jobs:
                began = time.perf_counter()
                self.batches += 1
                try:
                    self._run(jobs)
                except BaseException as error:  # the answer of every job of the batch
                    for job in jobs:
                        job.fail(error)
                each = (time.perf_counter() - began) / len(jobs)
                self._seconds_per_job += 0.05 * (each - self._seconds_per_job)
            elif closing and not self._waiting:
                return

    def _take(self, expected: int, closing: bool) -> "tuple[list[Waiting[Job, Result]], bool]":
        """The next batch. As many jobs as last time are waited for, for a fraction of a millisecond."""
        batch: list[Waiting[Job, Result]] = []
        patience = self._patience
        while len(batch) < self._size:
            try:
                if not batch:
                    job = self._queue.get(timeout=0.05 if closing else None)
                elif len(batch) < expected and patience > 0:
                    began = time.perf_counter()
                    job = self._queue.get(timeout=patience)
                    patience -= time.perf_counter() - began
                else:
                    job = self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _watch(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                head = self._deadlines[0] if self._deadlines else None
                if head is None:
                    self._work_to_watch.clear()
            if head is None:
                self._work_to_watch.wait()
                continue
            deadline, job = head
            left = deadline - time.monotonic()
            if not job.done and left > 0:
                self._ended.wait(left)  # most jobs are done by then
            if not job.done:
                self.answer_overdue(job)
            with self._lock:
                self._deadlines.popleft()

"""Processes that train together, played by the threads of one test."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from drpn.ranks import Ranks

T = TypeVar("T")


class Meeting:
    """A place where threads exchange tensors."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=60)
        self.given: list[Tensor | None] = [None] * size

    def exchange(self, rank: int, values: Tensor) -> list[Tensor]:
        """Copies of the tensors of all threads."""
        self.given[rank] = values
        self.barrier.wait()
        every = [one.clone() for one in self.given if one is not None]
        self.barrier.wait()
        return every


@dataclass(frozen=True)
class ThreadRanks(Ranks):
    """One of the threads."""

    meeting: Meeting = field(default_factory=lambda: Meeting(1))

    def join(self) -> None:
        """Threads need not meet first."""

    def each(self, values: Tensor) -> list[Tensor]:
        """The tensors of all threads, which must have one shape and dtype."""
        every = self.meeting.exchange(self.rank, values)
        assert {(one.shape, one.dtype) for one in every} == {(values.shape, values.dtype)}
        return every

    def add(self, values: Tensor) -> Tensor:
        """The sum of the tensors of all threads."""
        return values.copy_(torch.stack(self.each(values)).sum(0))

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether it is set in some thread."""
        return tuple(torch.stack(self.each(torch.tensor(flags))).any(0).tolist())

    def copy_first(self, values: Tensor) -> None:
        """Overwrite the values by those of the first thread."""
        values.copy_(self.each(values)[0])


def together(size: int, work: Callable[[Ranks], T]) -> list[T]:
    """The results of `work` in each of some threads; the first error is raised."""
    meeting = Meeting(size)

    def one(rank: int) -> T:
        try:
            return work(ThreadRanks(rank, size, together=True, meeting=meeting))
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as threads:
        tasks = [threads.submit(one, rank) for rank in range(size)]
    errors = [error for task in tasks if (error := task.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [task.result() for task in tasks]

"""Choose how many threads a training on a CPU uses.

Threads that wait for each other are only as fast as the slowest. Where other programs use the same cores, two threads
can be ten times slower than one. So the number is measured, not counted.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_WINS = 3
"""Rounds of the measurement that one of the numbers must win."""
_STEPS, _ROWS, _SIZE = 12, 384, 300
"""The work of a round: a few milliseconds a step."""
_GAIN = 1.15
"""More threads must be faster by this factor."""
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def choose_threads(asked: int = 0, *, measure: Callable[[int], float] | None = None) -> int:
    """Return the number of threads to use: what is asked for or, for 0, the fastest of one and all.

    "All" are the cores that this process may use, limited by a container's quota and by the threads that PyTorch has
    now, which a caller or OMP_NUM_THREADS may have set. `measure` returns the seconds of a fixed piece of work.
    """
    if asked:
        return asked
    most = min(torch.get_num_threads(), usable_cores())
    if most == 1 or "OMP_NUM_THREADS" in os.environ:
        return most
    seconds = measure or measure_threads
    wins = {1: 0, most: 0}  # the best of five, so that a pause in one round does not decide
    while max(wins.values()) < _WINS:
        wins[most if seconds(1) > _GAIN * seconds(most) else 1] += 1
    return max(wins, key=lambda threads: wins[threads])


def usable_cores() -> int:
    """Return how many cores this process may use: those it is bound to, within the quota of its container."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text(encoding="ascii").split()
        return max(1, min(bound, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no quota file, or "max"
        return bound


def measure_threads(threads: int) -> float:
    """Return the seconds of a few small steps with this number of threads: products, sums and element-wise work."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(_ROWS, _SIZE, generator=generator)
    weight = torch.randn(_SIZE, _SIZE, generator=generator)
    with use_threads(threads):
        torch.tanh(rows @ weight)  # starts the threads
        start = time.perf_counter()
        for _ in range(_STEPS):
            rows = torch.tanh(rows @ weight).mul_(0.5)
            rows = rows - rows.mean(dim=0)
        return time.perf_counter() - start


@contextmanager
def use_threads(threads: int) -> Iterator[None]:
    """Use this number of threads while the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

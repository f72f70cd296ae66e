"""Rates, times and peak memory, measured the same way in every benchmark."""

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.batches.tables import Tables
from drpn.bundle.files import data_shape
from drpn.dataset.folder import Dataset
from drpn.models.base import ClickModel
from drpn.models.catalogue import CATALOGUE
from drpn.ranks import current


@dataclass(frozen=True)
class Rate:
    """Units per second: median, slowest and fastest of the repeats."""

    median: float
    low: float
    high: float
    repeats: int
    calls: int
    """Calls in each repeat."""

    def rounded(self) -> dict[str, Any]:
        """Values for JSON with four significant digits."""
        return {
            "per_s": significant(self.median),
            "range": [significant(self.low), significant(self.high)],
            "repeats": self.repeats,
            "calls": self.calls,
        }


def rate(
    run: Callable[[], int], device: torch.device, *, seconds: float, repeats: int = 5, warm: int = 0
) -> tuple[Rate, float]:
    """Units per second of `run`, which returns its number of units, and the seconds of one call.

    After `warm` calls, makes as many repeats and calls as the time allows, but at least one call.
    """
    for _ in range(warm):
        run()
    done, first = _timed(run, device, 1)
    rates, calls = [done / first], max(int(seconds / repeats / first), 1)
    times = [first]
    if calls > 1:  # the first call only served to estimate the time
        rates, times = [], []
    while len(rates) < repeats and (not rates or sum(times) * calls < seconds):
        done, spent = _timed(run, device, calls)
        rates.append(done / spent)
        times.append(spent / calls)
    median = statistics.median(rates)
    return Rate(median, min(rates), max(rates), len(rates), calls), statistics.median(times)


def _timed(run: Callable[[], int], device: torch.device, calls: int) -> tuple[int, float]:
    synchronise(device)
    start = time.perf_counter()
    done = sum(run() for _ in range(calls))
    synchronise(device)
    # processes that run together must agree on how often to run
    return done, current().from_first(lambda: time.perf_counter() - start)


def percentiles(run: Callable[[int], object], device: torch.device, *, seconds: float, most: int) -> dict[str, float]:
    """Median and 95th percentile of the milliseconds of single calls."""
    for number in range(10):
        run(number)
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < most and (len(times) < 20 or time.perf_counter() - begin < seconds):
        synchronise(device)
        start = time.perf_counter()
        run(len(times))
        synchronise(device)
        times.append(time.perf_counter() - start)
    middle, slow = np.percentile(times, [50, 95]) * 1e3
    return {"p50_ms": significant(middle), "p95_ms": significant(slow), "calls": len(times)}


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Peak:
    """Peak memory since the start of measuring, in MB; memory allocated earlier counts."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with suppress(AttributeError):  # not every C library can return freed memory to the system
                ctypes.CDLL(None).malloc_trim(0)
            with suppress(OSError):  # without permission the peak of the whole process is reported
                Path("/proc/self/clear_refs").write_text("5")

    def megabytes(self) -> int:
        """Memory of tensors on a GPU, otherwise of the whole process."""
        if self._device.type == "cuda":
            return round(torch.cuda.max_memory_allocated(self._device) / 2**20)
        lines = Path("/proc/self/status").read_text().splitlines()
        return round(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Compute with `count` CPU threads; None keeps the current number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def network(name: str, settings: Any, dataset: Dataset, device: torch.device) -> tuple[ClickModel, Tables]:
    """An untrained model and the tables it reads."""
    torch.manual_seed(0)
    model = CATALOGUE[name].model(settings, data_shape(dataset)).to(device)
    return model, Tables.from_dataset(model.limit(dataset), device, reads=model.reads, needs=model.requirements)


def choose(device: str) -> torch.device:
    """The device of that name; auto chooses a GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def available(models: list[str]) -> list[str]:
    """The models that are in the catalogue; `all` means every one."""
    return list(CATALOGUE) if models == ["all"] else [name for name in models if name in CATALOGUE]


def slope(values: list[float], costs: list[float]) -> float:
    """The exponent of growth: least-squares slope of the logarithms."""
    return round(float(np.polyfit(np.log(values), np.log(costs), 1)[0]), 2) + 0.0  # avoids -0.0


def significant(value: float) -> float:
    """The value rounded to four significant digits."""
    return float(f"{value:.4g}")

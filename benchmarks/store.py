"""Measure a store: `python benchmarks/store.py`, or with `--store postgresql://HOST/DATABASE`.

Acknowledged impressions per second, and how long each caller waits, with 1, 8 and 64 callers at once: every
acknowledgement is durable. Then reading a profile, and erasing a user, which takes longer in a larger store.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from drpn.store.base import Store
from drpn.store.opening import open_store
from drpn.store.records import Impression, shown_stories
from reporting import OUT, leave, table

CALLERS = (1, 8, 64)
USERS, STORIES, SHOWN = 10_000, 2_000, 10


def impression(name: str, number: int, moment: datetime) -> Impression:
    """A page of ten stories, one of them clicked, which closes at once."""
    first = number * 7919 % STORIES
    stories = [f"story{(first + place) % STORIES}" for place in range(SHOWN)]
    user = f"user{number * 104_729 % USERS}"
    return Impression(name, user, shown_stories(stories, stories[:1]), moment, bundle="b", variant="A", complete=True)


def write(store: Store, callers: int, seconds: float) -> tuple[float, list[float]]:
    """Acknowledged impressions per second, and the milliseconds that each took; each caller waits for its own."""
    waits: list[list[float]] = [[] for _ in range(callers)]
    start = time.perf_counter()
    stop = start + seconds

    def call(caller: int) -> None:
        while (before := time.perf_counter()) < stop:
            number = len(waits[caller]) * callers + caller
            store.add_impression(
                impression(f"{callers}-{number}", number, datetime.now(UTC)), key=f"{callers}-{number}"
            ).result()
            waits[caller].append(1000 * (time.perf_counter() - before))

    run_all([partial(call, caller) for caller in range(callers)])
    every = [wait for one in waits for wait in one]
    return len(every) / (time.perf_counter() - start), every


def run_all(jobs: Sequence[Callable[[], object]]) -> None:
    """Run jobs in threads."""
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read(store: Store, times: int) -> list[float]:
    """Milliseconds to read the state of a user."""
    waits = []
    for number in range(times):
        before = time.perf_counter()
        store.user(f"user{number * 31 % USERS}")
        waits.append(1000 * (time.perf_counter() - before))
    return waits


def fill(store: Store, impressions: int) -> None:
    """Add impressions of the last days without waiting for each."""
    now = datetime.now(UTC)
    for first in range(0, impressions, 2000):
        waiting = [
            store.add_impression(impression(f"fill-{number}", number, now - timedelta(seconds=number)))
            for number in range(first, min(first + 2000, impressions))
        ]
        for receipt in waiting:
            receipt.result()


def p(percent: float, values: Sequence[float]) -> float:
    """A percentile."""
    return float(np.percentile(values, percent))


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each number of callers")
    parser.add_argument("--impressions", type=int, default=100_000, help="of the store in which a user is erased")
    parser.add_argument("--store", metavar="URL", help="an empty store; by default a SQLite file in the folder")
    parser.add_argument("--folder", type=Path, help="where to put the file; by default a temporary folder")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        store = open_store(options.store or f"sqlite:///{folder}/store.db")
        rows: list[dict[str, Any]] = []
        for callers in CALLERS:
            rate, waits = write(store, callers, options.seconds)
            rows.append(
                {"callers": callers, "acknowledged_per_s": rate, "p50_ms": p(50, waits), "p99_ms": p(99, waits)}
            )
        table(["callers", "acknowledged/s", "p50 ms", "p99 ms"], [list(row.values()) for row in rows])
        started = time.perf_counter()
        fill(store, options.impressions)
        filled = options.impressions / (time.perf_counter() - started)
        reads = read(store, 2000)
        size = store.figures().bytes
        before = time.perf_counter()
        store.erase("user7").result()
        erasing = time.perf_counter() - before
        store.close()
    facts = {
        "writing": rows,
        "fill_per_s": filled,
        "read_p50_ms": p(50, reads),
        "read_p99_ms": p(99, reads),
        "megabytes": size / 1e6,
        "erase_s": erasing,
    }
    print()
    table(["what", "measured"], [[name, value] for name, value in facts.items() if isinstance(value, float)])
    leave("store", facts, [], options.out)


if __name__ == "__main__":
    main()

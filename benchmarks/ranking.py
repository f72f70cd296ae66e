"""Measure a running newsroom within one process: `python benchmarks/ranking.py --page docs/results/bench/ranking.md`.

Models of the paper's sizes with random weights, over a random log of 100,000 users and 20,000 live stories. Rankings of
100 random candidates by many callers at once for 10,000 of the users, 20 % of the requests being feedback (a page view,
which the user's next ranking closes); then rankings one at a time, of 100 candidates and of the whole catalogue. At
last other users come, until the caches of users are full, and the largest memory is stated.

The process has one core, and two for the whole catalogue. Processor time includes feedback and the callers.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drpn.service.newsroom import Newsroom
from drpn.service.requests import RankRequest
from drpn.service.settings import NewsroomSettings
from drpn.service.variants import Variant
from drpn.store.opening import open_store
from drpn.store.records import Impression, Shown
from measuring import Peak
from random_bundle import SHOWN, bundle_in
from reporting import OUT, leave, markdown, table

CANDIDATES, FEEDBACK, CLICKED = 100, 0.2, 0.1
HEADS = {
    "rankings": "rankings",
    "per_s": "per s",
    "per_processor_s": "per processor s",
    "p50_ms": "p50 ms",
    "p95_ms": "p95 ms",
    "p99_ms": "p99 ms",
    "processor_ms": "processor ms per ranking",
}


def candidates(rng: np.random.Generator, stories: int) -> tuple[str, ...]:
    """Stories drawn at random, a few of them twice."""
    return tuple(f"story{number}" for number in rng.integers(0, stories, CANDIDATES).tolist())


def together(newsroom: Newsroom, users: int, stories: int, callers: int, seconds: float) -> dict[str, Any]:
    """Many callers, each waiting for its answer; a fifth of the requests are feedback."""
    waits: list[list[float]] = [[] for _ in range(callers)]
    feedback = [0] * callers
    stop, start = time.perf_counter() + seconds, time.monotonic_ns()

    def call(caller: int) -> None:
        rng = np.random.default_rng(start + caller)
        while (before := time.perf_counter()) < stop:
            user = f"user{rng.integers(users)}"
            if rng.random() < FEEDBACK:
                pages, clicked = rng.integers(0, stories, SHOWN).tolist(), rng.random() < CLICKED
                shown = [Shown(f"story{number}", bool(clicked and not place)) for place, number in enumerate(pages)]
                feedback[caller] += 1
                name = f"{start}-{caller}-{feedback[caller]}"
                newsroom.record(Impression(name, user, tuple({one.news_id: one for one in shown}.values()))).result()
            else:
                newsroom.rank(RankRequest(user, candidates(rng, stories)))
                waits[caller].append(1000 * (time.perf_counter() - before))

    processor, began = time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, processor = time.perf_counter() - began, time.process_time() - processor
    return figures([wait for one in waits for wait in one], wall, processor)


def figures(waits: list[float], wall: float, processor: float) -> dict[str, Any]:
    """Rates and percentiles of rankings; the rate per processor second depends little on what else runs."""
    p50, p95, p99 = np.percentile(waits, [50, 95, 99]).tolist()
    return {
        "rankings": len(waits),
        "per_s": len(waits) / wall,
        "per_processor_s": len(waits) / processor,
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "processor_ms": 1000 * processor / len(waits),
    }


def alone(newsroom: Newsroom, users: int, stories: int, *, whole: bool, count: int) -> dict[str, Any]:
    """Rankings one after the other, each of another user."""
    waits, rng = [], np.random.default_rng(9)
    processor, began = time.process_time(), time.perf_counter()
    for _ in range(count):
        chosen = None if whole else candidates(rng, stories)
        before = time.perf_counter()
        newsroom.rank(RankRequest(f"user{rng.integers(users)}", chosen))
        waits.append(1000 * (time.perf_counter() - before))
    return figures(waits, time.perf_counter() - began, time.process_time() - processor)


def visit(newsroom: Newsroom, users: range) -> None:
    """Rank once for each user."""
    for first in range(users.start, users.stop, 16):
        some = range(first, min(first + 16, users.stop))
        waiting = [newsroom.submit(RankRequest(f"user{user}", ("story1",))) for user in some]
        for future in waiting:
            future.result()


def pin(cores: set[int]) -> None:
    """Run all threads of this process on these cores."""
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def measure(bundle: Path, scratch: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one bundle."""
    every = sorted(os.sched_getaffinity(0))
    pin({every[0]})
    memory = Peak(torch.device("cpu"))
    store = open_store(f"sqlite:///{scratch / 'store.db'}")
    began = time.perf_counter()
    newsroom = Newsroom([Variant("a", bundle)], store, NewsroomSettings(seconds=10))
    started = time.perf_counter() - began
    visit(newsroom, range(options.visitors))  # so that caches are as in a running service
    before, rows = newsroom.figures(), {}
    for callers in options.callers:
        rows[f"{CANDIDATES} candidates, {callers} callers, {FEEDBACK:.0%} feedback"] = together(
            newsroom, options.visitors, options.news, callers, options.seconds
        )
    after = newsroom.figures()
    hits, misses = after.reader_hits - before.reader_hits, after.reader_misses - before.reader_misses
    some = options.visitors, options.news
    rows[f"{CANDIDATES} candidates, one at a time"] = alone(newsroom, *some, whole=False, count=1000)
    pin(set(every[:2]))
    rows["whole catalogue, one at a time"] = alone(newsroom, *some, whole=True, count=100)
    visit(newsroom, range(options.visitors, min(options.users, options.most_visitors)))
    peak = memory.megabytes()
    newsroom.close()
    store.close()
    pin(set(every))
    return {"rows": rows, "started_s": round(started, 1), "hits": hits / (hits + misses), "peak_mb": peak}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["drpn"])
    parser.add_argument("--users", type=int, default=100_000, help="that the bundle knows")
    parser.add_argument("--visitors", type=int, default=10_000, help="users that requests come from")
    parser.add_argument("--most-visitors", type=int, default=50_000, help="users that come before memory is measured")
    parser.add_argument("--news", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--callers", type=int, nargs="*", default=[8])
    parser.add_argument("--folder", type=Path, help="keep bundles here, and use them again")
    parser.add_argument("--page", type=Path, help="write the table as Markdown, too")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for model in options.models:
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            bundle = bundle_in(options.folder or scratch, options.users, options.news, model)
            results[model] = measure(bundle, scratch, options)
    heads = ["model", "what", *HEADS.values()]
    rows = [[model, what, *row.values()] for model, facts in results.items() for what, row in facts["rows"].items()]
    table(heads, rows)
    notes = [
        f"{model}: {options.users:,} users and {options.news:,} live stories, rankings for {options.visitors:,} users, "
        f"{facts['hits']:.0%} of them read from the cache at the first measurement; {facts['peak_mb']:,} MB of memory "
        f"at most, after {options.most_visitors:,} users came; started in {facts['started_s']:g} s."
        for model, facts in results.items()
    ]
    print("", *notes, sep="\n")
    leave("ranking", {"users": options.users, "stories": options.news, "models": results}, [], options.out)
    if options.page:
        text = ["Rankings within one process, on one core, and on two for the whole catalogue.", *notes]
        markdown(options.page, "Speed of a newsroom", heads, rows, text, "ranking")


if __name__ == "__main__":
    main()

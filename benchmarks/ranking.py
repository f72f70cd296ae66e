"""Measure a running newsroom within one process: `python benchmarks/ranking.py`.

A DRPN of the paper's sizes with random weights, over a random log. Rankings of 100 candidates by many callers at once,
20 % of the requests being feedback (a page view, which the user's next ranking closes), users drawn evenly; then
rankings one at a time, of 100 candidates and of the whole catalogue. One thread computes unless said otherwise.
"""

import argparse
import resource
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from drpn.bundle.files import data_shape, write_bundle
from drpn.dataset.folder import Dataset
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.service.newsroom import Newsroom
from drpn.service.requests import RankRequest
from drpn.service.settings import NewsroomSettings
from drpn.service.variants import Variant
from drpn.store.opening import open_store
from drpn.store.records import Impression, Shown
from reporting import OUT, leave, table

SHOWN, VIEWS_OF_A_USER, WORDS = 10, 6, 3_000
CANDIDATES, FEEDBACK = 100, 0.2


def write_log(folder: Path, users: int, stories: int, rng: np.random.Generator) -> Path:
    """A week of page views that ends now; every story is shown on the last day."""
    folder.mkdir()
    end = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=5)
    last_day = -(-stories // SHOWN)
    count = users * VIEWS_OF_A_USER + last_day
    seconds = np.sort(
        np.concatenate([rng.integers(0, 7 * 86_400, count - last_day), rng.integers(0, 80_000, last_day)])
    )
    ago = seconds[::-1]
    user = rng.permutation(np.arange(count) % users)
    first = rng.integers(0, stories, count)
    recent = np.flatnonzero(ago < 86_000)
    first[recent[-last_day:]] = np.arange(last_day) * SHOWN % stories
    shown = (first[:, None] + np.arange(SHOWN)) % stories
    clicked = np.zeros(shown.shape, bool)
    clicked[np.arange(count), rng.integers(0, SHOWN, count)] = True
    times = np.datetime64(end, "us") - ago.astype("timedelta64[s]")
    rows = {
        "impression_id": np.repeat([f"i{number:08}" for number in range(count)], SHOWN),
        "user_id": np.repeat([f"user{number}" for number in user.tolist()], SHOWN),
        "time": np.repeat(times, SHOWN),
        "news_id": [f"story{number}" for number in shown.ravel().tolist()],
        "clicked": clicked.ravel(),
        "position": np.tile(np.arange(SHOWN, dtype=np.int32), count),
    }
    pq.write_table(pa.table(rows), folder / "impressions.parquet")
    titles = [" ".join(f"word{word}" for word in line) for line in rng.integers(0, WORDS, (stories, 10)).tolist()]
    news = {
        "news_id": [f"story{number}" for number in range(stories)],
        "title": titles,
        "category": [f"topic{number % 12}" for number in range(stories)],
    }
    pq.write_table(pa.table(news), folder / "news.parquet")
    return folder


def make_bundle(folder: Path, users: int, stories: int, model: str) -> Path:
    """A bundle with random weights of the paper's sizes."""
    rng = np.random.default_rng(1)
    live = CATALOGUE[model].settings.context
    settings = DataSettings(protocol="live" if live else "paper")
    dataset: Dataset = prepare(write_log(folder / "logs", users, stories, rng), folder / "data", settings)
    torch.manual_seed(1)
    made = CATALOGUE[model].model(CATALOGUE[model].settings, data_shape(dataset)).eval()
    write_bundle(folder / "bundle", made, name=model, settings=made.settings, dataset=dataset, facts={})
    return folder / "bundle"


def together(newsroom: Newsroom, users: int, stories: int, callers: int, seconds: float) -> dict[str, Any]:
    """Many callers, each waiting for its answer; a fifth of the requests are feedback."""
    waits: list[list[float]] = [[] for _ in range(callers)]
    feedback = [0] * callers
    stop = time.perf_counter() + seconds

    def call(caller: int) -> None:
        rng = np.random.default_rng(caller)
        while (before := time.perf_counter()) < stop:
            user = f"user{rng.integers(users)}"
            if rng.random() < FEEDBACK:
                pages = rng.choice(stories, SHOWN, replace=False).tolist()
                shown = tuple(Shown(f"story{number}", place == 0) for place, number in enumerate(pages))
                feedback[caller] += 1
                newsroom.record(Impression(f"{caller}-{feedback[caller]}", user, shown)).result()
            else:
                first = int(rng.integers(stories - CANDIDATES))
                candidates = tuple(f"story{number}" for number in range(first, first + CANDIDATES))
                newsroom.rank(RankRequest(user, candidates))
                waits[caller].append(1000 * (time.perf_counter() - before))

    processor, began = time.process_time(), time.perf_counter()
    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, processor = time.perf_counter() - began, time.process_time() - processor
    every = [wait for one in waits for wait in one]
    return figures(every, wall, processor) | {"feedback": sum(feedback), "callers": callers}


def figures(waits: list[float], wall: float, processor: float) -> dict[str, Any]:
    """Rates and percentiles of rankings; the rate per processor second does not depend on what else runs."""
    p50, p95, p99 = np.percentile(waits, [50, 95, 99]).tolist()
    return {
        "rankings": len(waits),
        "per_s": round(len(waits) / wall, 1),
        "per_processor_s": round(len(waits) / processor, 1),
        "p50_ms": round(p50, 2),
        "p95_ms": round(p95, 2),
        "p99_ms": round(p99, 2),
        "processor_ms": round(1000 * processor / len(waits), 3),
    }


def alone(newsroom: Newsroom, users: int, stories: int, *, whole: bool, count: int) -> dict[str, Any]:
    """Rankings one after the other, each of another user."""
    waits, rng = [], np.random.default_rng(9)
    processor, began = time.process_time(), time.perf_counter()
    for _ in range(count):
        first = int(rng.integers(stories - CANDIDATES))
        chosen = None if whole else tuple(f"story{number}" for number in range(first, first + CANDIDATES))
        before = time.perf_counter()
        newsroom.rank(RankRequest(f"user{rng.integers(users)}", chosen))
        waits.append(1000 * (time.perf_counter() - before))
    return figures(waits, time.perf_counter() - began, time.process_time() - processor)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--stories", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--callers", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--model", default="drpn")
    parser.add_argument("--folder", type=Path, help="keep the bundle here, and use it again")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch) / "made"
        folder.mkdir(parents=True, exist_ok=True)
        bundle = folder / "bundle"
        if not bundle.exists():
            bundle = make_bundle(folder, options.users, options.stories, options.model)
        store = open_store(f"sqlite:///{Path(scratch) / 'store.db'}")
        began = time.perf_counter()
        newsroom = Newsroom([Variant("a", bundle)], store, NewsroomSettings(seconds=10))
        print(f"started in {time.perf_counter() - began:.1f} s, {newsroom.figures().live_stories:,} live stories")
        rows = {}
        began = time.perf_counter()
        for number in range(0, options.users, 16):  # every user comes once, so that caches are as in a running service
            waiting = [newsroom.submit(RankRequest(f"user{user}", ("story1",))) for user in range(number, number + 16)]
            for future in waiting:
                future.result()
        print(f"every user once in {time.perf_counter() - began:.1f} s")
        rows["100 candidates, one at a time"] = alone(newsroom, options.users, options.stories, whole=False, count=300)
        rows["whole catalogue, one at a time"] = alone(newsroom, options.users, options.stories, whole=True, count=20)
        for callers in options.callers:
            rows[f"100 candidates, {callers} callers, 20 % feedback"] = together(
                newsroom, options.users, options.stories, callers, options.seconds
            )
        known = newsroom.figures()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        newsroom.close()
        store.close()
    heads = ["rankings", "per_s", "per_processor_s", "p50_ms", "p95_ms", "p99_ms", "processor_ms"]
    table(["what", *heads], [[name, *(row[head] for head in heads)] for name, row in rows.items()])
    hits = known.reader_hits / (known.reader_hits + known.reader_misses)
    print(f"\npeak memory {memory:,.0f} MB, {hits:.0%} of the users read from the cache, {known.batches:,} batches")
    sizes = {"users": options.users, "stories": options.stories, "model": options.model}
    leave("ranking", {**sizes, "rows": rows, "memory_mb": round(memory), "hits": hits}, [], options.out)


if __name__ == "__main__":
    main()

"""Estimate the costs of large sites: `python benchmarks/costs.py --page docs/results/bench/costs.md`.

Measures preparing and storing at four sizes and fits a line through each cost; its slope is the cost of one more
impression. Costs that need a GPU, a cluster or a running service are those of other pages, named in `ELSEWHERE`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np

import prepare
import store as stores
from drpn.store.opening import open_store
from reporting import OUT, leave, markdown, table

CANDIDATES = 30
SIZES = (25_000, 50_000, 100_000, 200_000)
IMPRESSIONS = (10**6, 10**8, 10**10)
RANKINGS = 10**4
"""Rankings per second of a large site."""
USE = 0.6
"""Share of a core that may be busy, so that requests do not wait."""
EPOCHS = 5


class Known(NamedTuple):
    """A cost that was measured elsewhere."""

    value: float
    unit: str
    page: str


ELSEWHERE = {
    "training": Known(75_080, "clicks/s on one H200, batch 2,048", "performance.md"),
    "spark": Known(0.40e-3, "processor s per impression of 30 stories", "results/bench/prepare.md"),
    "shuffle": Known(2_470, "bytes per impression that Spark exchanges between workers", "scale.md"),
    "live": Known(0.23e-3, "processor s per impression of 38 stories, the counts alone", "performance.md"),
    "ranking": Known(2.0e-3, "processor s per ranking, feedback included", "results/bench/serving.md"),
}


def measured(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """The costs at each size."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            prepare.write_logs(
                folder / "logs", impressions=size, candidates=CANDIDATES, news=2_000, users=size // 3, seed=0
            )
            behaviors = folder / "logs" / "behaviors.tsv"
            spent = prepare.measure(folder / "logs", folder / "dataset", "2GB")
            rows.append({
                "impressions": size,
                "log_bytes": parquet_bytes(behaviors),
                "dataset_bytes": sum(file.stat().st_size for file in (folder / "dataset").rglob("*") if file.is_file()),
                "prepare_s": spent["cpu_seconds"],
                **stored(folder, size),
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def parquet_bytes(behaviors: Path) -> int:
    """The size of a log as compressed Parquet."""
    file = behaviors.with_suffix(".parquet")
    duckdb.sql(
        f"COPY (SELECT column0 AS id, column1 AS reader, column2 AS time, string_split(column4, ' ') AS shown "
        f"FROM read_csv('{behaviors}', delim='\t', header=false, all_varchar=true, quote='')) "
        f"TO '{file}' (FORMAT parquet, COMPRESSION zstd)"
    )
    return file.stat().st_size


def stored(folder: Path, size: int) -> dict[str, float]:
    """Bytes and processor time of impressions of ten stories in a SQLite store."""
    store = open_store(f"sqlite:///{folder}/store.db")
    before = time.process_time()
    stores.fill(store, size)
    spent, size_now = time.process_time() - before, store.figures().bytes
    store.close()
    return {"store_bytes": size_now, "store_s": spent}


def acknowledged_per_second(seconds: float) -> float:
    """Impressions that a SQLite store acknowledges to 64 callers, each made durable first."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/store.db")
        rate, _ = stores.write(store, 64, seconds)
        store.close()
    return rate


def fitted(rows: list[dict[str, Any]], cost: str) -> tuple[float, float]:
    """The cost of one more impression, and by how much the line misses the largest size."""
    sizes, costs = (np.array([row[name] for row in rows], float) for name in ("impressions", cost))
    slope, start = np.polyfit(sizes, costs, 1)
    return float(slope), float((start + slope * sizes[-1]) / costs[-1] - 1)


def estimates(unit: dict[str, float]) -> list[list[Any]]:
    """A row for each cost, a column for each number of impressions."""
    known = {name: cost.value for name, cost in ELSEWHERE.items()}
    costs: list[tuple[str, Callable[[int], str]]] = [
        ("logs, Parquet", lambda n: as_bytes(n * unit["log_bytes"])),
        ("dataset folder", lambda n: as_bytes(n * unit["dataset_bytes"])),
        ("preparing, DuckDB, one core", lambda n: as_time(n * unit["prepare_s"])),
        ("preparing, Spark, one core", lambda n: as_time(n * known["spark"])),
        ("exchanged between the workers of Spark", lambda n: as_bytes(n * known["shuffle"])),
        ("counts of the live protocol, one core", lambda n: as_time(n * known["live"])),
        (f"training, {EPOCHS} epochs, one click each, one GPU", lambda n: as_time(EPOCHS * n / known["training"])),
        ("events of a store, SQLite", lambda n: as_bytes(n * unit["store_bytes"])),
    ]
    return [[name, *(cost(count) for count in IMPRESSIONS)] for name, cost in costs]


def service(unit: dict[str, float], rate: float) -> list[str]:
    """A line for each part of a large service."""
    cores = RANKINGS * ELSEWHERE["ranking"].value
    return [
        f"{RANKINGS:,} rankings/s take {cores:.0f} cores, at {USE:.0%} use {cores / USE:.0f} workers of one core.",
        f"If each ranking is reported as shown, {RANKINGS:,} impressions/s take "
        f"{RANKINGS * unit['store_s']:.1f} cores to store and {as_bytes(86_400 * RANKINGS * unit['store_bytes'])} a "
        f"day. One store on this machine acknowledged {rate:,.0f} impressions/s, so it takes {RANKINGS / rate:.0f} "
        "stores of this kind, split by user.",
    ]


def as_time(seconds: float) -> str:
    """A time in the unit that suits it."""
    for size, name in ((365 * 86_400, "years"), (86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.0f} s"


def as_bytes(count: float) -> str:
    """A size in the unit that suits it."""
    for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:,.1f} {name}"
    return f"{count / 1e3:,.1f} kB"


def main() -> None:
    """Measure, estimate, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="impressions of each measurement")
    parser.add_argument("--seconds", type=float, default=5.0, help="for acknowledged impressions")
    parser.add_argument("--page", type=Path, help="also write the estimates to this page")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    rows = measured(tuple(options.sizes))
    costs = [name for name in rows[0] if name != "impressions"]
    fits = {name: fitted(rows, name) for name in costs}
    unit = {name: slope for name, (slope, _) in fits.items()}
    rate = acknowledged_per_second(options.seconds)
    heads, lines = ["", *(f"{count:,} impressions" for count in IMPRESSIONS)], estimates(unit)
    table(heads, lines)
    text = service(unit, rate)
    print(*text, sep="\n")
    leave("costs", {"measured": rows, "unit": unit, "acknowledged_per_s": rate}, [], options.out)
    if options.page:
        each = "; ".join(
            f"{name.replace('_', ' ')} {slope:.3g} (the line misses the largest size by {miss:+.0%})"
            for name, (slope, miss) in fits.items()
        )
        elsewhere = "; ".join(f"{name}: {one.value:g} {one.unit} ({one.page})" for name, one in ELSEWHERE.items())
        sizes = ", ".join(f"{size:,}" for size in options.sizes)
        markdown(
            options.page, "Costs of large sites, estimated", heads, lines,
            [f"Impressions of {CANDIDATES} stories with one click; stored ones of ten stories. Measured at {sizes} "
             f"impressions, cost of one more by a line through the four: {each}.",
             f"Measured elsewhere: {elsewhere}.", *text], "costs",
        )  # fmt: skip


if __name__ == "__main__":
    main()

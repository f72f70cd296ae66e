"""How long preparing logs takes, and how much memory: `python benchmarks/prepare.py --impressions 400000`.

Writes logs in MIND's format with numpy (news by popularity 1/rank, users with a heavy tail, one click of so many
candidates), prepares them in a process of its own, and prints seconds and peak memory as JSON.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from provenance import machine

START = datetime(2019, 11, 9)


def write_logs(folder: Path, *, impressions: int, candidates: int, news: int, users: int, seed: int) -> None:
    """One MIND folder of seven days."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    with (folder / "news.tsv").open("w") as stream:
        for row in range(news):
            stream.write(
                f"N{row}\ttopic{row % 18}\tsub{row % 220}\tword{row % 997} story word{row % 8009}\t\t\t[]\t[]\n"
            )
    popularity = np.cumsum(1 / np.arange(1, news + 1))
    names = np.array([f"N{row}" for row in rng.permutation(news)])
    readers = (users * rng.random(impressions) ** 2).astype(np.int64)
    seconds = np.sort(rng.integers(0, 7 * 86_400, impressions))
    with (folder / "behaviors.tsv").open("w") as stream:
        for start in range(0, impressions, 10_000):
            rows = min(10_000, impressions - start)
            ranks = np.searchsorted(popularity, rng.random((rows, candidates)) * popularity[-1])
            shown = np.char.add(names[ranks], "-0")
            clicks = rng.integers(0, candidates, rows)
            shown[np.arange(rows), clicks] = np.char.add(names[ranks[np.arange(rows), clicks]], "-1")
            for row in range(rows):
                moment = START + timedelta(seconds=int(seconds[start + row]))
                clock = f"{moment.month}/{moment.day}/{moment.year} {moment:%I:%M:%S %p}"
                line = f"{start + row + 1}\tU{readers[start + row]}\t{clock}\t\t{' '.join(shown[row])}\n"
                stream.write(line)


def measure(logs: Path, out: Path, memory: str) -> dict[str, float]:
    """Seconds and peak memory (MB) of `drpn prepare` in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "drpn.cli", "prepare", logs, "--out", out, "--memory", memory])
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit("drpn prepare failed")
    return {"seconds": round(time.perf_counter() - start, 1), "peak_mb": round(usage.ru_maxrss / 1024)}


def main() -> None:
    """Write logs, prepare them with each memory limit, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--impressions", type=int, default=400_000)
    parser.add_argument("--candidates", type=int, default=30)
    parser.add_argument("--news", type=int, default=50_000)
    parser.add_argument("--users", type=int, help="default: a third of the impressions")
    parser.add_argument("--memory", nargs="+", default=["2GB", "1GB"], help="limits to give DuckDB, one run each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="also write the JSON here")
    given = parser.parse_args()
    shape = {name: getattr(given, name) for name in ("impressions", "candidates", "news", "seed")}
    shape["users"] = given.users or given.impressions // 3
    with tempfile.TemporaryDirectory() as scratch:
        write_logs(Path(scratch) / "logs", **shape)
        runs = {}
        for memory in given.memory:
            out = Path(scratch) / "dataset"
            shutil.rmtree(out, ignore_errors=True)
            runs[memory] = measure(Path(scratch) / "logs", out, memory)
    result = json.dumps({"shape": shape, "runs_by_memory_limit": runs, "machine": machine()}, indent=2)
    print(result)
    if given.out:
        given.out.write_text(result + "\n")


if __name__ == "__main__":
    main()

"""Measure time and memory of preparing logs: `python benchmarks/prepare.py --impressions 400000`.

Writes logs in MIND's format with numpy (stories by popularity 1/rank, users with a heavy tail, one click in each
impression), prepares them in a separate process, and reports seconds and peak memory as JSON, picture and table, with
`--page` also as a page. For the project's standard sizes use `--impressions 100000 400000 1600000`; they take minutes.
With `--engine duckdb spark` both engines prepare the same logs. Spark's memory is that of Python and Java together.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from reporting import OUT, Panel, leave, markdown, table

START = datetime(2019, 11, 9)


def write_logs(folder: Path, *, impressions: int, candidates: int, news: int, users: int, seed: int) -> None:
    """Write a MIND folder of seven days."""
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
            drawn = np.searchsorted(popularity, rng.random((rows, 2 * candidates)) * popularity[-1])
            clicks = rng.random(rows)
            for row in range(rows):
                stories = names[list(dict.fromkeys(drawn[row].tolist()))[:candidates]]  # each story once
                shown = np.char.add(stories, "-0")
                click = int(clicks[row] * len(stories))
                shown[click] = f"{stories[click]}-1"
                moment = START + timedelta(seconds=int(seconds[start + row]))
                clock = f"{moment.month}/{moment.day}/{moment.year} {moment:%I:%M:%S %p}"
                line = f"{start + row + 1}\tU{readers[start + row]}\t{clock}\t\t{' '.join(shown)}\n"
                stream.write(line)


def measure(
    logs: Path, out: Path, memory: str, sets: Sequence[str] = (), engine: str = "duckdb", master: str | None = None
) -> dict[str, float]:
    """Seconds, processor seconds and peak memory (MB) of `drpn prepare` in separate processes."""
    command = [sys.executable, "-m", "drpn.cli", "prepare", logs, "--out", out, "--memory", memory, "--engine", engine]
    command += [part for setting in sets for part in ("--set", setting)] + (["--master", master] if master else [])
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    others: dict[int, float] = {}  # processor seconds of the processes that it starts
    peak = 0.0
    while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
        family = session_usage(process.pid)
        peak = max(peak, sum(megabytes for megabytes, _ in family.values()))
        others |= {number: spent for number, (_, spent) in family.items() if number != process.pid}
        time.sleep(0.1)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode:
        raise SystemExit("drpn prepare failed")
    usage = ended[2]
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime + sum(others.values()), 2),
        "peak_mb": round(max(peak, usage.ru_maxrss / 1024)),
    }


def session_usage(session: int) -> dict[int, tuple[float, float]]:
    """Memory (MB) and processor seconds of each process of a session, from /proc."""
    usage = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[3]) == session:
            spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            usage[int(file.parent.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20, spent
    return usage


def measure_shape(
    memories: list[str], sets: list[str], engines: list[str], master: str | None, **shape: int
) -> list[dict[str, Any]]:
    """One run for each engine and memory limit, on temporary logs of this shape."""
    with tempfile.TemporaryDirectory() as scratch:
        logs, out = Path(scratch) / "logs", Path(scratch) / "dataset"
        write_logs(logs, **shape)
        runs = []
        for engine in engines:
            for memory in memories:
                shutil.rmtree(out, ignore_errors=True)
                spent = measure(logs, out, memory, sets, engine, master if engine == "spark" else None)
                runs.append({**shape, "engine": engine, "memory": memory, **spent})
                print(runs[-1], flush=True)
    return runs


def growth(runs: list[dict[str, Any]], key: str) -> float:
    """How many times a cost grows when the impressions double, on average over the sizes (a fit in logarithms)."""
    sizes, costs = ([run[name] for run in runs] for name in ("impressions", key))
    return float(2 ** np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def write_page(page: Path, runs: list[dict[str, Any]], master: str | None) -> None:
    """Write the page of the engines next to each other."""
    by_line: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        by_line.setdefault(_line(run), []).append(run)
    grown = [
        f"{line}: {growth(some, 'cpu_seconds'):.2f} times the processor seconds, {growth(some, 'peak_mb'):.2f} times "
        "the memory"
        for line, some in by_line.items()
        if len(some) > 1
    ]
    text = [
        f"Logs in MIND's format with {runs[0]['candidates']} stories in each impression, {runs[0]['news']:,} stories "
        "in all and a user for every three impressions, seven days. Both engines prepare the same files, in a process "
        f"of their own, Spark at {master or 'local[*]'}. Memory is the peak of the process and those that it starts. "
        "Elapsed seconds depend on other work on the machine; compare processor seconds.",
        *([f"When the impressions double, on average: {'; '.join(grown)}."] if grown else []),
    ]
    heads = ["impressions", "pairs", "engine", "limit", "processor seconds", "elapsed seconds", "peak MB"]
    rows = [
        [run["impressions"], run["impressions"] * run["candidates"], run["engine"], run["memory"], run["cpu_seconds"],
         run["seconds"], run["peak_mb"]]
        for run in runs
    ]  # fmt: skip
    markdown(page, "Preparing logs", heads, rows, text, "prepare")


def _line(run: dict[str, Any]) -> str:
    return f"{run['engine']}, limit {run['memory']}"


def main() -> None:
    """Write logs of each size, prepare them with each memory limit, and report the cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--impressions", nargs="+", type=int, default=[400_000])
    parser.add_argument("--candidates", type=int, default=30)
    parser.add_argument("--news", type=int, default=50_000)
    parser.add_argument("--users", type=int, help="default: a third of the impressions")
    parser.add_argument("--memory", nargs="+", default=["2GB", "1GB"], help="memory limits of the engine, one run each")
    parser.add_argument("--engine", nargs="+", choices=["duckdb", "spark"], default=["duckdb"])
    parser.add_argument("--master", help="where Spark runs, such as local[2]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=OUT, help="the folder for prepare.json and prepare.png")
    parser.add_argument("--page", type=Path, help="a Markdown file for the table")
    options = parser.parse_args()
    runs = []
    for impressions in options.impressions:
        shape = {
            "impressions": impressions,
            "candidates": options.candidates,
            "news": options.news,
            "seed": options.seed,
        }
        users = options.users or max(impressions // 3, 1)
        runs += measure_shape(options.memory, options.sets, options.engine, options.master, users=users, **shape)
    print()
    table(
        ["impressions", "pairs", "engine", "memory", "processor seconds", "seconds", "peak MB"],
        [[run["impressions"], run["impressions"] * run["candidates"], run["engine"], run["memory"], run["cpu_seconds"],
          run["seconds"], run["peak_mb"]] for run in runs],
    )  # fmt: skip
    if options.page:
        write_page(options.page, runs, options.master)

    def lines(key: str) -> dict[str, list[tuple[float, float]]]:
        return {
            line: [(run["impressions"], run[key]) for run in runs if _line(run) == line] for line in map(_line, runs)
        }

    panels = [Panel("impressions", "seconds", lines("seconds")), Panel("impressions", "peak MB", lines("peak_mb"))]
    name = "-".join(["prepare", *(engine for engine in options.engine if engine != "duckdb")])
    leave(name, {"sets": options.sets, "runs": runs}, panels, options.out)


if __name__ == "__main__":
    main()

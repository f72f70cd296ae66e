"""The tools of every benchmark: rates, memory, exponents, tables and provenance."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from drpn.dataset.folder import Dataset
from measuring import Peak, percentiles, rate, slope, threads
from reporting import Panel, leave, table
from shape import ShapeSettings, write_shape

CPU = torch.device("cpu")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL_DRPN = ["model.size=12", "model.heads=2", "model.graph_heads=2", "model.hidden=4"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    sizes = ShapeSettings(news=300, vocabulary=400, users=200, impressions=40, validation=10, test=20)
    return write_shape(tmp_path_factory.mktemp("data") / "data", sizes)


class Clock:
    """A clock that goes only while something is computed."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        """The time in seconds."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("measuring.time", clock)
    return clock


def test_rate_is_units_per_second(clock: Clock) -> None:
    def run() -> int:
        clock.now += 0.25
        return 10

    speed, seconds = rate(run, CPU, seconds=8, repeats=4)
    assert (speed.low, speed.median, speed.high, speed.repeats, speed.calls) == (40, 40, 40, 4, 8)
    assert seconds == 0.25


def test_the_slowest_and_the_fastest_repeat_are_kept(clock: Clock) -> None:
    waits = iter([1.0, 1.0, 2.0, 0.5])  # the first call estimates the time, which allows two calls in each repeat

    def run() -> int:
        clock.now += next(waits, 1.0)
        return 1

    speed, _ = rate(run, CPU, seconds=6, repeats=3)
    assert (speed.low, speed.median, speed.high) == (2 / 3, 1, 4 / 3)


def test_call_longer_than_the_time_limit_runs_once(clock: Clock) -> None:
    calls = []

    def run() -> int:
        clock.now += 0.05
        calls.append(None)
        return 1

    speed, _ = rate(run, CPU, seconds=0.01, repeats=5)
    assert (speed.repeats, speed.calls, len(calls)) == (1, 1, 1)


def test_warm_up_calls_are_not_timed(clock: Clock) -> None:
    waits = iter([64.0])

    def run() -> int:
        clock.now += next(waits, 0.5)
        return 1

    speed, _ = rate(run, CPU, seconds=8, repeats=2, warm=1)
    assert (speed.low, speed.high) == (2, 2)


def test_percentiles_of_single_calls(clock: Clock) -> None:
    def run(number: int) -> None:
        clock.now += 0.03 if number % 10 == 9 else 0.001

    times = percentiles(run, CPU, seconds=0, most=40)
    assert times == {"p50_ms": 1, "p95_ms": 30, "calls": 20}


def test_peak_memory_includes_freed_tensors() -> None:
    peak = Peak(CPU)
    before = peak.megabytes()
    torch.ones(64, 2**20)  # 256 MB
    assert 200 < peak.megabytes() - before < 400


def test_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    with threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_slope_of_a_power_law_is_its_exponent() -> None:
    assert slope([1, 2, 4, 8], [3.0, 12.0, 48.0, 192.0]) == 2
    assert str(slope([1, 2, 4], [5.0, 5.0, 5.0])) == "0.0"


def test_table_aligns_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    table(["model", "batch", "rate"], [["drpn", 128, 1234.5], ["nrms", 2_048, 0.5]])
    assert capsys.readouterr().out == "model  batch   rate\ndrpn     128  1,234\nnrms   2,048    0.5\n"


def test_results_include_the_machine_and_their_paths_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leave("one", {"runs": [1]}, [Panel("size", "seconds", {"a": [(1, 2.0), (2, 4.0)]})], tmp_path)
    document = json.loads((tmp_path / "one.json").read_text())
    assert document["runs"] == [1]
    assert {"commit", "cores", "memory_gb", "python", "torch", "load_before"} <= set(document["machine"])
    assert (tmp_path / "one.png").stat().st_size > 1_000
    assert str(tmp_path / "one.json") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "options", "keys"),
    [
        ("training", ["--batches", "8"], {"samples", "warm_up_s", "peak_mb"}),
        ("evaluation", ["--threads", "1", "--calls", "20"], {"news_encoded", "impressions_with_encoding", "one_user"}),
    ],
)
def test_programs_measure_a_dataset_folder(
    program: str, options: list[str], keys: set[str], data: Dataset, tmp_path: Path
):
    sets = [part for setting in SMALL_DRPN for part in ("--set", setting)]
    command = [sys.executable, "-W", "error", BENCHMARKS / f"{program}.py", "--data", data.path, "--models", "drpn"]
    command += [*options, "--device", "cpu", "--seconds", "0.2", *sets, "--out", tmp_path]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    (run,) = json.loads((tmp_path / f"{program}-cpu.json").read_text())["runs"]
    assert run["model"] == "drpn"
    assert keys <= set(run)

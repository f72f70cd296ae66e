"""The number of threads follows from what the machine gives, not from its number of cores."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from drpn.recipes import evaluate, train
from drpn.recipes.runs import Run
from drpn.training import threads
from drpn.training.threads import choose_threads, measure_threads, usable_cores, use_threads
from small_training import train_small


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with two cores and PyTorch's two threads, and nothing set by the environment."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def machine(alone: float, together: float) -> Callable[[int], float]:
    return lambda count: alone if count == 1 else together


def test_all_threads_where_they_are_faster() -> None:
    assert choose_threads(measure=machine(1.0, 0.55)) == 2


@pytest.mark.parametrize("together", [12.7, 1.0, 0.95])
def test_one_thread_where_two_wait_for_each_other(together: float) -> None:
    assert choose_threads(measure=machine(1.0, together)) == 1


def test_a_pause_in_one_round_does_not_decide() -> None:
    times = iter([1.0, 0.5, 1.0, 9.0, 1.0, 0.5, 1.0, 0.5, 1.0, 0.5])
    assert choose_threads(measure=lambda _: next(times)) == 2


def test_what_is_asked_for_is_not_measured() -> None:
    def never(_: int) -> float:
        raise AssertionError

    assert choose_threads(3, measure=never) == 3
    torch.set_num_threads(1)
    assert choose_threads(measure=never) == 1


def test_threads_set_by_the_environment_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert choose_threads(measure=machine(1.0, 9.0)) == 2


def test_the_quota_of_a_container_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    file = tmp_path / "cpu.max"
    monkeypatch.setattr(threads, "_QUOTA", file)
    cores = len(os.sched_getaffinity(0))
    assert usable_cores() == cores
    for text, expected in {"max 100000": cores, "100000 100000": 1, "50000 100000": 1, "900000 100000": cores}.items():
        file.write_text(text + "\n")
        assert usable_cores() == expected


def test_the_measurement_uses_the_threads_and_gives_them_back() -> None:
    torch.set_num_threads(2)
    assert measure_threads(1) > 0
    assert torch.get_num_threads() == 2
    with use_threads(1):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_one_thread_on_cores_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four programs that never pause leave no core to two threads that wait for each other."""
    monkeypatch.undo()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(2)
    bound = sorted(os.sched_getaffinity(0))[:2]
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, bound)
        for process in busy:
            os.sched_setaffinity(process.pid, bound)
        time.sleep(0.3)
        assert choose_threads() == 1
    finally:
        os.sched_setaffinity(0, before)
        for process in busy:
            process.kill()
            process.wait()


def test_a_run_records_its_threads_and_uses_them_again(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def validate(*_: object) -> float:
        used.append(torch.get_num_threads())
        if len(used) == 1:
            raise KeyboardInterrupt  # after the first checkpoint
        return float(len(used))

    monkeypatch.setattr(train, "validation_auc", validate)
    for chosen, resume in ((1, False), (2, True)):
        monkeypatch.setattr(train, "choose_threads", lambda chosen=chosen: chosen)
        with suppress(KeyboardInterrupt):
            train_small(data, tmp_path / "run", resume=resume, save_seconds=0.0, batch=4)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["threads"] == 1
    assert set(used) == {1}
    assert torch.get_num_threads() == 2
    asked = train_small(data, tmp_path / "asked", threads=1, epochs=1)
    assert used[-1] == 1
    assert json.loads((asked / "run.json").read_text())["threads"] == 1
    assert json.loads((asked / "bundle" / "manifest.json").read_text())["training"]["threads"] == 1


def test_the_threads_of_a_resumed_run_are_those_it_was_resumed_with(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> float:
        raise KeyboardInterrupt

    validate = train.validation_auc
    monkeypatch.setattr(train, "validation_auc", stop)
    with suppress(KeyboardInterrupt):
        train_small(data, tmp_path / "run", threads=2, epochs=1, batch=32, save_seconds=0.0)
    assert Run.open(tmp_path / "run").facts["threads"] == 2
    monkeypatch.setattr(train, "validation_auc", validate)
    run = train_small(data, tmp_path / "run", threads=1, epochs=1, batch=32, resume=True)
    assert Run.open(run).facts["threads"] == Run.open(run).bundle().manifest["training"]["threads"] == 1
    train_small(data, run, threads=2, epochs=1, batch=32, resume=True)  # it is fully trained, so nothing changes
    assert Run.open(run).facts["threads"] == 1


def test_evaluation_uses_the_threads_that_it_chooses(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, used = train_small(data, tmp_path / "run", threads=1, epochs=1), []
    measure = evaluate.measure_model

    def watched(*arguments: object, **options: object) -> object:
        used.append(torch.get_num_threads())
        return measure(*arguments, **options)

    monkeypatch.setattr(evaluate, "measure_model", watched)
    evaluate.evaluate(run)
    assert used == [1]

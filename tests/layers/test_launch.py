"""Launching kernels and compiling them ahead, with kernels that only note what is asked of them."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from drpn.layers.kernels import launch as module
from drpn.layers.kernels.launch import compile_only, launch
from waiting import wait_until


class Kernel:
    """Stands for a Triton kernel; it is compiled once for all values of its third parameter."""

    def __init__(self) -> None:
        self.params = [SimpleNamespace(do_not_specialize=number == 2) for number in range(3)]
        self.compiled: list[tuple[Any, ...]] = []
        self.launched: list[tuple[Any, ...]] = []
        self.most_at_once = self._now = 0
        self.together = 1
        """How many must be compiled at the same time before one of them is done."""
        self._lock = threading.Lock()

    def warmup(self, *arguments: Any, grid: tuple[int, ...], **options: Any) -> None:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        wait_until(lambda: self.most_at_once >= self.together, pause=0.001)
        with self._lock:
            self._now -= 1
            self.compiled.append((grid, *arguments, options))
        if "fail" in options:
            raise ValueError("does not compile")

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *arguments, **options: self.launched.append((grid, *arguments, options))


@pytest.fixture(autouse=True)
def no_gpu_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _device: None)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 4)


def test_a_launch_runs_the_kernel() -> None:
    kernel, table = Kernel(), torch.zeros(3)
    launch(kernel, (2,), table, 5, num_warps=4)
    assert kernel.launched == [((2,), table, 5, {"num_warps": 4})]
    assert not kernel.compiled


def test_kernels_are_compiled_side_by_side_and_not_run() -> None:
    kernel = Kernel()
    kernel.together = 2
    with compile_only():
        for size in range(4):
            launch(kernel, (1,), size)
    assert not kernel.launched
    launch(kernel, (1,), 0)  # waits for all of them
    assert sorted(kernel.compiled, key=str) == [((1,), size, {}) for size in range(4)]
    assert len(kernel.launched) == 1


def test_equal_arguments_are_compiled_once_and_tensors_are_not_kept() -> None:
    kernel = Kernel()
    with compile_only():
        for rows in (3, 4):
            launch(kernel, (rows,), torch.zeros(rows, dtype=torch.bfloat16), 7, rows)
        launch(kernel, (1,), torch.zeros(9, dtype=torch.float32)[1:], 7, 1)  # not aligned: another kernel
    launch(kernel, (1,))
    aligned, other = sorted(kernel.compiled, key=lambda call: isinstance(call[1], torch.Tensor))
    assert aligned == ((3,), torch.bfloat16, 7, 3, {})
    assert isinstance(other[1], torch.Tensor)


def test_a_kernel_that_does_not_compile_fails_at_its_launch_alone() -> None:
    kernel = Kernel()
    with compile_only():
        launch(kernel, (1,), fail=True)
    launch(kernel, (1,), 2)
    assert kernel.launched == [((1,), 2, {})]


def test_an_error_ends_compiling() -> None:
    kernel = Kernel()
    with pytest.raises(RuntimeError), compile_only():
        raise RuntimeError
    launch(kernel, (1,), 1)
    assert len(kernel.launched) == 1

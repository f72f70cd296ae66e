"""Launch Triton kernels, and compile many of them at the same time before their first launch.

Triton compiles a kernel at its first launch, one after the other: twenty seconds for a training of DRPN. The compiler
runs outside of Python's lock, so threads compile them side by side.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

_MOST_THREADS = 16


class _Compiler:
    """Compiles kernels in threads, each kernel once for equal arguments."""

    def __init__(self) -> None:
        self._asked: dict[Any, Callable[[], object]] = {}
        self._running: list[Future[object]] = []

    def add(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Note a kernel and the kinds of its arguments."""
        key = (id(kernel), tuple(map(_kind, kernel.params, arguments)), tuple(sorted(options.items())))
        stand_ins = [_stand_in(argument) for argument in arguments]
        self._asked.setdefault(key, partial(kernel.warmup, *stand_ins, grid=grid, **options))

    def start(self) -> None:
        """Start to compile: after all kernels were noted, because the threads would slow down the code that asks."""
        device, threads = torch.cuda.current_device(), min(_MOST_THREADS, os.cpu_count() or 1)
        pool = ThreadPoolExecutor(threads, "kernels", lambda: torch.cuda.set_device(device))
        self._running = [pool.submit(compile_one) for compile_one in self._asked.values()]
        pool.shutdown(wait=False)

    def finish(self) -> None:
        """Wait for all kernels. One that failed fails again, with its reason, when it is launched."""
        wait(self._running)


_compiler: _Compiler | None = None
_compile_only = False
"""Module variables, not context variables: autograd launches kernels from threads of its own."""


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Launch a kernel; within `compile_only`, compile it and do not run it."""
    global _compiler
    if _compiler is not None:
        if _compile_only:
            _compiler.add(kernel, grid, arguments, options)
            return
        _compiler.finish()
        _compiler = None
    kernel[grid](*arguments, **options)


@contextmanager
def compile_only() -> Iterator[None]:
    """Compile the kernels that the code within would launch; what they would have computed is undefined.

    Compiling goes on after the end of the context. The next launch waits for it.
    """
    global _compiler, _compile_only
    if _compiler is not None:
        _compiler.finish()
    _compiler, _compile_only = _Compiler(), True
    try:
        yield
    finally:
        _compile_only = False
        _compiler.start()


def _kind(parameter: Any, argument: Any) -> Any:
    """What Triton's choice of a compiled kernel depends on, at most."""
    if isinstance(argument, Tensor):
        return argument.dtype, _is_aligned(argument)
    return type(argument) if parameter.do_not_specialize else argument


def _stand_in(argument: Any) -> Any:
    """An argument to compile for that keeps no graph alive: Triton takes a dtype for an aligned tensor of it."""
    if not isinstance(argument, Tensor):
        return argument
    return argument.dtype if _is_aligned(argument) else argument.detach()


def _is_aligned(tensor: Tensor) -> bool:
    return tensor.data_ptr() % 16 == 0

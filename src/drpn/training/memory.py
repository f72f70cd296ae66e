"""Reuse freed memory between the steps of a training on a CPU."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Option numbers of mallopt, from malloc.h."""
_KEEP_FREED = {_MMAP_MAX: 0, _TRIM_THRESHOLD: -1, _TOP_PAD: 64 << 20}
_GLIBC_DEFAULTS = {_MMAP_MAX: 65_536, _TRIM_THRESHOLD: 128 << 10, _TOP_PAD: 128 << 10}


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep the memory of freed tensors in the process while the block runs.

    Otherwise the C library returns large blocks to the system, which maps and zeroes every page again at the next step.
    Does nothing if the C library has no mallopt.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        yield
        return
    _set_options(library, _KEEP_FREED)
    try:
        yield
    finally:
        _set_options(library, _GLIBC_DEFAULTS)
        library.malloc_trim(0)


def _set_options(library: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        library.mallopt(option, value)

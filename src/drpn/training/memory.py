"""Memory that one step of a training on a CPU gives back and the next one takes again."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Names of malloc.h."""
_KEEP = {_MMAP_MAX: 0, _TRIM_THRESHOLD: -1, _TOP_PAD: 64 << 20}
_USUAL = {_MMAP_MAX: 65_536, _TRIM_THRESHOLD: 128 << 10, _TOP_PAD: 128 << 10}
"""What glibc begins with."""


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Within the block large tensors that are given back stay with the process.

    The C library returns them to the system otherwise, which maps and zeroes every page anew at the next step. Where it
    cannot be told to keep them, nothing changes.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        yield
        return
    _set(library, _KEEP)
    try:
        yield
    finally:
        _set(library, _USUAL)
        library.malloc_trim(0)


def _set(library: ctypes.CDLL, options: dict[int, int]) -> None:
    for option, value in options.items():
        library.mallopt(option, value)

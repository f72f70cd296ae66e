"""Freed memory is reused inside the block and returned to the system afterwards."""

import ctypes
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from drpn.training.memory import keep_freed_memory


def new_pages() -> int:
    """Return how many pages the system maps while ten tensors of 48 MB are made and freed in turn."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(12 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    """Return the bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no mallopt")
def test_pages_are_mapped_once() -> None:
    """In a subprocess, whose memory is not fragmented by other tests."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def pages_are_mapped_once() -> None:
    usual = new_pages()
    with keep_freed_memory():
        new_pages()
        reused, held = new_pages(), resident()
    assert reused < usual / 10, (reused, usual)
    assert resident() < held - (40 << 20), (resident(), held)  # returned to the system after the block


def test_errors_in_the_block_propagate() -> None:
    with pytest.raises(ZeroDivisionError), keep_freed_memory():
        raise ZeroDivisionError


if __name__ == "__main__":
    pages_are_mapped_once()

"""Within the block memory that is given back is taken again, page by page as it was."""

import ctypes
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from drpn.training.memory import keep_freed_memory


def new_pages() -> int:
    """How many pages the system maps for ten tensors of 48 MB, one after the other."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(12 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    """Bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library cannot be told")
def test_pages_are_mapped_once() -> None:
    """In a process of its own, whose memory nothing else has cut into pieces."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def pages_are_mapped_once() -> None:
    usual = new_pages()
    with keep_freed_memory():
        new_pages()
        kept, held = new_pages(), resident()
    assert kept < usual / 10, (kept, usual)
    assert resident() < held - (40 << 20), (resident(), held)  # afterwards it is given back


def test_an_error_passes_through() -> None:
    with pytest.raises(ZeroDivisionError), keep_freed_memory():
        raise ZeroDivisionError


if __name__ == "__main__":
    pages_are_mapped_once()

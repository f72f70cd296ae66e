"""Arrays that are written in parts."""

import sys
from pathlib import Path

import numpy as np
import pytest

from drpn.dataset.arrays import ArrayWriter


def resident(file: Path) -> int:
    """How many kB of a mapped file are in this process's memory."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith(str(file)))
    return next(int(line.split()[1]) for line in lines[at:] if line.startswith("Rss:"))


def test_released_parts_are_in_the_file(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path)
    array = writer.empty("rows", (1000, 50), np.int32)
    for part in (slice(0, 600), slice(500, 1000)):
        array[part] += part.stop
        writer.release(array)
    expected = np.repeat([600, 1600, 1000], [500, 100, 400])
    assert (array == expected[:, None]).all()
    assert (np.load(tmp_path / "rows.npy") == expected[:, None]).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_released_parts_take_no_memory(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path)
    array = writer.empty("rows", (1_000_000,), np.int64)
    array[:] = 7
    assert resident(tmp_path / "rows.npy") > 7_000
    writer.release(array)
    assert resident(tmp_path / "rows.npy") < 100


def test_an_empty_array_is_released(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path)
    writer.release(writer.empty("rows", (0, 3), np.int32))

"""Waiting in tests: for what must happen sooner or later, however slow the machine is."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ENOUGH = 120.0
"""Seconds after which a test fails, whatever it waits for."""


def wait_until(
    condition: Callable[[], bool],
    *processes: subprocess.Popen[Any],
    pause: float = 0.01,
    log: Callable[[], str] = lambda: "",
) -> None:
    """Wait until the condition holds, looking each `pause` seconds, while `processes` run; a failure shows the log."""
    deadline = time.monotonic() + ENOUGH
    while not condition():
        for process in processes:
            assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"did not happen within {ENOUGH:.0f} seconds\n{log()}"
        time.sleep(pause)


@contextmanager
def killed_after_enough(process: subprocess.Popen[Any]) -> Iterator[None]:
    """Kill a process that is still read from after `ENOUGH` seconds, so that reading ends."""
    timer = threading.Timer(ENOUGH, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

"""Waiting in tests: for what must happen sooner or later, however slow the machine is."""

import subprocess
import time
from collections.abc import Callable

ENOUGH = 120.0
"""Seconds after which a test fails, whatever it waits for."""


def wait_until(
    condition: Callable[[], bool], process: subprocess.Popen[str] | None = None, *, pause: float = 0.01
) -> None:
    """Wait until the condition holds, looking each `pause` seconds; a process that must run meanwhile may be given."""
    deadline = time.monotonic() + ENOUGH
    while not condition():
        if process is not None:
            assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, f"did not happen within {ENOUGH:.0f} seconds"
        time.sleep(pause)

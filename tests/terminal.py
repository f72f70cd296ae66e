"""Start commands as a terminal does."""

import os
import signal
import subprocess
import sys
from typing import Any


def start_command(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start the command line in another process, which Ctrl-C stops even if it does not stop the tests.

    A script starts background jobs with SIGINT ignored, and their child processes inherit that. A signal with a handler
    in this process has its default effect in a new program.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "drpn.cli", *map(str, arguments)],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
    finally:
        signal.signal(signal.SIGINT, before)

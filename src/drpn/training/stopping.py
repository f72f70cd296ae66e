"""Ctrl-C between two steps, never within one."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """The user asked to stop; everything up to here is in the checkpoint."""


@contextmanager
def defer_interrupts() -> Iterator[Callable[[], bool]]:
    """Within the block the first Ctrl-C only sets a flag, which the callable reads; the second interrupts at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread alone
        yield asked.is_set
        return

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)

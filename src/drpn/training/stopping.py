"""Handle Ctrl-C between two steps of a training, never within one."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """The user pressed Ctrl-C; the checkpoint holds all completed steps."""


@contextmanager
def defer_interrupts() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C in the block only set a flag, which the callable reads; the second interrupts at once."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield requested.is_set
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()

    previous = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield requested.is_set
    finally:
        signal.signal(signal.SIGINT, previous)

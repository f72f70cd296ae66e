"""Compute the items of an iterator ahead of time, in a thread."""

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterator[Item], count: int) -> Iterator[Item]:
    """Yield the same items, computed by another thread up to `count` ahead; its errors are raised here."""
    ready: queue.Queue[tuple[Item, None] | tuple[None, BaseException | None]] = queue.Queue(count)
    closed = threading.Event()

    def put(entry: tuple[Item, None] | tuple[None, BaseException | None]) -> None:
        while not closed.is_set():
            with suppress(queue.Full):
                ready.put(entry, timeout=0.1)
                return

    def produce() -> None:
        try:
            for item in items:
                put((item, None))
                if closed.is_set():
                    return
            put((None, None))
        except BaseException as error:  # raised again in the consuming thread
            put((None, error))

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        closed.set()
        thread.join()

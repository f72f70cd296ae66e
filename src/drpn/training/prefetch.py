"""Work done before it is asked for."""

import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterator[Item], count: int) -> Iterator[Item]:
    """The same items, made by another thread, so many before they are asked for; what it raises is raised here."""
    made: queue.Queue[tuple[Item, None] | tuple[None, BaseException | None]] = queue.Queue(count)
    left = threading.Event()

    def give(item: tuple[Item, None] | tuple[None, BaseException | None]) -> None:
        while not left.is_set():
            with suppress(queue.Full):
                made.put(item, timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                give((item, None))
                if left.is_set():
                    return
            give((None, None))
        except BaseException as error:  # told to whoever takes the items
            give((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        left.set()
        thread.join()

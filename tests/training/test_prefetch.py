"""Items computed ahead of time by a thread."""

import threading
import time
from collections.abc import Iterator

import pytest

from drpn.training.prefetch import prefetch
from waiting import wait_until


def numbers(made: list[int], count: int) -> Iterator[int]:
    for number in range(count):
        made.append(number)
        yield number


def test_items_keep_their_order() -> None:
    assert list(prefetch(numbers([], 50), 3)) == list(range(50))
    assert list(prefetch(numbers([], 0), 3)) == []


def test_at_most_count_items_are_made_ahead() -> None:
    made: list[int] = []
    items = prefetch(numbers(made, 50), 3)
    assert next(items) == 0
    wait_until(lambda: len(made) >= 5)
    time.sleep(0.05)
    assert len(made) == 5  # one taken, three in the queue, one waiting to be queued
    assert list(items) == list(range(1, 50))


def test_an_error_reaches_the_consumer() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("no further")

    items = prefetch(failing(), 3)
    assert next(items) == 1
    with pytest.raises(ValueError, match="no further"):
        next(items)


def test_closing_early_ends_the_thread() -> None:
    before = threading.active_count()
    items = prefetch(numbers([], 1000), 2)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before

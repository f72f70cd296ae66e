"""Batches that a thread makes before they are asked for."""

import threading
import time
from collections.abc import Iterator

import pytest

from drpn.training.prefetch import prefetch


def counted(made: list[int], count: int) -> Iterator[int]:
    for number in range(count):
        made.append(number)
        yield number


def wait_for(made: list[int], count: int) -> None:
    start = time.monotonic()
    while len(made) < count and time.monotonic() - start < 5:
        time.sleep(0.005)


def test_gives_all_in_their_order() -> None:
    assert list(prefetch(counted([], 50), 3)) == list(range(50))
    assert list(prefetch(counted([], 0), 3)) == []


def test_is_so_many_ahead_and_no_more() -> None:
    made: list[int] = []
    items = prefetch(counted(made, 50), 3)
    assert next(items) == 0
    wait_for(made, 5)
    time.sleep(0.05)
    assert len(made) == 5  # one taken, three waiting, one in hand
    assert list(items) == list(range(1, 50))


def test_an_error_reaches_whoever_takes_the_items() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise ValueError("no further")

    items = prefetch(fails(), 3)
    assert next(items) == 1
    with pytest.raises(ValueError, match="no further"):
        next(items)


def test_leaves_no_thread_behind_when_nobody_takes_the_rest() -> None:
    before = threading.active_count()
    items = prefetch(counted([], 1000), 2)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before

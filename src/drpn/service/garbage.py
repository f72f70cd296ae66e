"""When Python looks for objects that only refer to each other.

It looks through all objects after a quarter of them is new, and nothing else runs meanwhile. With 10,000 users in
memory that takes a tenth of a second, every few thousand rankings. A service looks through new objects as always, and
through all of them once in an hour (`housekeeping`).
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER = 1_000_000


@contextmanager
def few_full_collections() -> Iterator[None]:
    """Look through all objects only when `gc.collect` is called, and never at those that exist already."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(before[0], before[1], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

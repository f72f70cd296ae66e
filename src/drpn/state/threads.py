"""Jobs that do not depend on each other, on two processors."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def run_together(*jobs: Callable[[], Result], threads: bool) -> list[Result]:
    """The results of the jobs; with `threads`, two run at a time, which pays if they compute with large arrays."""
    if not threads:
        return [job() for job in jobs]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(lambda job: job(), jobs))

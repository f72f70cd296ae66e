"""What a long job says of itself: a bar on a terminal, plain lines elsewhere, nothing when nobody listens."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

Advance = Callable[[int], None]
"""Say that so many more of the stage's units are done."""


class Progress(Protocol):
    """Names the stages of a job as they run, and passes on short remarks."""

    def stage(self, title: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """A stage that lasts as long as the block; `total` is its number of units, if that is known."""

    def note(self, text: str) -> None:
        """One line the user should see, such as how many words have a vector."""


class Silent:
    """For callers that want no word."""

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield lambda _: None

    def note(self, text: str) -> None:
        pass


class Lines:
    """One line for each finished stage, for logs and pipes."""

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:
        start = time.monotonic()
        next_word = start + 10.0
        done = 0

        def advance(units: int) -> None:
            nonlocal done, next_word
            done += units
            if total and time.monotonic() >= next_word:
                self.note(f"  {title}: {done:,} of {total:,}")
                next_word = time.monotonic() + 10.0

        yield advance
        self.note(f"{title}  {time.monotonic() - start:.1f} s")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Terminal:
    """A spinner or a bar for the running stage, a tick for each finished one."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:
        columns = [SpinnerColumn(), TextColumn("{task.description}")]
        counted = [BarColumn(), MofNCompleteColumn()] if total else []
        start = time.monotonic()
        with Bars(*columns, *counted, TimeElapsedColumn(), console=self._console, transient=True) as bars:
            task = bars.add_task(title, total=total)
            yield lambda units: bars.advance(task, units)
        self.note(f"[green]✓[/] {title}  [dim]{time.monotonic() - start:.1f} s[/]")

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False)


def for_terminal() -> Progress:
    """Bars where standard error is a terminal, lines elsewhere."""
    console = Console(stderr=True)
    return Terminal(console) if console.is_terminal else Lines()

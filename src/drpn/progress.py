"""Progress of long jobs: bars on a terminal, plain lines elsewhere, or nothing."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from drpn.escape import terminal
from drpn.ranks import current

Advance = Callable[[int], None]
"""Call with the number of units that were completed since the last call."""


class Progress(Protocol):
    """Reports the stages of a job and short notes."""

    def stage(self, title: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Report a stage while the block runs; `total` is its number of units, if known."""

    def note(self, text: str) -> None:
        """Report one line, such as how many words have a vector."""


class Silent:
    """Reports nothing."""

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:  # noqa: ARG002
        yield lambda _: None

    def note(self, text: str) -> None:
        pass


def _print_to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Lines:
    """Writes one line per finished stage, for log files, pipes and notebooks; by default to standard error."""

    def __init__(self, write: Callable[[str], object] = _print_to_stderr) -> None:
        self._write = write

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:
        start = time.monotonic()
        next_report = start + 10.0
        done = 0

        def advance(units: int) -> None:
            nonlocal done, next_report
            done += units
            if total and time.monotonic() >= next_report:
                self.note(f"  {title}: {done:,} of {total:,}")
                next_report = time.monotonic() + 10.0

        yield advance
        self.note(f"{title}  {time.monotonic() - start:.1f} s")

    def note(self, text: str) -> None:
        self._write(terminal(text))


class Terminal:
    """Shows a spinner or a bar for the running stage and a tick for each finished one."""

    def __init__(self, console: Console) -> None:
        self._console = console

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:
        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        counted = [BarColumn(), MofNCompleteColumn()] if total else []
        start = time.monotonic()
        with Bars(*columns, *counted, TimeElapsedColumn(), console=self._console, transient=True) as bars:
            task = bars.add_task(terminal(title), total=total)
            yield lambda units: bars.advance(task, units)
        seconds = f"{time.monotonic() - start:.1f} s"
        self._console.print(Text.assemble(("✓", "green"), f" {terminal(title)}  ", (seconds, "dim")))

    def note(self, text: str) -> None:
        self._console.print(Text(terminal(text)))


def for_terminal() -> Progress:
    """Return bars if standard error is a terminal, lines otherwise; nothing in all but the first of some processes."""
    if not current().first:
        return Silent()
    console = Console(stderr=True)
    return Terminal(console) if console.is_terminal else Lines()

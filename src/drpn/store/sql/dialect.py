"""Where the databases differ: connections as the shared code uses them, and the parts of statements that differ.

Both SQLite and PostgreSQL understand the shared statements. Parameters are bound at `?`. The column `user` is quoted,
since PostgreSQL has a keyword of that name.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""

    def fetchone(self) -> Any:
        """The next row; None if there is none."""

    def fetchall(self) -> list[Any]:
        """The remaining rows."""

    def __iter__(self) -> Iterator[Any]:
        """The remaining rows, one by one."""


class Connection(Protocol):
    """A connection within a transaction."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """Execute a statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object:
        """Execute a statement for each row of parameters."""


@dataclass(frozen=True)
class Dialect:
    """Parts of statements that differ."""

    last_sequence: str
    """Statement whose only value is the number of the newest event, even if it was deleted since."""
    event_key: tuple[str, ...]
    """The columns by which an event is found quickly; `impressions` has them, too."""
    after: str
    """Condition on events with higher numbers; each `?` is the number."""
    clicks: str
    """Expression: the clicks of an impression as JSON, a list of story and time for each."""
    listed: str
    """Condition: a text is in a list, which is given as JSON."""
    expires: str
    """Expression: when a story of the table `news` expires."""

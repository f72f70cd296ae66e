"""One thread that writes, and makes the changes of many callers durable with one sync.

Callers put changes into a queue of limited length. The thread takes all that wait, applies them in one transaction,
commits, and resolves their futures. While it waits for the disk, the next group gathers.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from drpn.errors import DrpnError, StoreBusyError, StoreError
from drpn.store.sql.dialect import Connection

T = TypeVar("T")
_RETRY_SECONDS = 0.05
"""How often to try again to wipe while somebody reads older data."""


class Session(Protocol):
    """A database as the thread uses it; nobody else does."""

    def group(self) -> AbstractContextManager[Connection]:
        """A transaction. After the block it is committed and on the disk, or this raises."""

    def change(self) -> AbstractContextManager[None]:
        """A part of a transaction. If the block raises, it alone is undone, unless that ends the group."""

    def ends_group(self, error: Exception) -> bool:
        """Whether nothing of the group can be written after this error of its last change."""

    def can_split(self, error: Exception) -> bool:
        """Whether the changes of a group that failed are to be tried one by one."""

    def explain(self, error: Exception) -> DrpnError:
        """What to tell the callers of a group that failed."""

    def wipe(self) -> bool:
        """Remove the bytes of deleted rows; returns whether that is done. Raises `StoreError` if it fails."""


@dataclass
class _Waiting:
    """A change, the future of its caller, and after it was applied its result or error."""

    change: Callable[[Connection], Any]
    future: Future[Any]
    wipe: bool
    result: Any = None
    error: Exception | None = None

    def resolve(self) -> None:
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class GroupWriter:
    """Applies changes in the order of their arrival, in groups."""

    def __init__(
        self,
        session: Session,
        *,
        waiting: int,
        group: int,
        later: Callable[[Connection, Sequence[Any]], object],
        later_waiting: int,
        later_seconds: float,
    ) -> None:
        """`later` writes what `append` was given; at most `later_waiting` such things wait."""
        self._session, self._limit, self._group = session, waiting, group
        self._write_later, self._later_limit, self._later_seconds = later, later_waiting, later_seconds
        self._changes, self._later = deque[_Waiting](), deque[Any]()
        self._later_due = 0.0
        self._wiping = list[_Waiting]()  # written, and resolved after wiping
        self._wake, self._closing = threading.Condition(), False
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="store writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of changes that wait."""
        return len(self._changes)

    def submit(self, change: Callable[[Connection], T], *, wipe: bool = False) -> Future[T]:
        """Apply a change; the future resolves after its commit.

        With `wipe` it resolves after the bytes of all deleted rows are gone from the files.
        """
        future: Future[T] = Future()
        with self._wake:
            if self._closing:
                raise StoreError("the store is closed; open it again")
            if len(self._changes) >= self._limit:
                raise StoreBusyError(f"{self._limit:,} changes wait to be written; try again later")
            self._changes.append(_Waiting(change, future, wipe))
            self._wake.notify()
        return future

    def append(self, things: Sequence[Any]) -> int:
        """Write things soon, with the next group or alone; returns the number dropped because too many wait."""
        with self._wake:
            if self._closing:
                raise StoreError("the store is closed; open it again")
            if not self._later:
                self._later_due = time.monotonic() + self._later_seconds
            taken = things[: max(0, self._later_limit - len(self._later))]
            self._later.extend(taken)
            dropped = len(things) - len(taken)
            self.dropped += dropped
            if len(self._later) >= self._group:  # otherwise the thread, which looks often enough, finds them
                self._wake.notify()
        return dropped

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._closing and not self._changes and not self._is_later_due():
                    if not self._wake.wait(self._pause()) and self._wiping:
                        break
                changes = [self._changes.popleft() for _ in range(min(self._group, len(self._changes)))]
                later = [self._later.popleft() for _ in range(self._later_now(changes))]
                done = self._closing and not changes and not later
            if changes or later:
                self._write([waiting for waiting in changes if waiting.future.set_running_or_notify_cancel()], later)
            self._wipe(last=done)
            if done:
                return

    def _is_later_due(self) -> bool:
        return bool(self._later) and (len(self._later) >= self._group or time.monotonic() >= self._later_due)

    def _later_now(self, changes: list[_Waiting]) -> int:
        """How many of the waiting things to write with a group: all before data are wiped, as they may hold some."""
        if any(waiting.wipe for waiting in changes):
            return len(self._later)
        return min(self._group, len(self._later)) if changes or self._closing or self._is_later_due() else 0

    def _pause(self) -> float:
        """Seconds until there may be something to do even if nobody calls."""
        pause = max(0.0, self._later_due - time.monotonic()) if self._later else self._later_seconds
        return min(pause, _RETRY_SECONDS) if self._wiping else pause

    def _write(self, changes: list[_Waiting], later: list[Any]) -> None:
        """Apply and commit changes; then resolve their futures."""
        rest = _Waiting(lambda connection: self._write_later(connection, later), Future(), wipe=False)
        if group := [rest, *changes] if later else changes:
            self._write_group(group)
        if rest.error is not None:
            self.dropped += len(later)
        for waiting in changes:
            if waiting.wipe and waiting.error is None:
                self._wiping.append(waiting)
            else:
                waiting.resolve()

    def _write_group(self, group: list[_Waiting]) -> None:
        """Apply and commit changes, or set their errors."""
        try:
            with self._session.group() as connection:
                for waiting in group:
                    self._apply(connection, waiting)
        except Exception as error:  # of whatever kind: the callers wait for an answer, and the thread must go on
            if len(group) > 1 and self._session.can_split(error):
                for waiting in group:
                    waiting.result = waiting.error = None
                    self._write_group([waiting])
                return
            for waiting in group:  # whatever the result would have been
                waiting.error = self._session.explain(error)

    def _apply(self, connection: Connection, waiting: _Waiting) -> None:
        """Apply one change whole or not at all."""
        try:
            with self._session.change():
                waiting.result = waiting.change(connection)
        except Exception as error:  # of whatever kind: the other changes of the group are to be written
            if self._session.ends_group(error):
                raise
            waiting.error = error if isinstance(error, DrpnError) else StoreError(f"the change failed: {error!r}")

    def _wipe(self, *, last: bool) -> None:
        """Wipe if a change asked for it; readers of older data may delay that."""
        if not self._wiping:
            return
        try:
            done = self._session.wipe()
            error = None if done or not last else "other processes read the store"
        except StoreError as failure:
            done, error = False, str(failure)
        if not done and error is None:
            return
        for waiting in self._wiping:
            if error is not None:
                waiting.error = StoreError(
                    f"the user is erased, but bytes remain in the files: {error}; open the store again to remove them"
                )
            waiting.resolve()
        self._wiping = []

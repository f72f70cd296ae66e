"""Messages between a supervisor and a worker: JSON documents over a pair of sockets."""

import json
import threading
from multiprocessing.connection import Connection
from typing import Any

from drpn import errors
from drpn.errors import DrpnError

Message = dict[str, Any]
"""Its kind under "kind", and facts."""


class Channel:
    """One end. Any thread may send; one receives."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self._connection, self._sending = connection, threading.Lock()

    def fileno(self) -> int:
        """The number of the socket, to wait for messages."""
        return self._connection.fileno()

    def send(self, kind: str, **facts: Any) -> None:
        """Send a message; one to a process that is gone is lost, which is noticed elsewhere."""
        with self._sending:
            try:
                self._connection.send_bytes(json.dumps({"kind": kind, **facts}).encode())
            except OSError:
                return

    def receive(self) -> Message | None:
        """The next message; None if the other end is closed."""
        try:
            message: Message = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            return None
        return message

    def waiting(self) -> bool:
        """Whether there is a message, or the other end is closed."""
        try:
            return self._connection.poll()
        except OSError:
            return False

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


def as_facts(error: Exception) -> Message:
    """An error as it is sent; of an unexpected one only its kind, since its text may hold data."""
    if isinstance(error, DrpnError):
        return {"error": type(error).__name__, "message": str(error), "hint": error.hint}
    return {"error": type(error).__name__, "message": "", "hint": ""}


def as_error(facts: Message) -> Exception:
    """The error that was sent."""
    kind = getattr(errors, facts["error"], None)
    if isinstance(kind, type) and issubclass(kind, DrpnError):
        error = DrpnError.__new__(kind)
        DrpnError.__init__(error, facts["message"], hint=facts["hint"])
        return error
    return RuntimeError(f"a worker failed: {facts['error']}")

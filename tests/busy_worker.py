"""The main function of a worker process that reports more than its pipe holds."""

from multiprocessing.connection import Connection
from typing import Any


def fill_the_pipe(connection: "Connection[Any, Any]", threads: int) -> None:  # noqa: ARG001
    """Send 4 MB, then end after one message of the main process."""
    for _ in range(4_000):
        connection.send(("note", "x" * 1_000))
    connection.recv()

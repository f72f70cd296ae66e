"""A temporary folder that the workers of one service share.

Its lock is held by the supervisor and all its workers, and ends with the last of them. A folder without a lock is what
killed processes left behind; the next service removes it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "drpn-workers-"
_LOCK = "lock"


@dataclass(frozen=True)
class SharedFolder:
    """The folder, and the number of the open file that locks it."""

    path: Path
    lock: int

    @property
    def metrics(self) -> Path:
        """Where `prometheus_client` keeps the figures of each worker."""
        return self.path / "metrics"


@contextmanager
def shared_folder() -> Iterator[SharedFolder]:
    """A new folder that only its owner can enter, removed after the block."""
    remove_left_behind(Path(tempfile.gettempdir()))
    made = Path(tempfile.mkdtemp(prefix="drpn-new-"))
    lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    path = made.with_name(_PREFIX + made.name.removeprefix("drpn-new-"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made.rename(path)  # no folder of this name is without a lock while it is used
        folder = SharedFolder(path, lock)
        folder.metrics.mkdir()
        yield folder
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def remove_left_behind(where: Path) -> None:
    """Remove the folders of services whose processes were all killed."""
    for path in where.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # in use, or of another user
            lock = os.open(path / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path)
            finally:
                os.close(lock)

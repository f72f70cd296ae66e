"""Write folders and files atomically: they appear complete or not at all."""

import errno
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from drpn.errors import OutputError

MARK = ".drpn"
"""File that marks the folders made by `atomic_folder`; no other folder is ever replaced."""
_UMASK_LOCK = threading.Lock()
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a scratch folder that is renamed to `target` when the block succeeds, and removed when it fails."""
    target = Path(os.path.abspath(target))  # noqa: PTH100 (resolve() would follow `target` if it is a link)
    if target.exists() and not _is_empty_folder(target):
        if not replace:
            raise OutputError(
                f"{target} exists; choose another folder or replace it", hint="pass --force to replace it"
            )
        if not (target / MARK).exists():
            raise OutputError(f"{target} was not made by drpn and will not be replaced; choose another folder")
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    try:
        with explain_write_errors(target):
            (scratch / MARK).touch()
            yield scratch
            scratch.chmod(0o777 & ~_umask())  # mkdtemp makes a private folder
            _move_into_place(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a scratch file that is renamed to `target` when the block succeeds, and removed when it fails."""
    scratch = target.with_name(f".{target.name}.partial")
    try:
        with explain_write_errors(target):
            yield scratch
            scratch.chmod(0o666 & ~_umask())  # safetensors makes private files
            scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder, which is created if missing; fail if another process holds it."""
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / ".lock").open("w")
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(f"another process is using {folder}; wait for it or choose another folder") from error
        try:
            yield
        finally:
            Path(stream.name).unlink(missing_ok=True)


@contextmanager
def explain_write_errors(target: Path) -> Iterator[None]:
    """Turn system errors within the block into an OutputError that says why `target` cannot be written."""
    try:
        yield
    except SafetensorError as error:  # its text contains the number of the system error
        if any(f"os error {number})" in str(error) for number in _NO_SPACE):
            raise OutputError(f"{target}: the disk is full; free some space or choose another place") from error
        raise OutputError(f"{target} cannot be written: {error}; choose another place") from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise OutputError(f"{target}: the disk is full; free some space or choose another place") from error
        if error.filename is not None and not _inside(Path(os.fsdecode(error.filename)), target.parent):
            raise  # an input could not be read; the output is not at fault
        raise OutputError(f"{target} cannot be written: {error.strerror or error}; choose another place") from error


def _move_into_place(scratch: Path, target: Path) -> None:
    if not target.exists():
        scratch.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    target.rename(old / "replaced")
    scratch.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _inside(path: Path, folder: Path) -> bool:
    path, folder = path.absolute(), folder.absolute()
    return folder in [path, *path.absolute().parents] or path in folder.parents


def _umask() -> int:
    with _UMASK_LOCK:  # the umask can only be read by setting it, and a thread writes checkpoints
        mask = os.umask(0)
        os.umask(mask)
    return mask

"""Folders and files that are either whole or not there."""

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
"""In every folder that `atomic_folder` made; no other folder is ever replaced."""
_ONE_AT_A_TIME = threading.Lock()
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A scratch folder beside `target` that takes its name when the block ends well, and vanishes when it does not."""
    target = Path(os.path.abspath(target))  # noqa: PTH100 (resolve() would follow a link that `target` may be)
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
            scratch.chmod(0o777 & ~_umask())  # mkdtemp makes it private
            _put_in_place(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """A scratch file beside `target` that takes its name when the block ends well."""
    scratch = target.with_name(f".{target.name}.partial")
    try:
        with explain_write_errors(target):
            yield scratch
            scratch.chmod(0o666 & ~_umask())  # safetensors makes its files private
            scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Refuse a folder in which another process is at work; it is made if it is not there."""
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        stream = (folder / ".lock").open("w")
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(f"another process is at work in {folder}; wait for it or choose another place") from error
        try:
            yield
        finally:
            Path(stream.name).unlink(missing_ok=True)


@contextmanager
def explain_write_errors(target: Path) -> Iterator[None]:
    """Tell in one line why `target` could not be written."""
    try:
        yield
    except SafetensorError as error:  # which holds what the system said as words
        if any(f"os error {number})" in str(error) for number in _NO_SPACE):
            raise OutputError(f"{target}: the disk is full; free some space or choose another place") from error
        raise OutputError(f"{target} cannot be written: {error}; choose another place") from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise OutputError(f"{target}: the disk is full; free some space or choose another place") from error
        if error.filename is not None and not _inside(Path(os.fsdecode(error.filename)), target.parent):
            raise  # an input that could not be read, not our output
        raise OutputError(f"{target} cannot be written: {error.strerror or error}; choose another place") from error


def _put_in_place(scratch: Path, target: Path) -> None:
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
    with _ONE_AT_A_TIME:  # it can only be read by setting it, and checkpoints are written by a thread
        mask = os.umask(0)
        os.umask(mask)
    return mask

"""Write folders and files atomically: they appear complete or not at all."""

import errno
import fcntl
import functools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from safetensors import SafetensorError

from drpn.errors import OutputError

MARK = ".drpn"
"""File that marks the folders made by `atomic_folder`; no other folder is ever replaced."""
LOCK = ".drpn.lock"
"""File that is locked while a process writes: in the folder, or next to the target, with its name before it."""
P = ParamSpec("P")
T = TypeVar("T")
_UMASK_LOCK = threading.Lock()
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


@contextmanager
def atomic_folder(target: Path, *, replace: bool = False, locked: bool = False) -> Iterator[Path]:
    """Yield a scratch folder that is renamed to `target` when the block succeeds, and removed when it fails.

    One process writes to a target at a time; `locked` says that the caller holds `lock_target` already. A folder that
    someone else puts in the place of the target meanwhile is left as it is.
    """
    target = _absolute(target)
    with nullcontext() if locked else lock_target(target):
        old = _folder_to_replace(target, replace=replace)
        with explain_write_errors(target):
            scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
        try:
            with explain_write_errors(target):
                (scratch / MARK).touch()
                yield scratch
                scratch.chmod(0o777 & ~_umask())  # mkdtemp makes a private folder
                _move_into_place(scratch, target, old)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a scratch file that is renamed to `target` when the block succeeds, and removed when it fails."""
    scratch = target.with_name(f".{target.name}.partial")
    with explain_write_errors(target), _lock(scratch, target):
        yield scratch
        scratch.chmod(0o666 & ~_umask())  # safetensors makes private files
        scratch.replace(target)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder, which is created if missing; fail if another process holds it.

    Folders that were created for the lock and are still empty afterwards are removed.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with explain_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / LOCK, folder):
            yield
    finally:
        for path in missing:
            with suppress(OSError):
                path.rmdir()


@contextmanager
def lock_target(target: Path) -> Iterator[None]:
    """Hold a lock next to a file or folder that does not have to exist; fail if another process holds it."""
    target = _absolute(target)
    with explain_write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.parent / f".{target.name}{LOCK}", target):
        yield


def one_writer(job: Callable[Concatenate[Path, Path, P], T]) -> Callable[Concatenate[Path, Path, P], T]:
    """Lock the output folder, the second argument of the job, while the job runs."""

    @functools.wraps(job)
    def locked(folder: Path, out: Path, /, *arguments: P.args, **options: P.kwargs) -> T:
        with lock_folder(out):
            return job(folder, out, *arguments, **options)

    return locked


@contextmanager
def _lock(file: Path, target: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created and removed; the system frees the lock of a dead process.

    On a file system without locks, as on some clusters, everyone may write.
    """
    with explain_write_errors(target):
        while True:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(descriptor)
                raise OutputError(f"another process is using {target}; wait for it or choose another place") from error
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    os.close(descriptor)
                    raise
            if _is_at(descriptor, file):
                break
            os.close(descriptor)  # the process that held the lock removed the file after we had opened it
    try:
        yield
    finally:
        if _is_at(descriptor, file):
            file.unlink()
        os.close(descriptor)


def _is_at(descriptor: int, file: Path) -> bool:
    """Whether the open file still has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.lstat())
    except FileNotFoundError:
        return False


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


def _folder_to_replace(target: Path, *, replace: bool) -> os.stat_result | None:
    """The identity of the folder to replace, None if there is none; refuse folders that must not be replaced."""
    if target.is_symlink():
        raise OutputError(f"{target} is a symbolic link; name the folder itself")
    if not target.exists() or _is_empty_folder(target):
        return None
    if not replace:
        raise OutputError(f"{target} exists; choose another folder or replace it", hint="pass --force to replace it")
    if not (target / MARK).exists():
        raise OutputError(f"{target} was not made by drpn and will not be replaced; choose another folder")
    return target.stat()


def _move_into_place(scratch: Path, target: Path, old: os.stat_result | None) -> None:
    """Rename the scratch folder to the target; replace only `old`, never another folder that is there by now."""
    if old is None:
        _rename(scratch, target)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".old", dir=target.parent))
    try:
        target.rename(aside / "replaced")
    except FileNotFoundError:  # someone removed it meanwhile
        aside.rmdir()
        _rename(scratch, target)
        return
    try:
        if not os.path.samestat((aside / "replaced").lstat(), old):
            raise _appeared(target)
        _rename(scratch, target)
    except OutputError:
        (aside / "replaced").rename(target)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _rename(scratch: Path, target: Path) -> None:
    """Rename a folder; the system refuses if the target exists, unless it is an empty folder."""
    try:
        scratch.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _appeared(target) from error
        raise


def _appeared(target: Path) -> OutputError:
    return OutputError(f"{target} was made by someone else meanwhile and is left as it is; choose another folder")


def _absolute(target: Path) -> Path:
    """The absolute path of a target, which may be a link: links are not followed."""
    return Path(os.path.abspath(target))  # noqa: PTH100 (resolve() would follow them)


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

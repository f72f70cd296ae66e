"""File names that come from a manifest: they stay inside the folder of the manifest."""

import re
from pathlib import Path
from typing import Any

from drpn.errors import DrpnError

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
"""One part of a name: a plain file name, without spaces, drive letters, hidden names and `..`."""


def file_inside(folder: Path, name: Any, *, error: type[DrpnError], remedy: str) -> Path:
    """Return the path of the file `name`, written with `/`, in the folder.

    Raise `error` if the name could lead out of the folder, or if a part of it is a symbolic link. The folder itself may
    be a link.
    """
    if not isinstance(name, str) or not all(_PART.fullmatch(part) for part in name.split("/")):
        raise error(f"{folder} lists the file {name!r}, which is not a plain name inside it; {remedy}")
    path = folder
    for part in name.split("/"):
        path = path / part
        if path.is_symlink():
            raise error(f"{path} is a symbolic link; {remedy}")
    return path


def check_names(folder: Path, names: Any, *, error: type[DrpnError], remedy: str) -> None:
    """Check all names of a manifest, which is damaged if they are not the keys of a table."""
    if not isinstance(names, dict):
        raise error(f"{folder} lists {names!r} instead of its files; {remedy}")
    for name in names:
        file_inside(folder, name, error=error, remedy=remedy)

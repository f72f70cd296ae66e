"""JSON manifests that say which format they are, and notice when a byte of them has changed."""

import hashlib
import json
from pathlib import Path
from typing import Any

from drpn.errors import DrpnError


def write_versioned(file: Path, document: dict[str, Any]) -> None:
    """Write the document with a checksum of itself."""
    sealed = document | {"checksum": _checksum(document)}
    file.write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")


def read_versioned(file: Path, *, version: int, of: str, error: type[DrpnError], remedy: str) -> dict[str, Any]:
    """The manifest `of` something, in this format and unchanged; else an `error` that tells the `remedy`."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        found = document["format"]
    except (ValueError, KeyError, TypeError) as cause:
        raise error(f"{file} is not the manifest of {of}; {remedy}") from cause
    if found != version:
        raise error(f"{file.parent} has format {found}, this drpn reads {version}; {remedy}, or update drpn")
    checksum = document.pop("checksum", None)
    if checksum != _checksum(document):
        raise error(f"{file} has changed since it was written; {remedy}")
    sound: dict[str, Any] = document
    return sound


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

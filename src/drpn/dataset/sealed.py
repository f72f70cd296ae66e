"""JSON documents that notice when a byte of them has changed."""

import hashlib
import json
from pathlib import Path
from typing import Any


class BrokenSealError(ValueError):
    """The document is not what was written."""


def write_sealed(file: Path, document: dict[str, Any]) -> None:
    """Write the document with a checksum of itself."""
    sealed = document | {"checksum": _checksum(document)}
    file.write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")


def read_sealed(file: Path) -> dict[str, Any]:
    """The document; ValueError where it is none, BrokenSealError where it has changed."""
    document = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError("not a document of drpn")
    return document


def check_seal(document: dict[str, Any]) -> dict[str, Any]:
    """The document without its checksum, which must fit."""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    if document.get("checksum") != _checksum(rest):
        raise BrokenSealError("changed")
    return rest


def _checksum(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

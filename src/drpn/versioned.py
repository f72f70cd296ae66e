"""JSON files that state their format number and can detect changes by a checksum."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from drpn.errors import DrpnError

_NO_KEYS: Mapping[str, type] = MappingProxyType({})


def write_versioned(file: Path, document: dict[str, Any], *, checksum: bool = True) -> None:
    """Write the document, which has a key `format`, by default with a checksum of its content."""
    if checksum:
        document = document | {"checksum": fingerprint(document)}
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_versioned(
    file: Path,
    *,
    version: int,
    of: str,
    error: type[DrpnError],
    remedy: str,
    what: str = "manifest",
    keys: Mapping[str, type] = _NO_KEYS,
    checksum: bool = True,
) -> dict[str, Any]:
    """Return the document; raise `error`, with the `remedy`, if it is damaged, changed or of another format.

    Messages call it the `what` of `of`, such as the manifest of a bundle. Every key in `keys` must be present and
    have its type.
    """
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        stored_version = document["format"]
    except (ValueError, KeyError, TypeError) as cause:
        raise error(f"{file} is not the {what} of {of}; {remedy}") from cause
    if stored_version != version:
        raise error(
            f"{file.parent} has format {stored_version}, this version of drpn reads {version}; {remedy}, or update drpn"
        )
    if not all(isinstance(document.get(key), kind) for key, kind in keys.items()):
        raise error(f"{file} is not the {what} of {of}; {remedy}")
    if checksum and document.pop("checksum", None) != fingerprint(document):
        raise error(f"{file} has changed since it was written; {remedy}")
    return document


def fingerprint(document: dict[str, Any]) -> str:
    """The sha256 of the document as JSON; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

"""Which reader fits which folder."""

from pathlib import Path
from types import ModuleType
from typing import Literal

from drpn.errors import LogError
from drpn.logs import ebnerd, events, mind
from drpn.logs.engines.engine import Engine
from drpn.logs.tables import Logs

Format = Literal["auto", "mind", "ebnerd", "events"]
_READERS: dict[str, ModuleType] = {"mind": mind, "ebnerd": ebnerd, "events": events}


def read(folder: Path, engine: Engine, *, format: Format = "auto", history: bool = False) -> Logs:
    """The tables of a folder of logs, in the named format or the one its files look like."""
    if not folder.exists():
        raise LogError(f"{folder} is missing; name a folder of logs")
    if not folder.is_dir():
        raise LogError(f"{folder} is a file; name the folder that holds the logs")
    name = format if format != "auto" else detect(folder)
    logs: Logs = _READERS[name].read(folder, engine, history=history)
    return logs


def detect(folder: Path) -> str:
    """The name of the format of a folder."""
    found = [name for name, reader in _READERS.items() if reader.looks_like(folder)]
    if len(found) != 1:
        layouts = "; ".join(reader.LAYOUT for reader in _READERS.values())
        seen = f"looks like {' and '.join(found)}" if found else "holds no logs that are known"
        raise LogError(
            f"{folder} {seen}; name its format. {layouts}",
            hint="pass --format with one of mind, ebnerd, events",
        )
    return found[0]

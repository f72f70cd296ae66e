"""Choose the reader for a folder of logs."""

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
    """The tables of a folder of logs, in the given format or the detected one."""
    if not folder.exists():
        raise LogError(f"{folder} is missing; name a folder of logs")
    if not folder.is_dir():
        raise LogError(f"{folder} is a file; name the folder that holds the logs")
    name = format if format != "auto" else detect(folder)
    logs: Logs = _READERS[name].read(folder, engine, history=history)
    return logs


def detect(folder: Path) -> str:
    """The name of the format of a folder."""
    matches = [name for name, reader in _READERS.items() if reader.looks_like(folder)]
    if len(matches) != 1:
        layouts = "; ".join(reader.LAYOUT for reader in _READERS.values())
        problem = f"looks like {' and '.join(matches)}" if matches else "holds no logs in a known format"
        raise LogError(
            f"{folder} {problem}; name its format. {layouts}",
            hint="pass --format with one of mind, ebnerd, events",
        )
    return matches[0]

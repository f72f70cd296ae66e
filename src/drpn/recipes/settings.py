"""The sections of a settings file, and which dataclass each becomes."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from drpn import config
from drpn.dataset.settings import DataSettings


@dataclass(frozen=True)
class Settings:
    """Every section of a settings file."""

    data: DataSettings


def load_settings(file: Path | None = None, sets: Iterable[str] = ()) -> Settings:
    """The defaults, then the TOML file, then each `section.key=value`."""
    return Settings(**config.load({"data": DataSettings}, file=file, sets=sets))

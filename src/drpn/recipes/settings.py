"""The sections of a settings file, and which dataclass each becomes."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drpn import config
from drpn.dataset.settings import DataSettings
from drpn.errors import SettingsError
from drpn.models.catalogue import CATALOGUE, Entry
from drpn.training.settings import TrainingSettings


@dataclass(frozen=True)
class Settings:
    """Every section of a settings file."""

    data: DataSettings
    model: Any
    training: TrainingSettings


def load_settings(file: Path | None = None, sets: Iterable[str] = (), *, model: str = "drpn") -> Settings:
    """The defaults of the model, then the TOML file, then each `section.key=value`."""
    defaults = {"data": DataSettings(), "model": entry(model).settings, "training": TrainingSettings()}
    return Settings(**config.load(defaults, file=file, sets=sets))


def entry(model: str) -> Entry:
    """The model of that name in the catalogue."""
    if model not in CATALOGUE:
        near = difflib.get_close_matches(model, CATALOGUE, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(CATALOGUE)}"
        raise SettingsError(f"there is no model '{model}'; {hint}")
    return CATALOGUE[model]

"""The sections of a settings file, and which dataclass each becomes."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import drpn
from drpn import config
from drpn.errors import SettingsError
from drpn.models.catalogue import CATALOGUE, Entry
from drpn.prepare.settings import DataSettings
from drpn.training.settings import TrainingSettings

SECTIONS = ("data", "model", "training")


@dataclass(frozen=True)
class Settings:
    """Every section of a settings file."""

    data: DataSettings
    model: Any
    training: TrainingSettings


def load_settings(
    file: Path | None = None, sets: Iterable[str] = (), *, model: str = "drpn", of_several: bool = False
) -> Settings:
    """The defaults of the model, then the TOML file, then each `section.key=value`.

    A file `of_several` models may say under `model` what only another of the catalogue has.
    """
    defaults = {"data": DataSettings(), "model": entry(model).settings, "training": training_defaults(model)}
    said, asked = config.read(SECTIONS, file=file), config.read(SECTIONS, sets=sets)
    if of_several:
        own, *others = (_keys(one) for one in (entry(model), *CATALOGUE.values()))
        elsewhere = set().union(*others) - own
        said["model"] = {key: value for key, value in said["model"].items() if key not in elsewhere}
    return Settings(**{name: config.build(defaults[name], said[name] | asked[name], section=name) for name in SECTIONS})


def load_data_settings(file: Path | None = None, sets: Iterable[str] = ()) -> DataSettings:
    """The section `data` alone: a file may say of several models what not all of them have."""
    said = config.read(SECTIONS, file=file, sets=sets)
    data: DataSettings = config.build(DataSettings(), said["data"], section="data")
    return data


def load_settings_of(
    models: Iterable[str], file: Path | None = None, sets: Iterable[str] = (), *, folder: Path | None = None
) -> dict[str, Settings]:
    """For each model its defaults, its own TOML file in `folder` if there is one, then what is said of all.

    Of `file` and `sets`, a setting of the section `model` reaches the models that have it.
    """
    own = {model: load_settings(model_config(folder, model), model=model) for model in models}
    said = config.read(SECTIONS, file=file, sets=sets)
    keys = {model: {field.name for field in fields(one.model)} for model, one in own.items()}
    for key in said["model"]:
        config.known(key, set().union(*keys.values()), f"none of the models has a setting 'model.{key}'")
    return {model: _with(one, said, keys[model], model) for model, one in own.items()}


def _keys(one: Entry) -> set[str]:
    return {field.name for field in fields(one.settings)}


def model_config(folder: Path | None, model: str) -> Path | None:
    """NAME.toml of the folder, where it has that."""
    file = folder / f"{model}.toml" if folder else None
    return file if file and file.is_file() else None


def _with(own: Settings, said: dict[str, config.Table], keys: set[str], model: str) -> Settings:
    said = said | {"model": {key: value for key, value in said["model"].items() if key in keys}}
    try:
        return Settings(**{name: config.build(getattr(own, name), table, section=name) for name, table in said.items()})
    except SettingsError as error:
        raise SettingsError(f"{model}: {error}", hint=error.hint) from error


def shipped_configs(name: str) -> Path | None:
    """A file or folder of `configs/`, where this source is a checkout."""
    path = Path(drpn.__file__).parents[2] / "configs" / name
    return path if path.exists() else None


def training_defaults(model: str) -> TrainingSettings:
    """How the model of that name is trained unless something else is asked for."""
    return replace(TrainingSettings(), **entry(model).training)


def entry(model: str) -> Entry:
    """The model of that name in the catalogue."""
    if model not in CATALOGUE:
        near = difflib.get_close_matches(model, CATALOGUE, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(CATALOGUE)}"
        raise SettingsError(f"there is no model '{model}'; {hint}")
    return CATALOGUE[model]

"""Load the sections of a settings file: `[data]`, `[model]` and `[training]`."""

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
    """The settings of all sections."""

    data: DataSettings
    model: Any
    training: TrainingSettings


def load_settings(
    file: Path | None = None, sets: Iterable[str] = (), *, model: str = "drpn", of_several: bool = False
) -> Settings:
    """Return the defaults of the model, overridden by the TOML file, then by each `section.key=value` of `sets`.

    With `of_several` the file is shared by several models: `model` settings that only other models have are ignored.
    """
    defaults = {"data": DataSettings(), "model": entry(model).settings, "training": training_defaults(model)}
    from_file, from_sets = config.read(SECTIONS, file=file), config.read(SECTIONS, sets=sets)
    if of_several:
        other_keys = set().union(*map(_model_keys, CATALOGUE.values())) - _model_keys(entry(model))
        from_file["model"] = {key: value for key, value in from_file["model"].items() if key not in other_keys}
    return Settings(
        **{name: config.build(defaults[name], from_file[name] | from_sets[name], section=name) for name in SECTIONS}
    )


def load_data_settings(file: Path | None = None, sets: Iterable[str] = ()) -> DataSettings:
    """Return the `data` section; the other sections are not checked, because they depend on the model."""
    tables = config.read(SECTIONS, file=file, sets=sets)
    data: DataSettings = config.build(DataSettings(), tables["data"], section="data")
    return data


def load_settings_of(
    models: Iterable[str], file: Path | None = None, sets: Iterable[str] = (), *, folder: Path | None = None
) -> dict[str, Settings]:
    """Return the settings of each model: its defaults, its NAME.toml in `folder`, then `file` and `sets`.

    A `model` setting in `file` or `sets` applies to the models that have it.
    """
    separate = {model: load_settings(model_config(folder, model), model=model) for model in models}
    shared = config.read(SECTIONS, file=file, sets=sets)
    keys = {model: _model_keys(entry(model)) for model in separate}
    for key in shared["model"]:
        config.known(key, set().union(*keys.values()), f"none of the models has a setting 'model.{key}'")
    return {model: _override(settings, shared, keys[model], model) for model, settings in separate.items()}


def _model_keys(catalogued: Entry) -> set[str]:
    return {field.name for field in fields(catalogued.settings)}


def model_config(folder: Path | None, model: str) -> Path | None:
    """Return NAME.toml in the folder, if it exists."""
    file = folder / f"{model}.toml" if folder else None
    return file if file and file.is_file() else None


def _override(settings: Settings, shared: dict[str, config.Table], keys: set[str], model: str) -> Settings:
    tables = shared | {"model": {key: value for key, value in shared["model"].items() if key in keys}}
    try:
        return Settings(
            **{name: config.build(getattr(settings, name), table, section=name) for name, table in tables.items()}
        )
    except SettingsError as error:
        raise SettingsError(f"{model}: {error}", hint=error.hint) from error


def shipped_configs(name: str) -> Path | None:
    """Return a file or folder of `configs/`, if drpn runs from a source checkout."""
    path = Path(drpn.__file__).parents[2] / "configs" / name
    return path if path.exists() else None


def training_defaults(model: str) -> TrainingSettings:
    """Return the default training settings of the model."""
    return replace(TrainingSettings(), **entry(model).training)


def entry(model: str) -> Entry:
    """Return the catalogue entry of the model."""
    if model not in CATALOGUE:
        closest = difflib.get_close_matches(model, CATALOGUE, n=1)
        suggestion = f"did you mean '{closest[0]}'?" if closest else f"choose from {', '.join(CATALOGUE)}"
        raise SettingsError(f"there is no model '{model}'; {suggestion}")
    return CATALOGUE[model]

"""Load the sections of a settings file: `[data]`, `[model]` and `[training]`."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from drpn import config
from drpn.errors import SettingsError
from drpn.models.catalogue import CATALOGUE, Entry
from drpn.preparation.settings import DataSettings
from drpn.training.large_batch import implied_by_batch
from drpn.training.settings import TrainingSettings

SECTIONS = ("data", "model", "training")
MODEL_SECTIONS = ("model", "training")
"""The sections that a table `[models.NAME]` can set for one model."""
SHIPPED = Path(__file__).parents[1] / "configs"
"""The settings files that are installed with the package."""

Tables = dict[str, config.Table]
"""Values by section and key."""


@dataclass(frozen=True)
class Settings:
    """The settings of all sections."""

    data: DataSettings
    model: Any
    training: TrainingSettings


@dataclass(frozen=True)
class SettingsFile:
    """The content of a settings file; keys and values are not checked yet."""

    common: Tables
    """The sections `[data]`, `[model]` and `[training]`, which hold for every model."""
    models: dict[str, Tables]
    """The tables `[models.NAME]` by model; they override the common values."""


def load_settings(
    file: Path | None = None, sets: Iterable[str] = (), *, model: str = "drpn", of_several: bool = False
) -> Settings:
    """Return the model's defaults, overridden by the settings file and then by each `section.key=value`.

    With `of_several`, and in shipped files, the section `[model]` may hold keys that only other models have; they are
    ignored.
    """
    content, assigned = read_settings_file(file), config.read(SECTIONS, sets=sets)
    common = content.common
    if of_several or (file is not None and find_config(file).parent == SHIPPED):
        keys, *others = (_keys(candidate) for candidate in (entry(model), *CATALOGUE.values()))
        common = _without_model_keys(common, set().union(*others) - keys)
    return _build(model, common, content.models.get(model, {}), assigned)


def load_data_settings(
    file: Path | None = None, sets: Iterable[str] = (), *, defaults: DataSettings | None = None
) -> DataSettings:
    """Return the section `data` alone; the file may hold settings that not every model has."""
    assigned = config.read(SECTIONS, sets=sets)
    table = read_settings_file(file).common["data"] | assigned["data"]
    return config.build(defaults or DataSettings(), table, section="data")


def load_settings_of(
    models: Iterable[str], file: Path | None = None, sets: Iterable[str] = (), *, tuned: Path | None = None
) -> dict[str, Settings]:
    """Return the settings of each model: its defaults, then the file `tuned`, then `file`, then `sets`.

    A common setting of the section `model` reaches the models that have it. In a file it may be one that only models
    left out of `models` have.
    """
    files, assigned = [read_settings_file(path) for path in (tuned, file)], config.read(SECTIONS, sets=sets)
    keys = {model: _keys(entry(model)) for model in models}
    chosen, known = set().union(*keys.values()), set().union(*map(_keys, CATALOGUE.values()))
    for choices, layers in ((known, [content.common for content in files]), (chosen, [assigned])):
        for key in (key for layer in layers for key in layer["model"]):
            config.known(key, choices, f"none of the models has a setting 'model.{key}'")
    settings = {}
    for model in keys:
        others = known - keys[model]
        layers = [
            layer
            for content in files
            for layer in (_without_model_keys(content.common, others), content.models.get(model, {}))
        ]
        try:
            settings[model] = _build(model, *layers, _without_model_keys(assigned, others))
        except SettingsError as error:
            raise SettingsError(f"{model}: {error}", hint=error.hint) from error
    return settings


def read_settings_file(file: Path | None) -> SettingsFile:
    """Return the content of a settings file, or of a shipped file by its bare name; without a file, nothing."""
    if file is None:
        return SettingsFile({name: {} for name in SECTIONS}, {})
    file = find_config(file)
    tables = config.read((*SECTIONS, "models"), file=file)
    models = tables.pop("models")
    for name, sections in models.items():
        config.known(name, CATALOGUE, f"{file}: [models.{name}]: there is no model '{name}'")
        for section, table in sections.items() if isinstance(sections, dict) else [(sections, None)]:
            if section not in MODEL_SECTIONS or not isinstance(table, dict):
                raise SettingsError(f"{file}: [models.{name}] takes model.KEY and training.KEY, not {section!r}")
    return SettingsFile(tables, models)


def find_config(file: Path) -> Path:
    """Return the path itself, or the shipped settings file of that bare name, such as `laptop`."""
    if file.is_file() or file.suffix or len(file.parts) != 1:
        return file
    shipped = SHIPPED / f"{file}.toml"
    if not shipped.is_file():
        names = ", ".join(sorted(path.stem for path in SHIPPED.glob("*.toml")))
        raise SettingsError(f"{file}: there is no such settings file; name a TOML file or one of {names}")
    return shipped


def _build(model: str, *layers: Tables) -> Settings:
    """Return the model's defaults with the values of each layer in turn; the last layer wins."""
    tables: Tables = {name: {} for name in SECTIONS}
    for layer in layers:
        tables |= {name: tables[name] | table for name, table in layer.items()}
    batch = tables["training"].get("batch")
    training = training_defaults(model, batch if isinstance(batch, int) else None)
    defaults = Settings(DataSettings(), entry(model).settings, training)
    return Settings(**{name: config.build(getattr(defaults, name), tables[name], section=name) for name in SECTIONS})


def _without_model_keys(tables: Tables, keys: set[str]) -> Tables:
    return tables | {"model": {key: value for key, value in tables["model"].items() if key not in keys}}


def _keys(candidate: Entry) -> set[str]:
    return {field.name for field in fields(candidate.settings)}


def training_defaults(model: str, batch: int | None = None) -> TrainingSettings:
    """Return the default training settings of the model, with another batch if it is given."""
    own = entry(model).training
    implied = {} if batch is None or "schedule" in own else implied_by_batch(batch)
    return replace(TrainingSettings(), **{**implied, **own})


def entry(model: str) -> Entry:
    """Return the catalogue entry of the model."""
    if model not in CATALOGUE:
        closest = difflib.get_close_matches(model, CATALOGUE, n=1)
        suggestion = f"did you mean '{closest[0]}'?" if closest else f"choose from {', '.join(CATALOGUE)}"
        raise SettingsError(f"there is no model '{model}'; {suggestion}")
    return CATALOGUE[model]

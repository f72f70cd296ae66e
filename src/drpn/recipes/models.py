"""Describe the models of the catalogue."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

from drpn.dataset.requirements import REQUIREMENTS
from drpn.layers.news import UserVectors
from drpn.models.base import ModelSettings
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.needs import minimal_model, requirements_of, toml_value


@dataclass(frozen=True)
class Description:
    """A model of the catalogue; the fields are keys of `drpn models --json`."""

    name: str
    paper: str
    settings: dict[str, Any]
    """All its settings with their defaults."""
    training: dict[str, Any]
    """Training settings whose defaults differ from those of other models."""
    reads: list[str]
    """The data of a user that it reads: clicked, skipped, user id."""
    prepare: list[str]
    """Settings that the dataset folder must be prepared with, such as data.user_neighbours=15."""
    more: dict[str, str]
    """Settings with which the model reads more, each with the setting to prepare the folder with."""

    @property
    def sizes(self) -> str:
        """The whole-number settings; for a variant, how it differs from the first model of the same class."""
        first = next(name for name, entry in CATALOGUE.items() if entry.network is CATALOGUE[self.name].network)
        if self.name == first:
            limits = {field.name for field in dataclasses.fields(ModelSettings)}
            sizes = {key: value for key, value in self.settings.items() if type(value) is int and key not in limits}
            return _as_text(sizes)
        defaults = dataclasses.asdict(CATALOGUE[first].settings)
        changed = {f"model.{key}": value for key, value in self.settings.items() if value != defaults[key]}
        same = CATALOGUE[first].training
        changed |= {f"training.{key}": value for key, value in self.training.items() if same.get(key) != value}
        return f"{first} with {_as_text(changed)}"


def describe(name: str) -> Description:
    """Return the description of the model of that name."""
    entry = CATALOGUE[name]
    model = minimal_model(name, entry.settings)
    reads_user_id = any(isinstance(module, UserVectors) for module in model.modules())
    return Description(
        name=name,
        paper=entry.paper,
        settings=dataclasses.asdict(entry.settings),
        training=dict(entry.training),
        reads=[*model.reads, *(["user id"] if reads_user_id else [])],
        prepare=_data_settings(model.requirements),
        more=_optional_data(name, entry.settings),
    )


def _data_settings(needs: tuple[str, ...]) -> list[str]:
    """The settings that add the needed data, without those whose default adds as much."""
    settings = []
    for one in (REQUIREMENTS[need] for need in needs):
        default = getattr(DataSettings(), one.setting)
        if default != one.value if isinstance(one.value, str) else default < one.value:
            settings.append(f"data.{one.setting}={one.value}")
    return settings


def _optional_data(name: str, settings: Any) -> dict[str, str]:
    """The settings that read more data, with the setting that adds the data to a folder.

    These are switches that are off by default, and settings that are `auto`: those read what the folder has. Settings
    of every model, such as `context`, are not listed.
    """
    switches, common = {}, {field.name for field in dataclasses.fields(ModelSettings)}
    known = requirements_of(name, settings)
    for key, value in dataclasses.asdict(settings).items():
        if (value is False or value == "auto") and key not in common:
            chosen = replace(settings, **{key: value or True})
            needs = requirements_of(name, chosen, entities=value == "auto")
            for data_setting in _data_settings(tuple(need for need in needs if need not in known)):
                switches[f"model.{key}={toml_value(value or True)}"] = data_setting
    return switches


def _as_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={toml_value(value)}" for key, value in settings.items())

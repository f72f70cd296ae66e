"""What the catalogue knows of each model, for people and for programs."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

from drpn.dataset.requirements import REQUIREMENTS
from drpn.layers.news import UserVectors
from drpn.models.catalogue import CATALOGUE
from drpn.prepare.settings import DataSettings
from drpn.recipes.needs import minimal_model, requirements_of, toml_value


@dataclass(frozen=True)
class Description:
    """One model of the catalogue."""

    name: str
    paper: str
    settings: dict[str, Any]
    """The defaults of its settings, all of them."""
    training: dict[str, Any]
    """Those settings of its training that are not as in every other model."""
    reads: list[str]
    """What it reads of a user: clicked, skipped, user id."""
    prepare: list[str]
    """Settings of `drpn prepare` that the folder must have been made with, such as data.user_neighbours=10."""
    more: dict[str, str]
    """Settings of the model that let it read more, and what each needs likewise."""

    @property
    def sizes(self) -> str:
        """The settings that make it large or small; of a variant, how it differs from the model it is one of."""
        first = next(name for name, entry in CATALOGUE.items() if entry.model is CATALOGUE[self.name].model)
        if self.name == first:
            return _listed({key: value for key, value in self.settings.items() if type(value) is int})
        plain = dataclasses.asdict(CATALOGUE[first].settings)
        other = {f"model.{key}": value for key, value in self.settings.items() if value != plain[key]}
        return f"{first} with {_listed(other | {f'training.{key}': value for key, value in self.training.items()})}"


def describe(name: str) -> Description:
    """The model of that name."""
    entry = CATALOGUE[name]
    model = minimal_model(name, entry.settings)
    by_id = any(isinstance(module, UserVectors) for module in model.modules())
    return Description(
        name=name,
        paper=entry.paper,
        settings=dataclasses.asdict(entry.settings),
        training=dict(entry.training),
        reads=[*model.reads, *(["user id"] if by_id else [])],
        prepare=_to_prepare(model.needs),
        more=_more(name, entry.settings),
    )


def _to_prepare(needs: tuple[str, ...]) -> list[str]:
    """Only what `drpn prepare` does not give unasked."""
    required = [REQUIREMENTS[need] for need in needs]
    return [f"data.{one.setting}={one.value}" for one in required if not getattr(DataSettings(), one.setting)]


def _more(name: str, settings: Any) -> dict[str, str]:
    """The switches that are off and need something when they are on."""
    found = {}
    for key, value in dataclasses.asdict(settings).items():
        if value is False:
            for needed in _to_prepare(requirements_of(name, replace(settings, **{key: True}))):
                found[f"model.{key}=true"] = needed
    return found


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={toml_value(value)}" for key, value in settings.items())

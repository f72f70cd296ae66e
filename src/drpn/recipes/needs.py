"""Whether a dataset folder has what a model needs beyond the paper's features, and how to prepare it where not."""

import dataclasses
from typing import Any

from drpn.dataset.folder import Dataset
from drpn.dataset.requirements import REQUIREMENTS
from drpn.errors import FolderError
from drpn.models.base import ClickModel, DataShape
from drpn.prepare.settings import DataSettings
from drpn.recipes.settings import entry

_SMALLEST = DataShape(news=2, words=2, users=2, categories=2, subcategories=2, entities=2)


def minimal_model(model: str, settings: Any) -> ClickModel:
    """The model for data that hold next to nothing: enough to ask it what it reads and needs."""
    return entry(model).model(settings, _SMALLEST)


def requirements_of(model: str, settings: Any) -> tuple[str, ...]:
    """What a model with these settings needs, whatever the data."""
    return minimal_model(model, settings).needs


def missing_requirements(model: str, settings: Any, dataset: Dataset) -> str | None:
    """What the folder lacks that the model needs, and how to prepare it, if it lacks anything."""
    needed = [REQUIREMENTS[need] for need in requirements_of(model, settings)]
    missing = [requirement for requirement in needed if requirement.array not in dataset.arrays]
    if not missing:
        return None
    words = " and ".join(requirement.meaning for requirement in missing)
    more = {requirement.setting: requirement.value for requirement in missing}
    return (
        f"{model} needs {words}, which {dataset.path} lacks; prepare it again with: "
        f"drpn prepare LOGS --out {dataset.path} --force {_options(dataset, more)}"
    )


def check_requirements(model: str, settings: Any, dataset: Dataset) -> None:
    """Refuse a folder that lacks what the model needs."""
    problem = missing_requirements(model, settings, dataset)
    if problem:
        raise FolderError(problem)


def _options(dataset: Dataset, more: dict[str, int]) -> str:
    """What else was chosen for the folder, so that it stays as it was, and what it needs more."""
    defaults, chosen = dataclasses.asdict(DataSettings()), dataset.manifest["settings"]
    kept = {name: chosen[name] for name, value in defaults.items() if chosen.get(name, value) != value}
    options = [f"--set data.{name}={toml_value(value)}" for name, value in (kept | more).items()]
    return " ".join((["--skip-unknown-news"] if chosen.get("skip_unknown_news") else []) + options)


def toml_value(value: Any) -> str:
    """As it is written behind --set."""
    return str(value).lower() if isinstance(value, bool) else str(value)

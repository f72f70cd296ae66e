"""Check that a dataset folder has the optional data a model needs, and say how to prepare it if not."""

import dataclasses
import shlex
from typing import Any

from drpn.dataset.folder import Dataset
from drpn.dataset.requirements import REQUIREMENTS, Requirement
from drpn.errors import FolderError
from drpn.models.base import ClickModel, DataShape
from drpn.preparation.settings import DataSettings
from drpn.recipes.settings import entry

_LIMITS = {"max_words": "words", "max_clicked": "clicked", "max_skipped": "skipped"}
"""The limits of a model, each with the data setting that says how much a folder holds."""
_NAMES = {"max_words": "words of a title", "max_clicked": "clicked stories", "max_skipped": "skipped stories"}
_SMALLEST = DataShape(news=2, words=2, users=2, categories=2, subcategories=2)


def minimal_model(model: str, settings: Any, *, entities: bool = False) -> ClickModel:
    """Return the model for the smallest possible dataset, to find out what it reads and needs."""
    return entry(model).model(settings, dataclasses.replace(_SMALLEST, entities=2) if entities else _SMALLEST)


def requirements_of(model: str, settings: Any, *, entities: bool = False) -> tuple[str, ...]:
    """Return the optional data that a model with these settings needs, as keys of `REQUIREMENTS`.

    With `entities`, also the entities that it would read if a dataset had them.
    """
    return minimal_model(model, settings, entities=entities).requirements


def missing_requirements(model: str, settings: Any, dataset: Dataset) -> str | None:
    """Return a sentence on the data that the model needs and the folder lacks, or None if it lacks nothing."""
    requirements = list(_missing(model, settings, dataset).values())
    short = _short(model, settings, dataset)
    features = [requirement.meaning for requirement in requirements]
    features += [f"{getattr(settings, limit)} {_NAMES[limit]} (model.{limit})" for limit in short]
    if not features:
        return None
    values = _more(model, settings, dataset) | _values(settings, short)
    needed = [f"data.{name}={value}" for name, value in values.items()]
    needed += [f"a file {requirement.file}" for requirement in requirements if requirement.file]
    return (
        f"{model} needs {' and '.join(features)}, which {dataset.path} lacks; "
        f"prepare it again with {' and '.join(needed)}"
    )


def prepare_hint(model: str, settings: Any, dataset: Dataset) -> str:
    """Return the command that prepares the folder again with the missing data and the same other settings."""
    defaults, chosen = dataclasses.asdict(DataSettings()), dataset.manifest["settings"]
    values = {name: chosen[name] for name, value in defaults.items() if chosen.get(name, value) != value}
    missing = _missing(model, settings, dataset)
    values |= _more(model, settings, dataset)
    values |= _values(settings, _short(model, settings, dataset))
    options = ["--skip-unknown-news"] if chosen.get("skip_unknown_news") else []
    options += [f"--{need} FILE" for need, requirement in missing.items() if requirement.file]
    options += [f"--set data.{name}={toml_value(value)}" for name, value in values.items()]
    return f"run: drpn prepare LOGS --out {shlex.quote(str(dataset.path))} --force {' '.join(options)}"


def check_requirements(model: str, settings: Any, dataset: Dataset) -> None:
    """Refuse a folder that lacks data the model needs."""
    problem = missing_requirements(model, settings, dataset)
    if problem:
        raise FolderError(problem, hint=prepare_hint(model, settings, dataset))


def _missing(model: str, settings: Any, dataset: Dataset) -> dict[str, Requirement]:
    needed = {need: REQUIREMENTS[need] for need in requirements_of(model, settings)}
    return {need: requirement for need, requirement in needed.items() if requirement.array not in dataset.arrays}


def _more(model: str, settings: Any, dataset: Dataset) -> dict[str, int | str]:
    """The data settings that add what is missing, and those left at a default that keeps less than the model reads."""
    defaults, chosen, missing = DataSettings(), dataset.manifest["settings"], _missing(model, settings, dataset)
    values = {}
    for need in requirements_of(model, settings):
        setting, value = REQUIREMENTS[need].setting, REQUIREMENTS[need].value
        default = getattr(defaults, setting)
        if need in missing or (isinstance(value, int) and chosen.get(setting, default) == default < value):
            values[setting] = value
    return values


def other_neighbours(model: str, settings: Any, dataset: Dataset) -> str | None:
    """Return a sentence on neighbours that the model would read and the folder lacks, or the other way, or None."""
    limit = settings.max_neighbours
    needs = [need for need in requirements_of(model, settings) if need.endswith("_neighbours")]
    if getattr(settings, "graph", False) and getattr(settings, "graph_network", False):
        needs.append("news_neighbours")  # every folder has them, so DRPN does not name them in `needs`
    requirements = [REQUIREMENTS[need] for need in needs]
    held = {one: dataset.arrays.array(one.array).shape[1] for one in requirements if one.array in dataset.arrays}
    if limit is None or all(count == limit for count in held.values()):
        return None
    fewer = {one: count for one, count in held.items() if count < limit}
    if not fewer:
        counts = " and ".join(str(count) for count in held.values() if count > limit)
        return f"{model} reads {limit} of the {counts} neighbours that {dataset.path} holds (model.max_neighbours)"
    counts = ", ".join(f"{one.meaning}: {count}" for one, count in fewer.items())
    needed = " and ".join(f"data.{one.setting}={limit}" for one in fewer)
    return (
        f"{model} reads up to {limit} neighbours, and {dataset.path} holds fewer ({counts}); "
        f"for as many, prepare it again with {needed}"
    )


def outdated_parts(model: str, dataset: Dataset) -> list[str]:
    """Return a sentence on each part that folders of older versions lack, if the model would use it."""
    again, notes = f"prepare the logs of {dataset.path} again", []
    if "latest/clicked" not in dataset.arrays:
        notes.append(f"recommendations will not know clicks after the profile window; {again} to change that")
    if model == "dkn" and "news/entities" in dataset.arrays and "news/word_entities" not in dataset.arrays:
        notes.append(f"dkn reads words alone, because the folder does not say which words name entities; {again}")
    return notes


def _short(model: str, settings: Any, dataset: Dataset) -> list[str]:
    """The limits of the model that are above what the folder holds, of words and of the sequences that it reads."""
    reads = ("words", *minimal_model(model, settings).reads)
    arrays = {"words": dataset.news_words, "clicked": dataset.clicked, "skipped": dataset.skipped}
    return [
        limit
        for limit, name in _LIMITS.items()
        if name in reads and (getattr(settings, limit) or 0) > arrays[name].shape[1]
    ]


def _values(settings: Any, limits: list[str]) -> dict[str, int]:
    return {_LIMITS[limit]: getattr(settings, limit) for limit in limits}


def toml_value(value: Any) -> str:
    """A value as it is written in TOML and after `--set KEY=`."""
    return str(value).lower() if isinstance(value, bool) else str(value)

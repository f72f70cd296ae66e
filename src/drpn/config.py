"""Read settings from TOML files and `section.key=value` strings into frozen dataclasses.

An unknown section or key is an error that names the closest known one.
"""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drpn.errors import SettingsError

Table = dict[str, Any]
T = typing.TypeVar("T")


def load(sections: Mapping[str, Any], *, file: Path | None = None, sets: Iterable[str] = ()) -> dict[str, Any]:
    """Return one settings object per section: the defaults, overridden by the TOML file, then by each of `sets`."""
    tables = read(sections, file=file, sets=sets)
    return {name: build(sections[name], tables[name], section=name) for name in sections}


def read(sections: Iterable[str], *, file: Path | None = None, sets: Iterable[str] = ()) -> dict[str, Table]:
    """Return the keys and values of each section, from the TOML file and then from `sets`; keys are not checked."""
    tables: dict[str, Table] = {name: {} for name in sections}
    if file is not None:
        for name, table in _read_toml(file).items():
            known(name, tables, f"{file}: there is no section [{name}]")
            if not isinstance(table, dict):
                raise SettingsError(f"{file}: '{name}' is outside a section; write it under [section]")
            tables[name] = table
    for assignment in sets:
        name, key, value = _parse_assignment(assignment, tables)
        tables[name] = tables[name] | {key: value}
    return tables


def build(defaults: T, table: Table, *, section: str) -> T:
    """Return `defaults` with the values of `table`, each checked against the type of its field."""
    hints = typing.get_type_hints(type(defaults))
    types_by_name = {field.name: hints[field.name] for field in dataclasses.fields(defaults)}  # type: ignore[arg-type]
    values = {}
    for key, value in table.items():
        known(key, types_by_name, f"there is no setting '{section}.{key}'")
        values[key] = _convert(value, types_by_name[key], f"{section}.{key}")
    try:
        return dataclasses.replace(defaults, **values)  # type: ignore[type-var]
    except ValueError as error:
        raise SettingsError(f"{section}.{error}") from error


def _read_toml(file: Path) -> Table:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SettingsError(f"{file}: there is no such settings file") from error
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}") from error


def _parse_assignment(assignment: str, sections: Iterable[str]) -> tuple[str, str, Any]:
    path, equals, text = assignment.partition("=")
    name, dot, key = path.strip().partition(".")
    if not (equals and dot and key):
        raise SettingsError(f"setting '{assignment}': write it as section.key=value, for example data.history=true")
    known(name, sections, f"setting '{assignment}': there is no section '{name}'")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # an unquoted word is a string
    return name, key, value


def known(name: str, choices: Iterable[str], problem: str) -> None:
    """Raise an error that starts with `problem` and suggests the closest choice, unless `name` is one of them."""
    choices = list(choices)
    if name in choices:
        return
    closest = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    suggestion = f"did you mean '{closest[0]}'?" if closest else f"choose from {', '.join(sorted(choices))}"
    raise SettingsError(f"{problem}; {suggestion}")


def _convert(value: Any, kind: Any, name: str) -> Any:
    """Return the value as `kind`, the type of the setting `name`."""
    choices = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        if value not in choices:
            raise SettingsError(f"{name} is {value!r}; choose from {', '.join(map(repr, choices))}")
        return value
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        if value == "none" and types.NoneType in choices:
            return None
        kind = next(choice for choice in choices if choice is not types.NoneType)
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path and type(value) is str:
        return Path(value)
    if type(value) is not kind:
        raise SettingsError(f"{name} is {value!r}; it takes {_TYPE_NAMES.get(kind, kind)}")
    return value


_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a word", Path: "a path"}

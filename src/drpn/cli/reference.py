"""Write docs/commands.md from the help texts: `python -m drpn.cli.reference FILE`."""

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from typer.models import ArgumentInfo, OptionInfo

from drpn.cli.app import COMMANDS, app

_EXAMPLE = "Example: "
_VALUES = {int: "INTEGER", float: "NUMBER", str: "TEXT", Path: "PATH"}


def reference() -> str:
    """The command reference as Markdown; the same on every machine and terminal."""
    lines = [
        "# Commands",
        "",
        "Written by `make docs` from the help texts of the commands; to change this page, change those.",
        "",
        f"{app.info.help} {app.info.epilog} `drpn --version` shows the version.",
        "",
    ]
    for group, commands in COMMANDS.items():
        lines += [f"{group}:", ""]
        for command in commands:
            name, summary = command.__name__, _paragraphs(command)[0]
            lines.append(f"- [`drpn {name}`](#drpn-{name}): {summary}")
        lines.append("")
    for commands in COMMANDS.values():
        for command in commands:
            lines += _section(command)
    return "\n".join(lines).rstrip() + "\n"


def _section(command: Callable[..., None]) -> Iterator[str]:
    *texts, example = _paragraphs(command)
    parameters = list(_parameters(command))
    required = " ".join(name for name, _, is_required in parameters if is_required)
    yield from (f"## drpn {command.__name__}", "")
    yield from ("```", f"drpn {command.__name__} {required} [OPTIONS]".replace("  ", " "), "```", "")
    for text in texts:
        yield from (text, "")
    yield from (_EXAMPLE.strip(), "", "```", example.removeprefix(_EXAMPLE).strip("`"), "```", "")
    yield from ("| argument or option | meaning |", "|---|---|")
    for name, text, _ in parameters:
        escaped = name.replace("|", "\\|")  # a bar would end the cell
        yield f"| `{escaped}` | {text} |"
    yield ""


def _parameters(command: Callable[..., None]) -> Iterator[tuple[str, str, bool]]:
    """Name with its value, text and whether it is required, of each argument and option."""
    hints = typing.get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind, info = typing.get_args(hints[parameter.name])
        required = parameter.default is inspect.Parameter.empty
        text = info.help
        if required:
            text += " Required."
        elif parameter.default is not None and parameter.default is not False:
            text += f" Default: `{parameter.default}`."
        yield _name(parameter.name, kind, info), text, required


def _name(name: str, kind: Any, info: ArgumentInfo | OptionInfo) -> str:
    if isinstance(info, ArgumentInfo):
        return info.metavar or name.upper()
    # in an annotation, typer's first argument is the name, though its field is called `default`
    option = info.default if isinstance(info.default, str) else f"--{name.replace('_', '-')}"
    return option if kind is bool else f"{option} {info.metavar or _value(kind)}"


def _value(kind: Any) -> str:
    """How a value of this type is written, such as `mind|jsonl` or INTEGER."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _value(next(choice for choice in typing.get_args(kind) if choice is not types.NoneType))
    if typing.get_origin(kind) is typing.Literal:
        return "|".join(typing.get_args(kind))
    if issubclass(kind, Enum):
        return "|".join(choice.value for choice in kind)
    return _VALUES[kind]


def _paragraphs(command: Callable[..., None]) -> list[str]:
    """The paragraphs of a help text; the last one is the example."""
    return inspect.cleandoc(command.__doc__ or "").split("\n\n")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")

"""Every example works: those of the help texts and the commands of the docs."""

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from drpn.cli.app import COMMANDS, app
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.settings import load_data_settings, load_settings, load_settings_of
from writing import MindLine, write_mind

ROOT = Path(__file__).parents[2]
COMMAND_LINE: Any = typer.main.get_command(app)
ALL = [command for commands in COMMANDS.values() for command in commands]
HELP = [
    example
    for command in ALL
    for example in re.findall(r"Example: `(drpn .*)`$", inspect.getdoc(command) or "", re.MULTILINE)
]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCS = sorted({
    line.strip()
    for page in PAGES
    for block in re.findall(r"```(?:sh|bash|console)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.strip().startswith("drpn ") and "[OPTIONS]" not in line
})  # fmt: skip
RUN = ["prepare", "stats", "models", "train", "evaluate", "recommend", "recommend", "explain"]
"""Commands whose examples take seconds, in an order in which each one has what it reads."""


def words(example: str) -> list[str]:
    """The arguments of a command line, without the pipe after it and without a comment."""
    arguments = shlex.split(example, comments=True)[1:]
    return arguments[: arguments.index("|")] if "|" in arguments else arguments


def parse(example: str) -> dict[str, Any]:
    """The options of a command line; an unknown command, option or value is an error."""
    name, *arguments = words(example)
    with COMMAND_LINE.commands[name].make_context(name, arguments) as context:
        return dict(context.params)


def check_settings(name: str, options: dict[str, Any]) -> None:
    """Check all settings of a command line for the models that it trains."""
    sets, config = options.get("sets") or (), options.get("config")
    if config is not None and config.suffix and not config.exists():
        return  # a file that the reader of the page writes
    if name == "prepare":
        load_data_settings(config, sets)
    elif name in ("train", "tune"):
        load_settings(config, sets, model=options["model"], of_several=name == "tune")
    elif name in ("compare", "reproduce"):
        names = CATALOGUE if options["models"] == "all" else options["models"].split(",")
        load_settings_of(names, config, sets)


def test_every_command_has_an_example() -> None:
    named = {words(example)[0] for example in HELP}
    assert named == {command.__name__ for command in ALL}
    assert len(DOCS) > 10


@pytest.mark.parametrize("example", [*HELP, *DOCS])
def test_examples_can_be_parsed_and_their_settings_used(example: str) -> None:
    if words(example)[0] in ("--version", "COMMAND", "--help"):
        return
    try:
        check_settings(words(example)[0], parse(example))
    except click.ClickException as error:
        pytest.fail(f"{example}: {error.format_message()}")


def test_examples_of_the_help_texts_run(drpn: Callable[..., Any], tmp_path: Path) -> None:
    stories = [f"N{number}\tsports\tchess\tStory number {number}" for number in range(1, 30)]
    lines = [
        MindLine(
            f"{day}{user}{visit}", f"U{40 + user}", f"11/{day}/2019 {visit}:0{user}:00 AM", f"N{5 + user}-1 N17-0 N23-0"
        )
        for day in (9, 10, 11)
        for user in range(6)
        for visit in (1, 2, 3, 4)
    ]
    write_mind(tmp_path / "MINDlarge", lines, stories)
    (tmp_path / "glove.840B.300d.txt").write_text("story 0.1 0.2 0.3\nnumber 0.4 0.5 0.6\n")
    by_name: dict[str, list[str]] = {}
    for example in HELP:
        by_name.setdefault(words(example)[0], []).append(example)
    for name in RUN:
        example = by_name[name].pop(0)
        done = drpn(*words(example))
        assert done.returncode == 0, f"{example}: {done.stderr}"
    assert (tmp_path / "ranks.txt").exists()
    assert (tmp_path / "case.png").exists()

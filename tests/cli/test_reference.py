"""docs/commands.md is what the help texts say."""

from pathlib import Path

import pytest
import typer

from drpn.cli.app import COMMANDS, app
from drpn.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "commands.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "docs/commands.md is out of date; run: make docs"


def test_the_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    page = reference()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert reference() == page


def test_every_command_has_a_section_with_an_example() -> None:
    sections = reference().split("\n## drpn ")[1:]
    assert [section.partition("\n")[0] for section in sections] == [
        command.__name__ for commands in COMMANDS.values() for command in commands
    ]
    for section in sections:
        name = section.partition("\n")[0]
        assert f"\nExample:\n\n```\ndrpn {name}" in section


def test_every_option_of_typer_is_in_its_section() -> None:
    sections = {section.partition("\n")[0]: section for section in reference().split("\n## drpn ")[1:]}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("-")]
        for option in options:
            assert f"\n| `{option}" in sections[name], f"{name} {option}"
        assert sections[name].count("\n| `-") == len(options)


@pytest.mark.parametrize(
    "line",
    [
        "| `LOGS` | Folder of logs. Required. |",
        "| `--format auto\\|mind\\|ebnerd\\|events` | Format of the logs; auto recognises it by the file names. "
        "Default: `auto`. |",
        "| `--set KEY=VALUE` | Change one setting, for example `training.epochs=3`; overrides --config. "
        "Can be repeated. |",
        "| `--resume` | Resume an interrupted run. |",
        "| `--top INTEGER` | Number of stories to list. Default: `10`. |",
    ],
)
def test_arguments_flags_choices_and_defaults(line: str) -> None:
    assert f"\n{line}\n" in reference()

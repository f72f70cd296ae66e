"""Messages speak of the domain; only hints speak of the command line."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from drpn import errors
from drpn.cli.app import COMMANDS
from drpn.errors import DrpnError, SettingsError

SOURCE = Path(errors.__file__).parent
COMMANDS_TYPED = "|".join(command.__name__ for commands in COMMANDS.values() for command in commands)
OPTION = re.compile(rf"(^|[\s(\"'])--[a-z]|\bdrpn ({COMMANDS_TYPED})\b")
NAMES = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, DrpnError)}


def error_calls() -> Iterator[tuple[str, ast.Call]]:
    """Every place outside the command line that makes one of our errors."""
    for file in sorted(SOURCE.rglob("*.py")):
        if file.parent.name != "cli":
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {*NAMES, "error"}:
                    yield f"{file.relative_to(SOURCE)}:{node.lineno}", node


def words(nodes: list[ast.expr]) -> str:
    """The literal text in some expressions."""
    constants = [part.value for node in nodes for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return " ".join(text for text in constants if isinstance(text, str))


def test_messages_do_not_name_options_or_commands() -> None:
    calls = dict(error_calls())
    assert len(calls) > 100
    assert [place for place, call in calls.items() if OPTION.search(words(call.args))] == []


def test_hints_name_options_or_commands() -> None:
    hints = [(place, key.value) for place, call in error_calls() for key in call.keywords if key.arg == "hint"]
    literal = {place: words([value]) for place, value in hints if words([value])}
    assert len(literal) > 10
    assert [place for place, text in literal.items() if not OPTION.search(text)] == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (SettingsError("the value is 3"), "drpn: the value is 3\n"),
        (SettingsError("the value is 3", hint="pass --value 4"), "drpn: the value is 3; pass --value 4\n"),
        (SettingsError("two\nlines", hint="pass --value 4"), "drpn: two lines; pass --value 4\n"),
    ],
)
def test_an_error_is_printed_on_one_line_with_its_hint(
    drpn, monkeypatch: pytest.MonkeyPatch, error: DrpnError, line: str
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("drpn.dataset.folder.Dataset.open", failing)
    done = drpn("stats", "data")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_the_hint_survives_pickling() -> None:
    """Errors may cross from one process to another."""
    error = pickle.loads(pickle.dumps(SettingsError("the value is 3", hint="pass --value 4")))
    assert (str(error), error.hint) == ("the value is 3", "pass --value 4")

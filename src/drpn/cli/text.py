"""Sentences, names and paths as the terminal shows them."""

import shlex
from pathlib import Path

from rich.markup import escape

from drpn.escape import terminal


def say(text: str) -> None:
    """Print a sentence that holds a path or an id."""
    print(terminal(text))


def literal(text: str) -> str:
    """A name as Rich prints it literally."""
    return escape(terminal(text))


def typed(path: Path | str) -> str:
    """A path or an id as it is typed in a command."""
    return shlex.quote(str(path))

"""Thin commands: parse, call one recipe, print the outcome."""

import os
import sys

from drpn.cli import comparing as comparing  # its commands join the others
from drpn.cli import tuning as tuning  # likewise
from drpn.cli.app import app
from drpn.errors import DrpnError

INTERRUPTED = 130


def main() -> None:
    """Run the command line; an error the user can put right is one line and exit code 2."""
    try:
        app(prog_name="drpn")
    except DrpnError as error:
        print(f"drpn: {' '.join(str(error).splitlines())}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as exit:
        if exit.code == INTERRUPTED:  # typer has taken the KeyboardInterrupt
            print("drpn: stopped; nothing half-written was left", file=sys.stderr)
        raise
    except BrokenPipeError:  # the reader of a pipe, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)

"""The command line: each command parses its options, calls one recipe and prints the result."""

import os
import sys

from drpn.cli.app import app
from drpn.errors import DrpnError

INTERRUPTED = 130


def main() -> None:
    """Run the command line; an error that the user can fix prints one line and exits with code 2."""
    try:
        app(prog_name="drpn")
    except DrpnError as error:
        line = "; ".join(filter(None, [str(error), error.hint]))
        print(f"drpn: {' '.join(line.splitlines())}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as exit:
        if exit.code == INTERRUPTED:  # typer turns KeyboardInterrupt into this exit code
            print("drpn: stopped; no incomplete files were left behind", file=sys.stderr)
        raise
    except BrokenPipeError:  # the reader of the pipe, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)

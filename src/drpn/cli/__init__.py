"""The command line: each command parses its options, calls one recipe and prints the result."""

import os
import sys
import time
from pathlib import Path

from drpn.cli.app import app
from drpn.errors import DrpnError
from drpn.ranks import FirstProcessError, current

INTERRUPTED = 130
_FIRST_SECONDS = 5.0
"""How long other processes wait after the first one failed: torchrun stops all as soon as one ends, and the first one
is to print its message before."""


def main() -> None:
    """Run the command line; an error that the user can fix prints one line and exits with code 2."""
    ranks = current()
    if not ranks.first:  # each process computes the same results; one prints them
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    name = f"drpn, process {ranks.rank}" if ranks.size > 1 else "drpn"
    try:
        app(prog_name="drpn")
    except FirstProcessError:
        time.sleep(_FIRST_SECONDS)
        sys.exit(2)
    except DrpnError as error:
        line = "; ".join(filter(None, [str(error), error.hint]))
        print(f"{name}: {' '.join(line.splitlines())}", file=sys.stderr)
        sys.exit(2)
    except RuntimeError as error:
        if ranks.size == 1 or not _lost(error):
            raise
        print(f"{name}: another process of this training has ended; its message says why", file=sys.stderr)
        sys.exit(3)
    except SystemExit as exit:
        if exit.code == INTERRUPTED:  # typer turns KeyboardInterrupt into this exit code
            print("drpn: stopped; no incomplete files were left behind", file=sys.stderr)
        raise
    except BrokenPipeError:  # the reader of the pipe, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _lost(error: RuntimeError) -> bool:
    """Whether an exchange failed because another process is gone."""
    text = str(error)
    return any(words in text for words in ("Connection closed by peer", "Connection reset", "Broken pipe", "NCCL"))

"""Where the numbers of a benchmark come from."""

import os
from pathlib import Path

from drpn import provenance

ROOT = Path(__file__).parents[1]
LOAD_BEFORE = round(os.getloadavg()[0], 1)
"""Processes at work before the measuring began: with any, times are not the machine's best."""


def machine() -> dict[str, object]:
    """What the numbers were made on, with which versions, and beside what other work."""
    return provenance.machine() | {"load_before": LOAD_BEFORE}

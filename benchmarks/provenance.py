"""The machine and versions behind the numbers of a benchmark."""

import os
from pathlib import Path

from drpn import provenance

ROOT = Path(__file__).parents[1]
LOAD_BEFORE = round(os.getloadavg()[0], 1)
"""Load of the machine before measuring; other work makes times longer."""


def machine() -> dict[str, object]:
    """Commit, machine, versions and load before measuring."""
    return provenance.machine() | {"load_before": LOAD_BEFORE}

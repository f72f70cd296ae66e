"""How much of mapped tables a process has for itself, and how much it shares with others."""

from pathlib import Path

import torch

from contract_cases import SHAPE, newsroom, trained
from drpn.bundle.catalogue import StoryCatalogue
from drpn.bundle.scoring import derived_tables
from drpn.bundle.shared_tables import SharedTables
from drpn.layers.tables import map_tables


def kilobytes(bundle: str) -> tuple[int, int]:
    """Private and shared memory of the tables of a small newsroom, after every row was read."""
    ids = ["", *(f"N{row}" for row in range(1, SHAPE.news))]
    shared = SharedTables(Path(bundle).parent, Path(bundle))
    stories = StoryCatalogue(trained("drpn"), newsroom(), ids, derived_tables, live=ids[3:], shared=shared)
    positions = torch.tensor(stories.positions(ids[3:]))
    map_tables(lambda table: float(table[positions].sum()), stories.encoded)
    private, together, of_tables = 0, 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            of_tables = line.endswith(".bin")
        elif of_tables and name in ("Private_Clean:", "Private_Dirty:"):
            private += int(rest[0])
        elif of_tables and name in ("Shared_Clean:", "Shared_Dirty:"):
            together += int(rest[0])
    return private, together

"""Every planted fault; each is checked to be caught by the tests of its model or layer.

cd tests
python -m mutations.faults              writes docs/mutations.md; takes minutes
python -m mutations.faults NAML GERL    the same, planting the faults of these groups again
"""

import os
import shlex
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mutations import (
    attention_faults,
    drpn_faults,
    feature_faults,
    layer_faults,
    planted_faults,
    state_faults,
    teacher_faults,
    text_faults,
)
from mutations.planting import ROOT, Fault, Group, caught

PAGE = ROOT / "docs" / "mutations.md"
GROUPS = [
    group
    for module in (
        drpn_faults,
        feature_faults,
        text_faults,
        attention_faults,
        layer_faults,
        state_faults,
        planted_faults,
        teacher_faults,
    )
    for group in module.GROUPS
]


class Planted(NamedTuple):
    """A fault, and the group that it belongs to."""

    group: Group
    fault: Fault


FAULTS = [Planted(group, fault) for group in GROUPS for fault in group.faults]
SAMPLE = [Planted(group, group.faults[0]) for group in GROUPS if group.name in ("DeepFM", "GERL", "NRMS", "DKN")]
"""A few faults that are planted in every run of the tests; all of them take minutes."""


def first_failure(planted: Planted) -> str | None:
    """The test that catches a fault; it is also printed, with its message."""
    with tempfile.TemporaryDirectory() as folder:
        first = caught(planted.fault, planted.group.tests, Path(folder))
    print(f"{planted.group.name}: {planted.fault.name}: {' - '.join(first) if first else 'NOT CAUGHT'}", flush=True)
    return first.test if first else None


def written() -> dict[tuple[str, str], str | None]:
    """The tests that the page names, by group and fault."""
    rows: dict[tuple[str, str], str | None] = {}
    group = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif line.startswith("| ") and line.endswith("` |"):
            name, _, test = line.removeprefix("| ").removesuffix(" |").split(" | ")
            rows[group, name] = test.strip("`")
    return rows


def page(tests: dict[tuple[str, str], str | None]) -> str:
    """Tables of all faults, with the test that caught each."""
    lines = [
        "# Planted faults",
        "",
        f"Each of these {len(FAULTS)} faults was planted alone in a copy of the package, then the tests of its model",
        "or layer were run until one failed. Written by `python -m mutations.faults` in the folder `tests`;",
        "`tests/mutations/test_faults.py` checks that every fault is caught.",
    ]
    for group in GROUPS:
        lines += ["", f"## {group.name}", "", f"Tests: `pytest {shlex.join(group.tests)}`", ""]
        lines += ["| fault | file | first test that failed |", "|---|---|---|"]
        for fault in group.faults:
            test = tests.get((group.name, fault.name))
            lines.append(f"| {fault.name} | `{fault.file}` | {f'`{test}`' if test else '**none**'} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    chosen = [planted for planted in FAULTS if planted.group.name in sys.argv[1:] or not sys.argv[1:]]
    tests = written()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for planted, test in zip(chosen, pool.map(first_failure, chosen), strict=True):
            tests[planted.group.name, planted.fault.name] = test
    PAGE.write_text(page(tests), encoding="utf-8")


if __name__ == "__main__":
    main()

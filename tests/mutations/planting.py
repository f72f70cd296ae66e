"""A fault planted in a copy of the package, and the tests that should notice it."""

import multiprocessing
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "drpn"


class Fault(NamedTuple):
    """A plausible mistake: one text of the source replaced by another."""

    name: str
    file: str
    text: str
    instead: str


class Group(NamedTuple):
    """Faults of one model or layer, and the tests that are run for each."""

    name: str
    tests: tuple[str, ...]
    """Arguments of pytest."""
    faults: list[Fault]


def tests_of(*names: str) -> tuple[str, ...]:
    """The tests of some models, and those of every model as far as they are about these."""
    own = [f"tests/models/test_{name}.py" for name in names]
    return (*own, "tests/models/test_dropout.py", "tests/models/test_contract.py", "-k", " or ".join(names))


class Caught(NamedTuple):
    """The first test that failed, and its message."""

    test: str
    message: str


def plant(fault: Fault) -> str:
    """The source with the fault."""
    source = (PACKAGE / fault.file).read_text(encoding="utf-8")
    count = source.count(fault.text)
    assert count == 1, f"{fault.name}: {fault.file} has {count} times: {fault.text}"
    return source.replace(fault.text, fault.instead)


def caught(fault: Fault | None, tests: tuple[str, ...], folder: Path) -> Caught | None:
    """The test that fails on a copy of the package in an empty folder, with one fault or without; None if all pass."""
    copy = folder / "drpn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if fault is not None:
        (copy / fault.file).write_text(plant(fault), encoding="utf-8")
    process = _FORKSERVER.Process(target=_run_tests, args=(folder, tests))
    process.start()
    process.join()
    output = (folder / "output.txt").read_text(encoding="utf-8")
    # 0: all passed, 1: one failed; otherwise the tests did not run
    status = (folder / "status.txt").read_text(encoding="utf-8")
    assert status in ("0", "1"), output
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        failure = case.find("failure")
        if failure is not None:
            return Caught(case.get("name", ""), failure.get("message", "").splitlines()[0])
    assert status == "0", output
    return None


# a process that has loaded torch and copies itself for each fault: loading takes longer than most tests
_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(["numpy", "pytest", "torch", "torch.distributed.tensor"])


def _run_tests(folder: Path, tests: tuple[str, ...]) -> None:
    """Run tests with the package in the folder, until one fails, and write what they print and their status."""
    output = (folder / "output.txt").open("w", encoding="utf-8")
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(ROOT)
    sys.path.insert(0, str(folder))
    torch.set_num_threads(1)
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        del os.environ[name]
    without = ["--noconftest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    status = pytest.main(["-x", "-q", *without, f"--junitxml={folder / 'report.xml'}", *tests])
    (folder / "status.txt").write_text(str(int(status)), encoding="utf-8")

"""Fixtures for all tests: a small MIND log, and the command line within this process.

All tests use one thread: several run at the same time, and weights depend on the number of threads.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest
import torch

from drpn.cli import main
from postgres_server import PostgresServer, postgres_server
from writing import MindLine, write_mind

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
torch.set_num_threads(1)
# a busy machine is no failure; `make test-all` tries more examples
hypothesis.settings.register_profile("quick", max_examples=40, deadline=None)
hypothesis.settings.register_profile("thorough", max_examples=200, deadline=None)
hypothesis.settings.load_profile(os.environ.get("DRPN_EXAMPLES", "quick"))


TESTS = Path(__file__).parent
LONGEST = [
    "training/test_tastes.py", "service/test_process.py", "experiments/test_compare.py", "training/test_learning.py",
    "training/test_stopping.py", "test_api.py", "service/test_skips.py", "logs/test_odd_paths.py",
    "preparation/test_against_loops.py", "cli/test_commands.py", "cli/test_diversity.py",
    "preparation/test_properties.py", "experiments/test_reproduce.py", "evaluation/test_count_trees.py",
    "preparation/test_live.py", "training/test_threads.py", "training/test_checkpoint.py", "test_writers.py",
]  # fmt: skip
"""Files that take longest. Several processes start with them, so that at the end none works on a long file alone."""


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("xdist"):
        config.option.loadscopereorder = False  # would start with the files that have most tests


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several processes
        place = {TESTS / name: number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: place.get(item.path, len(place)))


MIND_LINES = [
    MindLine("1", "U1", "11/9/2019 8:00:00 AM", "N1-1 N2-0"),
    MindLine("2", "U2", "11/9/2019 9:00:00 AM", "N2-1 N3-0"),
    MindLine("3", "U1", "11/10/2019 8:00:00 AM", "N3-1 N4-0"),
    MindLine("4", "U2", "11/11/2019 8:00:00 AM", "N1-0 N4-1"),
    MindLine("5", "U1", "11/11/2019 9:00:00 AM", "N2-0 N4-1"),
]


@pytest.fixture
def mind(tmp_path: Path) -> Path:
    """A valid MIND folder of one part with three days."""
    return write_mind(tmp_path / "logs", MIND_LINES)


@pytest.fixture(scope="session")
def mind_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset folder of that log, for tests that do not change it; others make a copy."""
    from drpn.recipes.prepare import prepare

    folder = tmp_path_factory.mktemp("mind")
    return prepare(write_mind(folder / "logs", MIND_LINES), folder / "data").path


class Done(NamedTuple):
    """Exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def drpn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """A function that runs the command line in `tmp_path`, within this process."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["drpn", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit:
            main()
        out, error = capsys.readouterr()
        return Done(int(exit.value.code or 0), out, error)

    return run


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Use one thread, as processes that tests start do, so that sums are added in the same order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server; each of its databases is new."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that a test may stop or kill; with few databases it is quick to start again."""
    with postgres_server() as server:
        yield server

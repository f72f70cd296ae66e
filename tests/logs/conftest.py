"""Two simulated newsrooms, one of default size and a small one, each written once per session."""

from pathlib import Path

import pytest

from drpn.logs.simulate import Simulated, SimulationSettings, simulate
from newsroom_files import SMALL, Newsroom, read


@pytest.fixture(scope="session")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Newsroom:
    folder = tmp_path_factory.mktemp("newsroom") / "default"
    simulate(folder, SimulationSettings())
    return read(folder)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Simulated]:
    folder = tmp_path_factory.mktemp("newsroom") / "small"
    return folder, simulate(folder, SMALL)

"""A small newsroom, prepared once, and a finished comparison on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from drpn.experiments.compare import Compared, compare
from drpn.logs.simulate import SimulationSettings, simulate
from small_comparison import MODELS, SETS


@pytest.fixture(autouse=True)
def _single_thread(one_thread: None) -> None:
    """Every test here uses one thread."""


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of a simulated newsroom in MIND's format."""
    folder = tmp_path_factory.mktemp("compared") / "logs"
    simulate(folder, SimulationSettings(users=120, news=400, seed=3))
    return folder


@pytest.fixture(scope="session")
def data(logs: Path) -> Path:
    """The dataset folder prepared from the logs."""
    from drpn.preparation.settings import DataSettings
    from drpn.recipes.prepare import prepare

    prepare(logs, logs.parent / "data", DataSettings(vector_size=8))
    return logs.parent / "data"


@pytest.fixture(scope="session")
def small(data: Path) -> Callable[..., Compared]:
    """A function that compares three small models, two seeds each, by default."""

    def run(out: Path, *, sets: list[str] | None = None, **options: Any) -> Compared:
        arguments: dict[str, Any] = {"models": MODELS, "seeds": 2} | options
        return compare(data, out, sets=[*SETS, *(sets or [])], **arguments)

    return run


@pytest.fixture(scope="session")
def compared(small: Callable[..., Compared], tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """A comparison that ran without interruption."""
    torch.set_num_threads(1)
    return small(tmp_path_factory.mktemp("uninterrupted") / "out")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs that are trained during the test."""
    from drpn.experiments import run_task as runs

    names: list[str] = []
    train = runs.train

    def counted(folder: Path, out: Path, **options: Any) -> Any:
        names.append(out.name)
        return train(folder, out, **options)

    monkeypatch.setattr(runs, "train", counted)
    return names

"""A newsroom that is compared on, prepared once, and the comparison that the tests begin with."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from drpn.experiments.compare import Compared, compare
from drpn.logs.simulate import SimulationSettings, simulate
from small_comparison import MODELS, SETS


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Sums come in the same order in every process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated newsroom in MIND's layout."""
    folder = tmp_path_factory.mktemp("compared") / "logs"
    simulate(folder, SimulationSettings(users=120, news=400, seed=3))
    return folder


@pytest.fixture(scope="session")
def data(logs: Path) -> Path:
    """The same, prepared."""
    from drpn.prepare.settings import DataSettings
    from drpn.recipes.prepare import prepare

    prepare(logs, logs.parent / "data", DataSettings(vector_size=8))
    return logs.parent / "data"


@pytest.fixture(scope="session")
def small(data: Path) -> Callable[..., Compared]:
    """Compare three small models, two seeds each, unless something else is asked for."""

    def run(out: Path, *, sets: list[str] | None = None, **given: Any) -> Compared:
        chosen: dict[str, Any] = {"models": MODELS, "seeds": 2} | given
        return compare(data, out, sets=[*SETS, *(sets or [])], **chosen)

    return run


@pytest.fixture(scope="session")
def compared(small: Callable[..., Compared], tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """The comparison that nobody stopped."""
    torch.set_num_threads(1)
    return small(tmp_path_factory.mktemp("uninterrupted") / "out")


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the runs that are trained from here on."""
    from drpn.experiments import run_task as runs

    names: list[str] = []
    train = runs.train

    def counted(folder: Path, out: Path, **given: Any) -> Any:
        names.append(out.name)
        return train(folder, out, **given)

    monkeypatch.setattr(runs, "train", counted)
    return names

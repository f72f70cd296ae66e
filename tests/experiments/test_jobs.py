"""The runs of a comparison: how long they take, and worker processes that end when they are asked to."""

from pathlib import Path
from typing import Any

import pytest

from busy_worker import fill_the_pipe
from drpn.experiments import jobs
from drpn.experiments.results import Task
from drpn.models.catalogue import CATALOGUE
from drpn.training.settings import TrainingSettings


@pytest.mark.parametrize(
    ("model", "training", "passes"),
    [
        ("drpn", {"epochs": 3}, 3),
        ("drpn", {"epochs": 3, "teachers": 4}, 3),
        ("drpn-live", {"epochs": 3, "teachers": 4}, 15),
        ("drpn-live", {"epochs": 3, "teachers": 4, "refit": True}, 30),
    ],
)
def test_passes_of_a_run(model: str, training: dict[str, Any], passes: int) -> None:
    """Those of its teachers count, which models without counts do not have."""
    settings = CATALOGUE[model].settings
    assert Task(model, settings, TrainingSettings(**training), Path(), "", Path()).passes == passes


def test_a_worker_between_two_tasks_stops() -> None:
    """Ctrl-C can arrive after a worker has finished a task and before it gets the next one."""
    worker = jobs._Worker(threads=1)
    worker.stop()
    worker.join()
    assert worker.process.exitcode == 0


def test_a_worker_that_waits_for_a_full_pipe_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipe fills up if the main process cannot print, for example because the terminal is paused."""
    monkeypatch.setattr(jobs, "_work", fill_the_pipe)
    worker = jobs._Worker(threads=1)
    worker.stop()
    worker.join()
    assert worker.process.exitcode == 0

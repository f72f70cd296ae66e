"""Worker processes end when they are asked to, without being terminated."""

import pytest

from busy_worker import fill_the_pipe
from drpn.experiments import jobs


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

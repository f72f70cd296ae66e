"""The commit and machine recorded with results."""

import pytest

from drpn import provenance


def test_without_a_repository_the_commit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_git", lambda *_: "")
    monkeypatch.delenv("DRPN_COMMIT", raising=False)
    assert provenance.commit() == "not known"
    monkeypatch.setenv("DRPN_COMMIT", "abc1234")
    assert provenance.commit() == "abc1234"


@pytest.mark.parametrize(("changed", "commit"), [("", "abc1234"), (" M models/drpn.py", "abc1234-dirty")])
def test_a_changed_source_is_marked_dirty(changed: str, commit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"rev-parse": "abc1234", "ls-files": "__init__.py", "status": changed}
    monkeypatch.setattr(provenance, "_git", lambda command, *_: answers[command])
    monkeypatch.delenv("DRPN_COMMIT", raising=False)
    assert provenance.commit() == commit


def test_the_repository_of_another_project_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens when the package is installed in a virtual environment inside another project."""
    answers = {"rev-parse": "abc1234", "ls-files": "", "status": ""}
    monkeypatch.setattr(provenance, "_git", lambda command, *_: answers[command])
    monkeypatch.delenv("DRPN_COMMIT", raising=False)
    assert provenance.commit() == "not known"


def test_machine_has_hardware_and_versions() -> None:
    assert {"commit", "processor", "cores", "memory_gb", "python", "numpy", "torch"} <= set(provenance.machine())

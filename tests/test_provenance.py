"""Where numbers come from."""

import pytest

from drpn import provenance


def test_without_a_checkout_the_commit_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_git", lambda *_: "")
    monkeypatch.delenv("DRPN_COMMIT", raising=False)
    assert provenance.commit() == "not known"
    monkeypatch.setenv("DRPN_COMMIT", "abc1234")
    assert provenance.commit() == "abc1234"


@pytest.mark.parametrize(("changed", "commit"), [("", "abc1234"), (" M models/drpn.py", "abc1234-dirty")])
def test_a_source_that_has_changed_is_marked(changed: str, commit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"rev-parse": "abc1234", "ls-files": "__init__.py", "status": changed}
    monkeypatch.setattr(provenance, "_git", lambda command, *_: answers[command])
    monkeypatch.delenv("DRPN_COMMIT", raising=False)
    assert provenance.commit() == commit


def test_a_checkout_of_something_else_is_not_taken_for_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the package is installed in an environment that lies within another project."""
    answers = {"rev-parse": "abc1234", "ls-files": "", "status": ""}
    monkeypatch.setattr(provenance, "_git", lambda command, *_: answers[command])
    monkeypatch.delenv("DRPN_COMMIT", raising=False)
    assert provenance.commit() == "not known"


def test_the_machine_says_what_it_is() -> None:
    assert {"commit", "processor", "cores", "memory_gb", "python", "numpy", "torch"} <= set(provenance.machine())

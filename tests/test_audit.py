"""The audit of dependencies fails for known vulnerabilities, and only for these."""

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(monkeypatch: pytest.MonkeyPatch, out: str, error: str = "", code: int = 0) -> None:
    result = SimpleNamespace(stdout=out, stderr=error, returncode=code)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: result)


def test_a_known_vulnerability_fails(audit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(
        monkeypatch,
        '{"dependencies": [{"name": "jinja2", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1"]}]},'
        '{"name": "numpy", "version": "2.0", "vulns": []}]}',
        code=1,
    )
    fine, lines = audit.audit("requirements.lock")
    assert not fine
    assert lines[0] == "jinja2 2.0 is vulnerable (PYSEC-1); update it to 3.1"


def test_no_vulnerability_passes(audit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(
        monkeypatch,
        '{"dependencies": [{"name": "numpy", "version": "2.0", "vulns": []}, {"name": "own", "skip_reason": "none"}]}',
    )
    assert audit.audit("requirements.lock") == (True, ["1 dependencies audited, 1 are not listed"])


@pytest.mark.parametrize(
    ("out", "error", "said"),
    [
        ("", "Traceback\nrequests.exceptions.ConnectionError: no route to host", "no route to host"),
        (
            '{"dependencies": [{"name": "numpy", "skip_reason": "not found"}]}',
            "No known vulnerabilities found",
            "reached",
        ),
    ],
)
def test_without_a_network_one_line_says_so(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, out: str, error: str, said: str
) -> None:
    answer(monkeypatch, out, error)
    fine, lines = audit.audit("requirements.lock")
    assert fine
    assert len(lines) == 1
    assert lines[0].startswith("dependencies were not audited: ")
    assert lines[0].endswith(said)


def test_a_missing_pip_audit_fails(audit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "", "python: No module named pip_audit", code=1)
    assert audit.audit("requirements.lock") == (False, ["pip-audit is not installed; run make install"])

"""The example of docs/store.md does what it says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "store.md"


def test_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    clicked, skipped = capsys.readouterr().out.split("skipped=")
    assert "'storm'" in clicked
    assert "'chess'" in skipped

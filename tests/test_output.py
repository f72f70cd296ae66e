"""A folder is whole or not there."""

import errno
from pathlib import Path

import pytest

from drpn.errors import OutputError
from drpn.output import atomic_folder


def fill(target: Path, text: str, *, replace: bool = False, fail: Exception | None = None) -> None:
    with atomic_folder(target, replace=replace) as folder:
        (folder / "a.txt").write_text(text)
        if fail:
            raise fail


def test_a_finished_folder_takes_its_name(tmp_path: Path) -> None:
    fill(tmp_path / "deep" / "out", "one")
    assert (tmp_path / "deep" / "out" / "a.txt").read_text() == "one"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


@pytest.mark.parametrize("fail", [RuntimeError("slip"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(tmp_path: Path, fail: Exception) -> None:
    with pytest.raises(type(fail)):
        fill(tmp_path / "out", "one", fail=fail)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_what_was_to_be_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "out", "one")
    with pytest.raises(RuntimeError):
        fill(tmp_path / "out", "two", replace=True, fail=RuntimeError())
    assert (tmp_path / "out" / "a.txt").read_text() == "one"
    fill(tmp_path / "out", "two", replace=True)
    assert (tmp_path / "out" / "a.txt").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("all I have")
    for replace, message in ((False, "exists"), (True, "was not made by drpn")):
        with pytest.raises(OutputError, match=message):
            fill(tmp_path / "home", "one", replace=replace)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "all I have"


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", "one")
    assert (tmp_path / "out" / "a.txt").read_text() == "one"


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the disk is full"):
        fill(tmp_path / "out", "one", fail=OSError(errno.ENOSPC, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


def test_an_input_that_fails_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    error = FileNotFoundError(errno.ENOENT, "No such file", "/elsewhere/input.txt")
    with pytest.raises(FileNotFoundError):
        fill(tmp_path / "out", "one", fail=error)

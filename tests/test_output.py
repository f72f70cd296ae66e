"""Folders are written completely or not at all."""

import errno
import shutil
from pathlib import Path

import pytest

from drpn.errors import OutputError
from drpn.output import atomic_folder


def fill(target: Path, text: str, *, replace: bool = False, fail: Exception | None = None) -> None:
    """Write a folder with one file, and fail afterwards if asked to."""
    with atomic_folder(target, replace=replace) as folder:
        (folder / "a.txt").write_text(text)
        if fail:
            raise fail


def test_a_finished_folder_gets_its_name(tmp_path: Path) -> None:
    fill(tmp_path / "deep" / "out", "one")
    assert (tmp_path / "deep" / "out" / "a.txt").read_text() == "one"
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]


@pytest.mark.parametrize("fail", [RuntimeError("bug"), KeyboardInterrupt()])
def test_a_failure_leaves_nothing(tmp_path: Path, fail: Exception) -> None:
    with pytest.raises(type(fail)):
        fill(tmp_path / "out", "one", fail=fail)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_keeps_the_old_folder(tmp_path: Path) -> None:
    fill(tmp_path / "out", "one")
    with pytest.raises(RuntimeError):
        fill(tmp_path / "out", "two", replace=True, fail=RuntimeError())
    assert (tmp_path / "out" / "a.txt").read_text() == "one"
    fill(tmp_path / "out", "two", replace=True)
    assert (tmp_path / "out" / "a.txt").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_folders_made_by_others_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("all I have")
    for replace, message in ((False, "exists"), (True, "was not made by drpn")):
        with pytest.raises(OutputError, match=message):
            fill(tmp_path / "home", "one", replace=replace)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "all I have"


def test_a_folder_that_vanishes_while_it_is_replaced_is_written_all_the_same(tmp_path: Path) -> None:
    fill(tmp_path / "out", "one")
    with atomic_folder(tmp_path / "out", replace=True) as folder:
        (folder / "a.txt").write_text("two")
        shutil.rmtree(tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", "one")
    assert (tmp_path / "out" / "a.txt").read_text() == "one"


def test_the_error_says_that_the_disk_is_full(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the disk is full"):
        fill(tmp_path / "out", "one", fail=OSError(errno.ENOSPC, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_input_is_not_reported_as_an_output_error(tmp_path: Path) -> None:
    error = FileNotFoundError(errno.ENOENT, "No such file", "/elsewhere/input.txt")
    with pytest.raises(FileNotFoundError):
        fill(tmp_path / "out", "one", fail=error)

"""Model files state the mathematics: what depends on devices, number types and kernels is in `layers`."""

import ast
from pathlib import Path

import pytest

import drpn.models

FOLDER = Path(drpn.models.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))


def names_in(file: Path) -> set[str]:
    """All identifiers, attributes and imported modules of a file."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            names |= set((node.module or "").split("."))
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(FOLDER).as_posix())
def test_no_model_file_asks_for_types_devices_or_kernels(file: Path) -> None:
    assert not names_in(file) & {"isinstance", "is_cuda", "is_cpu", "dtype", "autocast", "kernels", "triton"}


@pytest.mark.parametrize("file", [FOLDER / "drpn.py", *(FOLDER / "baselines").glob("*.py")], ids=lambda file: file.stem)
def test_no_model_names_a_device(file: Path) -> None:
    assert not names_in(file) & {"device", "cuda", "cpu"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(FOLDER).as_posix())
def test_no_model_names_what_a_log_tells_only_afterwards(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not [name for name in ("read_seconds", "scroll", "opinion", "appeal") if name in text]


def test_drpn_is_one_file_that_can_be_read_in_a_sitting() -> None:
    assert len((FOLDER / "drpn.py").read_text(encoding="utf-8").splitlines()) <= 400

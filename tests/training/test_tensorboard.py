"""The learning curve in TensorBoard, which is an optional dependency."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drpn.training.tensorboard import event_files
from small_training import COMMAND, curve, refused

MODULE = "torch.utils.tensorboard"


class Writer:
    """Stands in for SummaryWriter and keeps the values in memory."""

    created: list["Writer"]

    def __init__(self, folder: Path, purge_step: int) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.purge_step = folder, purge_step
        self.scalars: dict[str, list[tuple[int, float]]] = {}
        self.flushed = self.closed = False
        Writer.created.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.setdefault(name, []).append((step, value))
        self.flushed = False

    def flush(self) -> None:
        self.flushed = True

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def writers(monkeypatch: pytest.MonkeyPatch) -> list[Writer]:
    """Replace TensorBoard by `Writer`; return the list to which each new writer is added."""
    Writer.created = []
    monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(SummaryWriter=Writer))
    return Writer.created


@pytest.fixture
def without_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULE, None)  # makes the import fail even where it is installed


def point(epoch: int, seconds: float) -> dict[str, Any]:
    return {"epoch": epoch, "loss": 1.5 / epoch, "validation_auc": 0.5 + epoch / 100, "seconds": seconds}


def test_every_point_is_flushed_at_once(writers: list[Writer], tmp_path: Path) -> None:
    with event_files(tmp_path / "tensorboard", samples=600) as write:
        assert writers == []  # a training that fails before its first point writes no file
        write(point(1, seconds=2.0))
        (writer,) = writers
        assert writer.flushed
        assert not writer.closed
        write(point(2, seconds=5.0))
        assert writer.flushed
    assert writer.closed
    assert writer.folder == tmp_path / "tensorboard"
    assert writer.scalars == {
        "training/loss": [(1, 1.5), (2, 0.75)],
        "training/samples_per_second": [(1, 300.0), (2, 200.0)],  # 600 in 2 s, then 600 in 3 s
        "validation/auc": [(1, 0.51), (2, 0.52)],
    }


def test_tensorboard_gets_the_curve_of_the_run(drpn, data: Path, tmp_path: Path, writers: list[Writer]) -> None:
    assert data.exists()
    done = drpn(*COMMAND, "--tensorboard")
    assert done.returncode == 0, done.stderr
    (writer,) = writers
    assert writer.folder.resolve() == tmp_path / "run" / "tensorboard"
    points = curve(tmp_path / "run")
    assert writer.scalars["training/loss"] == [(point["epoch"], point["loss"]) for point in points]
    assert writer.scalars["validation/auc"] == [(point["epoch"], point["validation_auc"]) for point in points]
    assert len(points) == 4


def test_a_resumed_run_writes_its_whole_curve(
    drpn, data: Path, tmp_path: Path, writers: list[Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is stopped in its third validation and resumed with --tensorboard."""
    from drpn.recipes import train

    validation_auc, calls = train.validation_auc, []

    def third_is_interrupted(*arguments: Any) -> float:
        calls.append(0)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return validation_auc(*arguments)

    assert data.exists()
    with monkeypatch.context() as patch:
        patch.setattr(train, "validation_auc", third_is_interrupted)
        assert drpn(*COMMAND).returncode == 130
    assert len(curve(tmp_path / "run")) == 2
    assert drpn(*COMMAND, "--resume", "--tensorboard").returncode == 0
    (writer,) = writers
    assert [step for step, _ in writer.scalars["training/loss"]] == [1, 2, 3, 4]
    assert writer.purge_step == 1  # discards these steps in earlier event files
    assert writer.closed


@pytest.mark.usefixtures("without_tensorboard")
def test_without_tensorboard_the_error_says_how_to_install_it(drpn, data: Path, tmp_path: Path) -> None:
    assert data.exists()
    assert refused(drpn, *COMMAND, "--tensorboard") == (
        "TensorBoard is not installed; run: pip install 'drpn[tensorboard]'"
    )
    assert not (tmp_path / "run").exists()


def test_without_the_option_nothing_is_written(drpn, data: Path, tmp_path: Path, writers: list[Writer]) -> None:
    assert data.exists()
    assert drpn(*COMMAND, "--set", "training.epochs=1").returncode == 0
    assert writers == []
    assert not (tmp_path / "run" / "tensorboard").exists()

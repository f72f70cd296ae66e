"""Out of memory, and a missing GPU."""

from pathlib import Path

import pytest
import torch

from drpn.errors import MemoryShortError, SettingsError
from drpn.training.devices import choose_device, data_device, explain_out_of_memory
from drpn.training.settings import TrainingSettings
from drpn.training.steps import Stepper
from small_training import COMMAND, CPU, refused


def test_out_of_memory_on_a_gpu_names_the_setting_to_lower(data: Path, drpn, monkeypatch) -> None:
    def out_of_memory(*_: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    assert data.exists()
    monkeypatch.setattr(Stepper, "__call__", out_of_memory)
    assert refused(drpn, *COMMAND) == "the GPU is out of memory; lower training.batch, which is 16"


def test_out_of_memory_during_validation_names_the_model_size(data: Path, drpn, monkeypatch) -> None:
    def out_of_memory(*_: object, **__: object) -> float:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    assert data.exists()
    monkeypatch.setattr("drpn.recipes.train.score_on_device", out_of_memory)
    assert refused(drpn, *COMMAND) == "the GPU is out of memory; lower model.size, which is 16"


def test_out_of_memory_on_a_cpu_names_the_setting_to_lower(data: Path, drpn, monkeypatch) -> None:
    def out_of_memory(*_: object) -> float:
        torch.empty(1 << 60, dtype=torch.uint8)
        raise AssertionError("this machine has an exbibyte of memory")

    assert data.exists()
    monkeypatch.setattr(Stepper, "__call__", out_of_memory)
    assert refused(drpn, *COMMAND) == "out of memory; lower training.batch, which is 16"


def test_other_errors_are_not_reported_as_out_of_memory() -> None:
    with pytest.raises(MemoryShortError), explain_out_of_memory("training.batch", 8):
        raise MemoryError
    with pytest.raises(RuntimeError, match="shapes"), explain_out_of_memory("training.batch", 8):
        raise RuntimeError("shapes do not fit")


def test_after_out_of_memory_the_same_folder_can_be_used_again(data: Path, drpn, monkeypatch) -> None:
    def out_of_memory(*_: object) -> float:
        raise MemoryError

    assert data.exists()
    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "__call__", out_of_memory)
        refused(drpn, *COMMAND)
    done = drpn(*COMMAND, "--set", "training.batch=80", "--set", "training.epochs=1")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_a_missing_gpu_is_refused() -> None:
    with pytest.raises(SettingsError) as raised:
        choose_device(TrainingSettings(device="cuda"))
    assert str(raised.value) == "training.device is 'cuda', but there is no GPU here; choose 'cpu' or 'auto'"
    assert choose_device(TrainingSettings(device="auto")) == CPU


@pytest.mark.usefixtures("no_gpu")
def test_a_missing_gpu_leaves_no_run_folder(data: Path, drpn, tmp_path: Path) -> None:
    assert data.exists()
    message = refused(drpn, *COMMAND, "--set", "training.device=cuda")
    assert message.startswith("training.device is 'cuda'")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("data", "size", "place"),
    [("auto", 40, "cuda"), ("auto", 60, "cpu"), ("device", 60, "cuda"), ("host", 40, "cpu")],
)
def test_data_stay_in_host_memory_if_the_gpu_has_no_room(data: str, size: int, place: str, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (100, 1000))
    settings = TrainingSettings(data=data)  # type: ignore[arg-type]
    assert data_device(settings, torch.device("cuda"), size).type == place
    assert data_device(settings, torch.device("cpu"), size).type == "cpu"

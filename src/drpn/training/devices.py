"""Choose the device and the precision of a training."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from drpn.errors import MemoryShortError, SettingsError
from drpn.training.settings import TrainingSettings


def choose_device(settings: TrainingSettings) -> torch.device:
    """Return the device of the settings; auto is a GPU if there is one."""
    if settings.device == "cuda" and not torch.cuda.is_available():
        raise SettingsError("training.device is 'cuda', but there is no GPU here; choose 'cpu' or 'auto'")
    if settings.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda")


def data_device(settings: TrainingSettings, device: torch.device, size: int) -> torch.device:
    """Return where to keep `size` bytes of data while a model trains on the device."""
    if device.type == "cpu" or settings.data == "host":
        return torch.device("cpu")
    if settings.data == "auto" and size > torch.cuda.mem_get_info(device)[0] / 2:
        return torch.device("cpu")
    return device


def check_precision(settings: TrainingSettings, device: torch.device) -> None:
    """Refuse bf16 on a CPU: some CPUs that advertise it kill the process without a message."""
    if settings.precision == "bf16" and device.type == "cpu":
        raise SettingsError("training.precision is 'bf16', which needs a GPU; choose 'fp32' or 'auto'")


@contextmanager
def explain_out_of_memory(setting: str, value: object) -> Iterator[None]:
    """Turn an out-of-memory error into a one-line error that names the setting to lower."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryShortError(f"the GPU is out of memory; lower {setting}, which is {value}") from error
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't allocate memory" not in str(error):
            raise
        raise MemoryShortError(f"out of memory; lower {setting}, which is {value}") from error

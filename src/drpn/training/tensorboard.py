"""Write the learning curve of a training for TensorBoard."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drpn.errors import SettingsError
from drpn.output import explain_write_errors
from drpn.training.loop import OnPoint

if TYPE_CHECKING:  # an optional dependency
    from torch.utils.tensorboard import SummaryWriter


def check_tensorboard() -> None:
    """Raise an error that says how to install TensorBoard if it is missing."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as error:
        raise SettingsError("TensorBoard is not installed; run: pip install 'drpn[tensorboard]'") from error


@contextmanager
def event_files(folder: Path, samples: int) -> Iterator[OnPoint]:
    """Yield a function that writes a curve point to event files in `folder`; an epoch has `samples` samples."""
    writer: SummaryWriter | None = None
    seconds = 0.0

    def write(point: dict[str, Any]) -> None:
        nonlocal writer, seconds
        with explain_write_errors(folder):
            writer = writer or _open_writer(folder)
            epoch_seconds = max(point["seconds"] - seconds, 0.01)  # the curve is rounded to hundredths
            for name, value in (
                ("training/loss", point["loss"]),
                ("training/samples_per_second", samples / epoch_seconds),
                ("validation/auc", point["validation_auc"]),
            ):
                writer.add_scalar(name, value, point["epoch"])
            writer.flush()
        seconds = point["seconds"]

    try:
        yield write
    finally:
        if writer:
            writer.close()


def _open_writer(folder: Path) -> "SummaryWriter":
    from torch.utils.tensorboard import SummaryWriter

    # a resumed run writes its whole curve again, so points in earlier event files are discarded
    return SummaryWriter(folder, purge_step=1)

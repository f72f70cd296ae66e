"""The curve of a training as TensorBoard shows it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drpn.errors import SettingsError
from drpn.output import explain_write_errors
from drpn.training.loop import OnPoint

if TYPE_CHECKING:  # an extra, which need not be installed
    from torch.utils.tensorboard import SummaryWriter


def check_tensorboard() -> None:
    """TensorBoard is there, or the error says how to get it."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError as error:
        raise SettingsError("TensorBoard is not installed; run: pip install 'drpn[tensorboard]'") from error


@contextmanager
def event_files(folder: Path, samples: int) -> Iterator[OnPoint]:
    """Within the block, each point that is told goes to event files in `folder`; `samples` are those of a pass."""
    writer: SummaryWriter | None = None
    seconds = 0.0

    def write(point: dict[str, Any]) -> None:
        nonlocal writer, seconds
        with explain_write_errors(folder):
            writer = writer or _open(folder)
            pass_seconds = max(point["seconds"] - seconds, 0.01)  # the curve rounds to hundredths
            for name, value in (
                ("training/loss", point["loss"]),
                ("training/samples_per_second", samples / pass_seconds),
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


def _open(folder: Path) -> "SummaryWriter":
    from torch.utils.tensorboard import SummaryWriter

    # a run taken up tells its whole curve again: what earlier files say of it gives way
    return SummaryWriter(folder, purge_step=1)

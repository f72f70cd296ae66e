"""Checkpoints: weights, optimiser, random state and progress in one safetensors file. No pickle."""

import hashlib
import json
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from drpn.errors import RunError
from drpn.output import atomic_file
from drpn.ranks import ALONE, Ranks

FORMAT = 3
_ROOM = 3
"""Copies stay on a GPU whose free memory is more than this many times their size."""


@dataclass
class TrainingState:
    """Progress of a training, and its best result so far."""

    epoch: int = 0
    """The current epoch, from 0."""
    step: int = 0
    """Completed steps of the current epoch, or of the current planted pass."""
    best_auc: float = -1.0
    best_epoch: int = -1
    seconds: float = 0.0
    finished: bool = False
    loss: float = 0.0
    """Sum of the losses of the current epoch, or of the current planted pass."""
    planted_passes: int = 0
    """Completed passes with planted feedback alone, which come before the first epoch."""


class Checkpoints:
    """Writes checkpoints to one file in a background thread, from a copy of the state.

    `run` is the fingerprint of the run, which `load_checkpoint` compares. Without a file nothing is written.
    """

    def __init__(self, file: Path | None, *, run: str | None = None) -> None:
        self._file, self._run = file, run
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._writer:
            if kind is None:
                self.wait()  # after an error the file is still written, but the first error is the one raised

    def save(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainingState, best: dict[str, Tensor]
    ) -> None:
        """Start writing the file atomically, after the previous write has ended."""
        if self._file is None:
            return
        self.wait()
        header, tensors = _snapshot(model, optimiser, state, best)
        if self._run is not None:
            header["run"] = self._run
        copied = _now_on_gpu(tensors)
        self._pending = self._writer.submit(_write, self._file, header, tensors, copied)

    def wait(self) -> None:
        """Wait for the last write to end; raise its error if it failed."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()


def _snapshot(
    model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainingState, best: dict[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Copy everything a checkpoint holds: its header and its tensors. Of a finished training only the best are kept."""
    optimiser_state = optimiser.state_dict()
    tensors: dict[str, Tensor] = {}
    if not state.finished:
        tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
        for index, slots in optimiser_state["state"].items():
            tensors |= {f"optimiser/{index}/{name}": torch.as_tensor(value) for name, value in slots.items()}
    copies = copy_tensors(tensors)
    copies |= {f"best/{name}": value for name, value in best.items()}  # never modified in place: no copy needed
    copies["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        copies["random/cuda"] = torch.cuda.get_rng_state()
    groups = [group | {"lr": float(group["lr"])} for group in deepcopy(optimiser_state["param_groups"])]
    header = {"format": FORMAT, "progress": asdict(state), "groups": groups}
    return header, copies


def copy_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors: within their GPU if it has room, which takes milliseconds, otherwise to the host's memory."""
    on_gpu = [tensor for tensor in tensors.values() if tensor.is_cuda]
    room = torch.cuda.mem_get_info(on_gpu[0].device)[0] if on_gpu else 0
    stay = room > _ROOM * sum(tensor.nbytes for tensor in on_gpu)
    return {
        name: (value.detach().clone() if stay else value.detach().to("cpu", copy=True)).contiguous()
        for name, value in tensors.items()
    }


def _now_on_gpu(tensors: dict[str, Tensor]) -> torch.cuda.Event | None:
    """An event after which the copies are complete, if some are on a GPU."""
    if not any(tensor.is_cuda for tensor in tensors.values()):
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def _to_host(tensors: dict[str, Tensor], copied: torch.cuda.Event) -> dict[str, Tensor]:
    """Bring tensors to the host's memory, in a stream of its own so that training goes on meanwhile."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_event(copied)
    with torch.cuda.stream(stream):
        return {name: value.cpu() for name, value in tensors.items()}


def _write(
    file: Path, header: dict[str, Any], tensors: dict[str, Tensor], copied: torch.cuda.Event | None = None
) -> None:
    if copied is not None:
        tensors = _to_host(tensors, copied)
    header["checksum"] = _checksum(header, tensors)
    with atomic_file(file) as scratch:
        save_file(tensors, scratch, metadata={"drpn": json.dumps(header)})


def load_checkpoint(
    file: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    *,
    run: str | None = None,
    ranks: Ranks = ALONE,
) -> tuple[TrainingState, dict[str, Tensor]]:
    """Restore model, optimiser and random state; return the training state and the best weights so far.

    A checkpoint of another run than `run`, a fingerprint, is refused; None is a run of an older version, without one.
    The first process reads the file, and the others receive what it holds.
    """
    stored: dict[str, Tensor] | None = None

    def read() -> dict[str, Any]:
        nonlocal stored
        header, stored = _read(file)
        if header.get("run") != run:
            raise RunError(
                f"{file} is a checkpoint of another run; put back the run's own, or remove it to train again"
            )
        return header

    header = ranks.from_first(read)
    tensors = ranks.tensors_from_first(stored)
    state = TrainingState(**header["progress"])
    if state.finished:
        return state, _with_prefix(tensors, "best/")
    model.load_state_dict(_with_prefix(tensors, "model/"))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, value in _with_prefix(tensors, "optimiser/").items():
        index, slot = name.split("/")
        slots.setdefault(int(index), {})[slot] = value
    own = [(group.get("capturable", False), group["lr"]) for group in optimiser.param_groups]
    optimiser.load_state_dict({"state": slots, "param_groups": header["groups"]})
    for group, (is_capturable, rate) in zip(optimiser.param_groups, own, strict=True):
        group["capturable"] = is_capturable  # depends on this device, not on the one that wrote the checkpoint
        if isinstance(rate, Tensor):  # so does the place of a rate that changes
            group["lr"] = rate.fill_(group["lr"])
    torch.set_rng_state(tensors["random/cpu"])
    if "random/cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return state, _with_prefix(tensors, "best/")


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as stream:
            header = json.loads(stream.metadata()["drpn"])
            version = header["format"]
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise _damaged(file) from error
    if version != FORMAT:
        raise RunError(f"{file} has format {version}, this version of drpn reads format {FORMAT}; train again")
    if header.pop("checksum", None) != _checksum(header, tensors):
        raise _damaged(file)
    return header, tensors


def _damaged(file: Path) -> RunError:
    return RunError(f"{file} is not a complete checkpoint; remove it and train again")


def _checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """SHA-256 of the header and of the name, dtype, shape and bytes of every tensor, sorted by name."""
    names = sorted(tensors)
    types = [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in names]
    digest = hashlib.sha256(json.dumps([header, types], sort_keys=True).encode())
    for name in names:
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose name starts with the prefix, under their names without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

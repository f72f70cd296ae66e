"""A training as one safetensors file: weights, optimiser, randomness and progress. No pickle."""

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

FORMAT = 2


@dataclass
class Progress:
    """How far a training has come."""

    epoch: int = 0
    step: int = 0
    """Steps of this pass that are done."""
    best_auc: float = -1.0
    best_epoch: int = -1
    seconds: float = 0.0
    finished: bool = False
    loss: float = 0.0
    """Sum of the losses of this pass."""


class Checkpoints:
    """Keeps one file up to date; it is written beside the training, from a copy of its state."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pen = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._last: Future[None] | None = None

    def __enter__(self) -> "Checkpoints":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._pen:
            if kind is None:
                self.wait()  # otherwise what went wrong first is told, and the file is written all the same

    def save(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress, best: dict[str, Tensor]
    ) -> None:
        """Begin to write the file, whole or not at all, once the one before it is written."""
        self.wait()
        self._last = self._pen.submit(_write, self._file, *_copied(model, optimiser, progress, best))

    def wait(self) -> None:
        """Until the last one is written; what went wrong with it is raised here."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()


def _copied(
    model: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress, best: dict[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    state = optimiser.state_dict()
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for index, slots in state["state"].items():
        tensors |= {f"optimiser/{index}/{name}": torch.as_tensor(value) for name, value in slots.items()}
    copies = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    copies |= {f"best/{name}": value for name, value in best.items()}  # never changed, only replaced
    copies["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        copies["random/cuda"] = torch.cuda.get_rng_state()
    return {"format": FORMAT, "progress": asdict(progress), "groups": deepcopy(state["param_groups"])}, copies


def _write(file: Path, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    facts["checksum"] = _checksum(facts, tensors)
    with atomic_file(file) as scratch:
        save_file(tensors, scratch, metadata={"drpn": json.dumps(facts)})


def load_checkpoint(
    file: Path, model: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    """Put model, optimiser and randomness back; gives the progress and the best weights so far."""
    facts, tensors = _read(file)
    model.load_state_dict(_under(tensors, "model/"))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, value in _under(tensors, "optimiser/").items():
        index, slot = name.split("/")
        slots.setdefault(int(index), {})[slot] = value
    capturable = [group.get("capturable", False) for group in optimiser.param_groups]
    optimiser.load_state_dict({"state": slots, "param_groups": facts["groups"]})
    for group, own in zip(optimiser.param_groups, capturable, strict=True):
        group["capturable"] = own  # of this device, not of the one that saved
    torch.set_rng_state(tensors["random/cpu"])
    if "random/cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return Progress(**facts["progress"]), _under(tensors, "best/")


def _read(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as stream:
            facts = json.loads(stream.metadata()["drpn"])
            version = facts["format"]
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise _not_whole(file) from error
    if version != FORMAT:
        raise RunError(f"{file} has format {version}, this drpn reads format {FORMAT}; train again")
    if facts.pop("checksum", None) != _checksum(facts, tensors):
        raise _not_whole(file)
    return facts, tensors


def _not_whole(file: Path) -> RunError:
    return RunError(f"{file} is not a whole checkpoint; remove it and train again")


def _checksum(facts: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """Of the facts, and of every tensor's name, kind, shape and bytes, in the order of the names."""
    names = sorted(tensors)
    kinds = [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in names]
    found = hashlib.sha256(json.dumps([facts, kinds], sort_keys=True).encode())
    for name in names:
        found.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

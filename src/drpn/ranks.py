"""The processes that torchrun starts for one job: which one this is, and what they tell each other.

Without torchrun there is one process, and every exchange returns what it was given. PyTorch is loaded at the first
exchange, so that this module can be asked early which process this is.
"""

import functools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from drpn.errors import DrpnError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
_PAUSE = 0.2
"""Seconds to wait before processes leave each other."""


class FirstProcessError(DrpnError):
    """The first process stopped with an error, which it reports itself."""


@dataclass(frozen=True)
class Ranks:
    """This process among those of its job."""

    rank: int = 0
    """The number of this process, from 0."""
    size: int = 1
    """How many processes there are."""
    local_rank: int = 0
    local_size: int = 1
    """How many of them run on this machine."""
    together: bool = False
    """Whether torchrun started this process, perhaps as the only one."""
    restarts: int = 0
    """How often torchrun started the job again after a process died."""

    @property
    def first(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def part(self, length: int) -> slice:
        """The part of `length` samples that this process takes; parts differ by one sample at most."""
        return slice(self.rank * length // self.size, (self.rank + 1) * length // self.size)

    def counts(self, length: int) -> list[int]:
        """How many of `length` samples each process takes."""
        return [(rank + 1) * length // self.size - rank * length // self.size for rank in range(self.size)]

    def join(self) -> None:
        """Meet the other processes; called by the first exchange. GPU tensors travel by NCCL, others by gloo.

        Call it before anything is put on a GPU: it chooses the GPU of this process.

        torchrun keeps the addresses of processes in one store for all its starts. Each start has its own names there:
        otherwise a process may find the address of one that died.
        """
        if not self.together:
            return
        import torch
        from torch.distributed.distributed_c10d import PrefixStore
        from torch.distributed.rendezvous import rendezvous

        if torch.distributed.is_initialized():
            return
        has_gpu = torch.cuda.is_available()
        if has_gpu:
            torch.cuda.set_device(self.local_rank)
        store, rank, size = next(rendezvous("env://"))
        torch.distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if has_gpu else "gloo",
            store=PrefixStore(f"start {self.restarts}", store),
            rank=rank,
            world_size=size,
        )

    def leave(self) -> None:
        """Wait until all processes are done."""
        if self.together:
            import torch

            if torch.distributed.is_initialized():
                torch.distributed.barrier()
                # gloo's threads still give back the tensors of the last exchange, for which they need Python's lock;
                # without this pause the end of the group may wait for them while it holds the lock
                time.sleep(_PAUSE)
                torch.distributed.destroy_process_group()

    def from_first(self, make: Callable[[], T]) -> T:
        """What `make` returns in the first process; if it fails there, every process fails."""
        if not self.together:
            return make()
        import torch

        self.join()
        told: list[tuple[T, ...]] = [()]  # empty if `make` fails
        if self.first:
            try:
                told = [(make(),)]
            finally:
                torch.distributed.broadcast_object_list(told)
        else:
            torch.distributed.broadcast_object_list(told)
        if not told[0]:
            raise FirstProcessError("the first process has stopped; its message says why")
        return told[0][0]

    def tensors_from_first(self, tensors: "dict[str, Tensor] | None") -> "dict[str, Tensor]":
        """The tensors of the first process, on the CPU; the others give None."""
        if not self.together:
            assert tensors is not None
            return tensors
        import torch

        shapes = self.from_first(lambda: {name: (value.shape, value.dtype) for name, value in (tensors or {}).items()})
        known = tensors or {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in shapes.items()}
        for value in known.values():
            if value.numel():
                torch.distributed.broadcast(value, 0)
        return known

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether it is set in some process."""
        if not self.together:
            return flags
        import torch

        self.join()
        values = torch.tensor(flags, dtype=torch.uint8)
        torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX)
        return tuple(bool(value) for value in values.tolist())

    def add(self, values: "Tensor") -> "Tensor":
        """The sum over all processes, in each of them; `values` is overwritten."""
        if self.together:
            import torch

            self.join()
            torch.distributed.all_reduce(values)
        return values

    def copy_first(self, values: "Tensor") -> None:
        """Overwrite the values by those of the first process."""
        if self.together:
            import torch

            self.join()
            torch.distributed.broadcast(values, 0)

    def each(self, values: "Tensor") -> "list[Tensor]":
        """The tensors of every process, which have one shape, by process."""
        if not self.together:
            return [values]
        import torch

        self.join()
        every = [torch.empty_like(values) for _ in range(self.size)]
        torch.distributed.all_gather(every, values)
        return every

    def rows(self, values: "Tensor", counts: Sequence[int]) -> "list[Tensor]":
        """The rows of every process, by process; `counts` are their numbers, which may differ."""
        if not any(counts):
            return [values for _ in counts]
        padded = values.new_zeros(max(counts), *values.shape[1:])
        padded[: len(values)] = values
        return [one[:count] for one, count in zip(self.each(padded), counts, strict=True)]


ALONE = Ranks()
"""One process, as without torchrun."""


@functools.cache
def current() -> Ranks:
    """This process, as torchrun's variables describe it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return ALONE
    return Ranks(
        rank=int(os.environ["RANK"]),
        size=int(os.environ["WORLD_SIZE"]),
        local_rank=int(os.environ["LOCAL_RANK"]),
        local_size=int(os.environ["LOCAL_WORLD_SIZE"]),
        together=True,
        restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )

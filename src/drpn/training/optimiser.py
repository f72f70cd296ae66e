"""What changes the weights: Adam, and a lazy one that leaves alone the rows of tables that a batch did not use."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from drpn.layers.gather import give_sparse_gradient
from drpn.models.base import ClickModel
from drpn.training.settings import TrainingSettings


def build_optimiser(model: ClickModel, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The one of the settings; AdamW where weights decay, which without decay is Adam."""
    choices: dict[str, Any] = {
        "lr": settings.rate,
        "weight_decay": settings.decay,
        "fused": True,
        "capturable": next(model.parameters()).is_cuda,
    }
    if settings.optimiser == "adam":
        return torch.optim.AdamW(model.parameters(), **choices)
    tables = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    for table in tables:
        give_sparse_gradient(table)
    others = [one for one in model.parameters() if all(one is not table for table in tables)]
    groups: list[dict[str, Any]] = [{"params": others}, {"params": tables, "lazy": True}]
    return LazyAdam(groups, **choices)


class LazyAdam(torch.optim.AdamW):
    """Adam whose moments and weights of a table's row change only at steps that have a gradient for the row.

    Adam moves every row at every step, on what it remembers of earlier gradients, and forgets a little each time; of a
    large table a small batch then costs as much as a large one. Here a row is moved, and forgets, when it is used:
    after a long rest it moves by its last gradient alone. Corrections for the first steps count all steps.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; gradients of tables may be sparse."""
        if closure is not None:
            raise ValueError("LazyAdam takes no closure; call backward first")
        lazy = [(group, table) for group in self.param_groups if group.get("lazy") for table in group["params"]]
        gradients = [table.grad for _, table in lazy]
        for _, table in lazy:
            table.grad = None  # not for Adam
        super().step()
        for (group, table), gradient in zip(lazy, gradients, strict=True):
            table.grad = gradient
            if gradient is not None:
                self._move_rows(group, table, gradient)
        return None

    def _move_rows(self, group: dict[str, Any], table: Tensor, gradient: Tensor) -> None:
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=table.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        state["step"] += 1
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            used = gradient.values().any(1)  # a row may have been gathered and then dropped
            rows, of_rows = gradient.indices()[0][used], gradient.values()[used]
            moved = self._moved(group, state["step"], of_rows, *(each[rows] for each in _slots(table, state)))
            for each, new in zip(_slots(table, state), moved, strict=True):
                each[rows] = new
        else:
            used = gradient.any(1, keepdim=True)  # no row is picked out: nothing waits for a count
            moved = self._moved(group, state["step"], gradient, *_slots(table, state))
            for each, new in zip(_slots(table, state), moved, strict=True):
                each.copy_(torch.where(used, new, each))

    def _moved(
        self, group: dict[str, Any], step: Tensor, gradient: Tensor, weights: Tensor, mean: Tensor, square: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        first, second = group["betas"]
        mean = torch.lerp(mean, gradient, 1 - first)
        square = second * square + (1 - second) * gradient * gradient
        root = (square / (1 - second**step)).sqrt() + group["eps"]
        weights = weights * (1 - group["lr"] * group["weight_decay"])
        return weights - group["lr"] / (1 - first**step) * mean / root, mean, square


def _slots(table: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    return table, state["exp_avg"], state["exp_avg_sq"]

"""Adam, and a lazy Adam that skips the table rows a batch does not use."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from drpn.layers.gather import give_sparse_gradient
from drpn.models.base import ClickModel
from drpn.training.settings import WEIGHT_KINDS, TrainingSettings, WeightKind


def build_optimiser(model: ClickModel, settings: TrainingSettings) -> torch.optim.Optimizer:
    """Return the optimiser of the settings: AdamW, which without decay is Adam, or LazyAdam."""
    options: dict[str, Any] = {
        "lr": _rate(model, settings, 1.0),
        "betas": (0.9, settings.beta2),
        "weight_decay": settings.decay,
        "fused": True,
        "capturable": next(model.parameters()).is_cuda,
    }
    lazy = settings.optimiser == "lazy-adam"
    slow = _slow_weights(model) if settings.view_rate != 1 else set()
    groups: dict[tuple[bool, bool, float], list[nn.Parameter]] = {}
    for kind, parameters in weights_by_kind(model).items():
        is_lazy, of_kind = lazy and kind == "tables", settings.matrix_rate if kind == "matrices" else 1.0
        for parameter in parameters:
            share = of_kind * (settings.view_rate if id(parameter) in slow else 1.0)
            groups.setdefault((kind in settings.undecayed_kinds, is_lazy, share), []).append(parameter)
            if is_lazy:
                give_sparse_gradient(parameter)
    parts: list[dict[str, Any]] = [
        {"params": parameters}
        | ({"weight_decay": 0.0} if undecayed else {})
        | ({"lazy": True} if is_lazy else {})
        | ({} if share == 1 else {"lr": _rate(model, settings, share), "share": share})
        for (undecayed, is_lazy, share), parameters in groups.items()
    ]
    return LazyAdam(parts, **options) if lazy else torch.optim.AdamW(parts, **options)


def _slow_weights(model: ClickModel) -> set[int]:
    """The weights outside of the context view, by id; none if there is no such view."""
    if model.context is None:
        return set()
    return {id(weight) for weight in model.parameters()} - {id(weight) for weight in model.context.parameters()}


def _rate(model: ClickModel, settings: TrainingSettings, share: float) -> Tensor | float:
    """Return `share` times the learning rate; on a GPU with a schedule as a tensor, which captured steps read."""
    weight, rate = next(model.parameters()), share * settings.rate
    changes = settings.schedule != "constant" and weight.is_cuda
    return torch.tensor(rate, device=weight.device) if changes else rate


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Change the learning rate of all parameters, each group by its own share."""
    for group in optimiser.param_groups:
        own = rate * group.get("share", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def one_cycle(step: int, steps: int, warm_up: float = 0.3) -> float:
    """The factor of the learning rate of a step, from 0: up from 1/25 to 1, then down to almost 0."""
    low, end, peak = 1 / 25, 1 / 250_000, warm_up * steps - 1
    if peak > 0 and step <= peak:
        return low + (1 - low) * (1 - math.cos(math.pi * step / peak)) / 2
    return end + (1 - end) * (1 + math.cos(math.pi * (step - peak) / (steps - 1 - peak))) / 2


def weights_by_kind(model: nn.Module) -> dict[WeightKind, list[nn.Parameter]]:
    """Return all parameters of a model, each once, by the kinds that `training.undecayed` names."""
    kinds: dict[WeightKind, list[nn.Parameter]] = {kind: [] for kind in WEIGHT_KINDS}
    counted: set[int] = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in counted:
                counted.add(id(parameter))
                kinds[_kind(module, name, parameter)].append(parameter)
    return kinds


def _kind(module: nn.Module, name: str, parameter: nn.Parameter) -> WeightKind:
    if isinstance(module, nn.Embedding):
        return "tables"
    if parameter.ndim == 0:
        return "scalars"
    if isinstance(module, nn.LayerNorm) or name in ("scale", "shift"):
        return "norms"
    if parameter.ndim > 1:
        return "matrices"
    return "biases" if "bias" in name else "missing"


class LazyAdam(torch.optim.AdamW):
    """Adam that updates a row of an embedding table, and its moments, only in steps where the row has a gradient.

    Adam updates every row in every step, from the moments of earlier gradients, so with a large table a small batch
    costs as much as a large one. Here the moments of an unused row do not decay: the row's next update starts from the
    moments of its last use. Bias correction counts all steps.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters; gradients of tables may be sparse."""
        if closure is not None:
            raise ValueError("LazyAdam takes no closure; call backward first")
        lazy = [(group, table) for group in self.param_groups if group.get("lazy") for table in group["params"]]
        gradients = [table.grad for _, table in lazy]
        for _, table in lazy:
            table.grad = None  # AdamW skips parameters without a gradient
        super().step()
        for (group, table), gradient in zip(lazy, gradients, strict=True):
            table.grad = gradient
            if gradient is not None:
                self._update_rows(group, table, gradient)
        return None

    def _update_rows(self, group: dict[str, Any], table: Tensor, gradient: Tensor) -> None:
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=table.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        state["step"] += 1
        tensors = (table, state["exp_avg"], state["exp_avg_sq"])
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            used = gradient.values().any(1)  # dropout may leave a gathered row with a zero gradient
            rows, row_gradients = gradient.indices()[0][used], gradient.values()[used]
            updated = self._updated(group, state["step"], row_gradients, *(tensor[rows] for tensor in tensors))
            for tensor, values in zip(tensors, updated, strict=True):
                tensor[rows] = values
        else:
            used = gradient.any(1, keepdim=True)  # a mask: selecting rows would wait for their count
            updated = self._updated(group, state["step"], gradient, *tensors)
            for tensor, values in zip(tensors, updated, strict=True):
                tensor.copy_(torch.where(used, values, tensor))

    def _updated(
        self, group: dict[str, Any], step: Tensor, gradient: Tensor, weights: Tensor, mean: Tensor, square: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return weights and both moments after one step of AdamW."""
        beta1, beta2 = group["betas"]
        mean = torch.lerp(mean, gradient, 1 - beta1)
        square = beta2 * square + (1 - beta2) * gradient * gradient
        root = (square / (1 - beta2**step)).sqrt() + group["eps"]
        weights = weights * (1 - group["lr"] * group["weight_decay"])
        return weights - group["lr"] / (1 - beta1**step) * mean / root, mean, square

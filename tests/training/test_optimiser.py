"""LazyAdam: the rows it updates, the rows it leaves unchanged, and when it equals Adam."""

from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from drpn.models.base import ClickModel
from drpn.training.optimiser import build_optimiser
from drpn.training.settings import TrainingSettings

ROWS, SIZE, RATE = 7, 3, 0.1


class Lookup(nn.Module):
    """A minimal model: an embedding table and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(ROWS, SIZE)
        self.layer = nn.Linear(SIZE, 1)


def trained(name: str, used: list[list[int]], *, sparse: bool = True, decay: float = 0.0) -> Lookup:
    model = Lookup()
    settings = TrainingSettings(rate=RATE, decay=decay, optimiser=name)  # type: ignore[arg-type]
    optimiser = build_optimiser(cast(ClickModel, model), settings)
    for rows in used:
        optimiser.zero_grad()
        read = embedding(torch.tensor(rows), model.table.weight, sparse=sparse and name == "lazy-adam")
        model.layer(read).square().sum().backward()
        optimiser.step()
    return model


def table_by_loops(used: list[list[int]], decay: float) -> Tensor:
    """Return the table after the same steps, computed number by number."""
    model = Lookup()
    optimiser = build_optimiser(
        cast(ClickModel, model), TrainingSettings(rate=RATE, decay=decay, optimiser="lazy-adam")
    )
    table = model.table.weight.detach().clone()
    mean, square = torch.zeros_like(table), torch.zeros_like(table)
    for step, rows in enumerate(used, start=1):
        optimiser.zero_grad()
        model.table.weight.data.copy_(table)
        model.layer(embedding(torch.tensor(rows), model.table.weight)).square().sum().backward()
        gradient = model.table.weight.grad.clone()
        model.table.weight.grad = None
        optimiser.step()
        for row in set(rows):
            for column in range(SIZE):
                g = gradient[row, column]
                mean[row, column] = 0.9 * mean[row, column] + 0.1 * g
                square[row, column] = 0.999 * square[row, column] + 0.001 * g * g
                root = (square[row, column] / (1 - 0.999**step)).sqrt() + 1e-8
                table[row, column] *= 1 - RATE * decay
                table[row, column] -= RATE * mean[row, column] / (1 - 0.9**step) / root
    return table


USED = [[1, 2, 2], [2, 5], [1], [5, 5, 6], [2]]


@pytest.mark.parametrize("decay", [0.0, 0.5])
@pytest.mark.parametrize("sparse", [True, False])
def test_row_updates_follow_the_formula(sparse: bool, decay: float) -> None:
    torch.testing.assert_close(
        trained("lazy-adam", USED, sparse=sparse, decay=decay).table.weight, table_by_loops(USED, decay)
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_a_gathered_row_with_zero_gradient_is_unchanged(sparse: bool) -> None:
    model = Lookup()
    settings = TrainingSettings(rate=RATE, decay=0.5, optimiser="lazy-adam")
    optimiser = build_optimiser(cast(ClickModel, model), settings)
    for weight in (1.0, 0.0):  # in the second step row 1 is gathered with weight 0
        before = model.table.weight[1].detach().clone()
        optimiser.zero_grad()
        read = embedding(torch.tensor([1, 2]), model.table.weight, sparse=sparse)
        (model.layer(read).squeeze(1) * torch.tensor([weight, 1.0])).sum().backward()
        optimiser.step()
        assert torch.equal(model.table.weight[1], before) == (weight == 0.0)


def test_unused_rows_are_unchanged() -> None:
    before = Lookup().table.weight
    after = trained("lazy-adam", USED, decay=0.5).table.weight
    for row in range(ROWS):
        assert torch.equal(before[row], after[row]) == (row in {0, 3, 4})


def test_lazy_adam_equals_adam_if_every_step_uses_every_row() -> None:
    used = [list(range(ROWS))] * 6
    adam, lazy = (trained(name, used, decay=0.5) for name in ("adam", "lazy-adam"))
    for first, second in zip(adam.parameters(), lazy.parameters(), strict=True):
        torch.testing.assert_close(first, second)


def test_adam_updates_rows_used_earlier_and_lazy_adam_does_not() -> None:
    after_one, after_two = (trained("adam", used).table.weight[1] for used in ([[1]], [[1], [2]]))
    assert not torch.equal(after_one, after_two)
    after_one, after_two = (trained("lazy-adam", used).table.weight[1] for used in ([[1]], [[1], [2]]))
    assert torch.equal(after_one, after_two)

"""The lazy Adam: what it moves, what it leaves alone, and where it is Adam itself."""

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
    """A table and a layer, enough of a model to be trained."""

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


def by_hand(used: list[list[int]], decay: float) -> Tensor:
    """The table after the same steps, row by row."""
    model = Lookup()
    layer = build_optimiser(cast(ClickModel, model), TrainingSettings(rate=RATE, decay=decay, optimiser="lazy-adam"))
    table = model.table.weight.detach().clone()
    mean, square = torch.zeros_like(table), torch.zeros_like(table)
    for step, rows in enumerate(used, start=1):
        layer.zero_grad()
        model.table.weight.data.copy_(table)
        model.layer(embedding(torch.tensor(rows), model.table.weight)).square().sum().backward()
        gradient = model.table.weight.grad.clone()
        model.table.weight.grad = None
        layer.step()
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
def test_rows_move_as_the_formula_says(sparse: bool, decay: float) -> None:
    torch.testing.assert_close(
        trained("lazy-adam", USED, sparse=sparse, decay=decay).table.weight, by_hand(USED, decay)
    )


@pytest.mark.parametrize("sparse", [True, False])
def test_a_row_without_a_gradient_stays_though_it_was_gathered(sparse: bool) -> None:
    model = Lookup()
    settings = TrainingSettings(rate=RATE, decay=0.5, optimiser="lazy-adam")
    optimiser = build_optimiser(cast(ClickModel, model), settings)
    for weight in (1.0, 0.0):  # at the second step row 1 is gathered, and counts for nothing
        before = model.table.weight[1].detach().clone()
        optimiser.zero_grad()
        read = embedding(torch.tensor([1, 2]), model.table.weight, sparse=sparse)
        (model.layer(read).squeeze(1) * torch.tensor([weight, 1.0])).sum().backward()
        optimiser.step()
        assert torch.equal(model.table.weight[1], before) == (weight == 0.0)


def test_rows_that_were_not_used_stay() -> None:
    before = Lookup().table.weight
    after = trained("lazy-adam", USED, decay=0.5).table.weight
    for row in range(ROWS):
        assert torch.equal(before[row], after[row]) == (row in {0, 3, 4})


def test_where_every_row_is_used_at_every_step_it_is_adam() -> None:
    used = [list(range(ROWS))] * 6
    one, two = (trained(name, used, decay=0.5) for name in ("adam", "lazy-adam"))
    for first, second in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(first, second)


def test_adam_moves_rows_that_were_used_before_and_lazy_adam_does_not() -> None:
    after_one, after_two = (trained("adam", used).table.weight[1] for used in ([[1]], [[1], [2]]))
    assert not torch.equal(after_one, after_two)
    after_one, after_two = (trained("lazy-adam", used).table.weight[1] for used in ([[1]], [[1], [2]]))
    assert torch.equal(after_one, after_two)

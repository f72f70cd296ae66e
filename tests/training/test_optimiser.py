"""LazyAdam: the rows it updates, the rows it leaves unchanged, and when it equals Adam."""

from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from contract_cases import build
from drpn.models.base import ClickModel
from drpn.models.catalogue import CATALOGUE
from drpn.training.optimiser import build_optimiser, set_rate, weights_by_kind
from drpn.training.settings import TrainingSettings, ignored_settings

ROWS, SIZE, RATE = 7, 3, 0.1


class Lookup(nn.Module):
    """A minimal model: an embedding table and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Embedding(ROWS, SIZE)
        self.layer = nn.Linear(SIZE, 1)


def trained(
    name: str, used: list[list[int]], *, sparse: bool = True, decay: float = 0.0, undecayed: str = ""
) -> Lookup:
    model = Lookup()
    settings = TrainingSettings(rate=RATE, decay=decay, undecayed=undecayed, optimiser=name)
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


def after_decay_alone(name: str, undecayed: str, optimiser: str = "adam") -> dict[str, float]:
    """The remaining share of each weight after one step in which every gradient is zero: 1 without decay."""
    model = build(name).float()
    settings = TrainingSettings(rate=RATE, decay=0.5, undecayed=undecayed, optimiser=optimiser)
    before = {key: value.detach().clone().fill_(2.0) for key, value in model.named_parameters()}
    with torch.no_grad():
        for key, value in model.named_parameters():
            value.copy_(before[key])
            value.grad = torch.zeros_like(value)
    build_optimiser(model, settings).step()
    return {key: float(value.detach().flatten()[0]) / 2 for key, value in model.named_parameters()}


def test_decay_never_reaches_gamma_unless_asked_to() -> None:
    left = after_decay_alone("drpn", TrainingSettings().undecayed)
    for key, share in left.items():
        assert share == pytest.approx(1.0 if key.endswith("gamma") else 1 - RATE * 0.5), key
    assert sum(key.endswith("gamma") for key in left) == 4
    assert all(share == pytest.approx(0.95) for share in after_decay_alone("drpn", "").values())


def test_decay_never_reaches_the_factor_of_views() -> None:
    assert after_decay_alone("drpn-live", TrainingSettings().undecayed)["scale"] == 1.0
    assert after_decay_alone("drpn-live", "")["scale"] == pytest.approx(0.95)


@pytest.mark.parametrize(
    ("kind", "spared"),
    [
        ("norms", ["title.norm.weight", "title.norm.bias"]),
        ("biases", ["semantic.fusion.bias", "title.aggregate.hidden.bias"]),
        ("missing", ["id.unknown", "graph.lonely", "title.untitled"]),
        ("tables", ["id.table.weight", "title.words.table.weight"]),
        ("matrices", ["graph.query.weight", "semantic.fusion.out"]),
    ],
)
def test_each_kind_of_weights_can_be_spared(kind: str, spared: list[str]) -> None:
    left = after_decay_alone("drpn", kind)
    kinds = weights_by_kind(build("drpn"))
    assert sum(share == 1.0 for share in left.values()) == len(kinds[kind])
    assert all(left[key] == 1.0 for key in spared)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_weight_has_one_kind_and_one_place_in_the_optimiser(name: str) -> None:
    model = build(name)
    parameters = sorted(map(id, model.parameters()))
    assert sorted(id(weight) for weights in weights_by_kind(model).values() for weight in weights) == parameters
    for optimiser in ("adam", "lazy-adam"):
        groups = build_optimiser(model, TrainingSettings(decay=1, optimiser=optimiser)).param_groups
        assert sorted(id(weight) for group in groups for weight in group["params"]) == parameters
        assert all(group["weight_decay"] in (0, 1) for group in groups)


@pytest.mark.parametrize("schedule", ["constant", "one-cycle"])
@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
@pytest.mark.parametrize("name", ["drpn-live-ids", "drpn"])
def test_only_weights_outside_of_the_context_view_have_the_rate_of_views(
    name: str, optimiser: str, schedule: str
) -> None:
    model = build(name)
    settings = TrainingSettings(rate=0.4, view_rate=0.25, decay=1, optimiser=optimiser, schedule=schedule)
    built = build_optimiser(model, settings)

    def rates() -> dict[int, float]:
        return {id(weight): float(group["lr"]) for group in built.param_groups for weight in group["params"]}

    fast = model.parameters() if model.context is None else model.context.parameters()
    expected = {id(weight): 0.1 for weight in model.parameters()} | {id(weight): 0.4 for weight in fast}
    assert rates() == pytest.approx(expected)
    set_rate(built, 0.04)
    assert rates() == pytest.approx({weight: rate / 10 for weight, rate in expected.items()})


def test_lazy_tables_can_be_spared_too() -> None:
    used = [list(range(ROWS))] * 3
    spared, decayed = (trained("lazy-adam", used, decay=0.5, undecayed=kinds) for kinds in ("tables", ""))
    plain = trained("lazy-adam", used)
    assert not torch.equal(spared.table.weight, decayed.table.weight)
    assert not torch.equal(spared.layer.weight, plain.layer.weight)


def test_the_order_of_kinds_does_not_matter() -> None:
    assert TrainingSettings(undecayed="scalars norms scalars") == TrainingSettings(undecayed="norms  scalars")


def test_without_decay_it_does_not_matter_what_is_spared() -> None:
    assert "undecayed" in ignored_settings("softmax", decay=0, planted=False)
    assert "undecayed" not in ignored_settings("softmax", decay=1, planted=False)


def test_an_unknown_kind_of_weights_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^undecayed names 'gamma'; choose from tables, matrices, norms, biases, "):
        TrainingSettings(undecayed="norms gamma")


@pytest.mark.parametrize("optimiser", ["adam", "lazy-adam"])
def test_matrices_can_have_their_own_share_of_the_rate(optimiser: str) -> None:
    model = Lookup()
    settings = TrainingSettings(rate=RATE, matrix_rate=0.25, optimiser=optimiser, beta2=0.5)
    step = build_optimiser(cast(ClickModel, model), settings)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    set_rate(step, 2 * RATE)
    model.layer(model.table(torch.arange(ROWS))).sum().backward()
    step.step()
    moved = {name: float((value - before[name]).abs().max()) for name, value in model.state_dict().items()}
    # the first step of Adam moves every weight by its rate
    expected = {"table.weight": 2 * RATE, "layer.weight": 0.5 * RATE, "layer.bias": 2 * RATE}
    assert moved == pytest.approx(expected, rel=1e-3)
    assert all(group["betas"] == (0.9, 0.5) for group in step.param_groups)

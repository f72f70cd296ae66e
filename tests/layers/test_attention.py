"""Multi-head attention against `torch.nn.MultiheadAttention` with the same weights: outputs and gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from drpn.layers.attention import MultiHeadAttention
from drpn.layers.tables import TableRows, rows_at

SIZE = 12
LENGTHS = [7, 1, 3, 5]

everywhere = pytest.mark.parametrize("place", ["at the end", "in front", "in between"])
every_count = pytest.mark.parametrize("heads", [1, 2, 3, 12])


def drawn(heads: int, *, join: bool) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    """Both layers; torch's last projection is the identity where ours is left out."""
    torch.manual_seed(heads)
    own = MultiHeadAttention(SIZE, heads, join=join).double()
    other = nn.MultiheadAttention(SIZE, heads, bias=False, batch_first=True).double()
    with torch.no_grad():
        other.in_proj_weight.copy_(torch.cat([own.query.weight, own.key.weight, own.value.weight]))
        other.out_proj.weight.copy_(own.join.weight if isinstance(own.join, nn.Linear) else torch.eye(SIZE))
    return own, other


def sequences(place: str) -> tuple[Tensor, Tensor]:
    """Sequences with large numbers at padding, and their mask; torch has no result for an empty sequence."""
    torch.manual_seed(4)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    if place == "in front":
        mask = mask.flip(1)
    if place == "in between":
        mask = torch.stack([mask, torch.zeros_like(mask)], dim=2).flatten(1)
    items = torch.randn(*mask.shape, SIZE).double()
    return torch.where(mask.unsqueeze(-1), items, 50.0), mask


@pytest.mark.parametrize("join", [True, False], ids=["joined heads", "heads side by side"])
@everywhere
@every_count
def test_outputs_against_torch(heads: int, place: str, join: bool) -> None:
    own, other = drawn(heads, join=join)
    items, mask = sequences(place)
    expected, _ = other(items, items, items, key_padding_mask=~mask, need_weights=False)
    torch.testing.assert_close(own(own.project(items), mask)[mask], expected[mask], rtol=1e-9, atol=1e-12)


@everywhere
@every_count
def test_gradients_against_torch(heads: int, place: str) -> None:
    """Of every weight and every item; padding gets none."""
    own, other = drawn(heads, join=True)
    items, mask = sequences(place)
    towards = torch.randn_like(items)

    def gradients(read: Callable[[Tensor], Tensor], weights: list[nn.Parameter]) -> tuple[Tensor, ...]:
        given = items.clone().requires_grad_()
        return torch.autograd.grad((read(given) * towards)[mask].sum(), [given, *weights])

    def of_torch(given: Tensor) -> Tensor:
        actual: Tensor = other(given, given, given, key_padding_mask=~mask, need_weights=False)[0]
        return actual

    join = own.join
    assert isinstance(join, nn.Linear)
    given, query, key, value, joined = gradients(
        lambda given: own(own.project(given), mask), [own.query.weight, own.key.weight, own.value.weight, join.weight]
    )
    expected_given, expected_all, expected_joined = gradients(of_torch, [other.in_proj_weight, other.out_proj.weight])
    for actual, expected in (
        (given, expected_given),
        (torch.cat([query, key, value]), expected_all),
        (joined, expected_joined),
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
        assert expected.abs().max() > 1e-3
    assert not given[~mask].any()


@every_count
def test_rows_of_a_table_against_torch(heads: int) -> None:
    """Stories that occur in several sequences, projected once; the gradient of a story is the sum over its places."""
    own, other = drawn(heads, join=True)
    torch.manual_seed(5)
    table = torch.randn(6, SIZE).double().requires_grad_()
    positions = torch.tensor([[3, 1, 3, 0], [5, 0, 0, 0], [0, 2, 1, 5]])
    mask = positions != 0
    rows: TableRows = rows_at(own.project(table), positions)
    actual = own(rows, mask)[mask]
    given = table[positions]
    expected = other(given, given, given, key_padding_mask=~mask, need_weights=False)[0][mask]
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
    (of_own,), (of_torch,) = (torch.autograd.grad(result.square().sum(), table) for result in (actual, expected))
    torch.testing.assert_close(of_own, of_torch, rtol=1e-9, atol=1e-12)
    assert not of_own[[0, 4]].any()

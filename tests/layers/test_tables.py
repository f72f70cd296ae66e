"""Rows of tables at positions: gathered, projected late, or left in the table."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from drpn.layers import tables
from drpn.layers.linear import Weight, joint_linear
from drpn.layers.tables import (
    LazyProjection,
    TableRows,
    columns,
    concat_sequences,
    equal_weights,
    gather_at,
    map_tables,
    masked_mean,
    masked_sum,
    project,
    rows_at,
    weighted_sum,
    weighted_sums,
)

STORIES, SIZE = 9, 4
POSITIONS = torch.tensor([[7, 0, 7], [2, 8, 0]])


def numbers(*shape: int, seed: int = 3) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return values.requires_grad_()


def lazy(size: int = 5) -> LazyProjection:
    return LazyProjection(numbers(STORIES, SIZE), [Weight(numbers(size, SIZE, seed=4), numbers(size, seed=5))])


def computed(table: Tensor | LazyProjection) -> Tensor:
    """The whole table."""
    return joint_linear(table.items, table.weights) if isinstance(table, LazyProjection) else table


class Pair(NamedTuple):
    vectors: Tensor
    logits: Tensor


TABLES: dict[str, Callable[[], Any]] = {
    "matrix": lambda: numbers(STORIES, SIZE),
    "vector": lambda: numbers(STORIES),
    "lazy projection": lazy,
    "named tuple": lambda: Pair(numbers(STORIES, SIZE), numbers(STORIES)),
    "nested": lambda: {
        "semantic": (numbers(STORIES, SIZE), {"clicked": lazy(), "skipped": numbers(STORIES, 2)}),
        "logits": numbers(STORIES),
        "absent": None,
    },
}
every_kind = pytest.mark.parametrize("kind", TABLES)


@every_kind
def test_gather_at_gives_the_rows_at_the_positions(kind: str) -> None:
    encoded = TABLES[kind]()

    def check(table: Tensor | LazyProjection, rows: Tensor) -> None:
        torch.testing.assert_close(rows, computed(table)[POSITIONS])

    map_tables(check, encoded, gather_at(encoded, POSITIONS))


@every_kind
def test_rows_at_gives_the_same_values_as_gather_at(kind: str) -> None:
    encoded = TABLES[kind]()
    rows, gathered = rows_at(encoded, POSITIONS), gather_at(encoded, POSITIONS)

    def check(table: Tensor | LazyProjection, expected: Tensor) -> None:
        actual = rows_at(table, POSITIONS)
        if computed(table).dim() == 1:
            assert isinstance(actual, Tensor)
            assert torch.equal(actual, expected)
        else:
            assert isinstance(actual, TableRows)
            assert torch.equal(actual.mask, POSITIONS != 0)
            torch.testing.assert_close(actual.gather(), expected)

    map_tables(check, encoded, gathered)
    if isinstance(encoded, dict):
        assert list(rows) == list(encoded)
        torch.testing.assert_close(rows["semantic"][1]["clicked"].gather(), gathered["semantic"][1]["clicked"])
    if isinstance(encoded, Pair):
        assert isinstance(rows, Pair)
        assert isinstance(gathered, Pair)


@pytest.mark.parametrize("look_up", [rows_at, gather_at])
def test_a_table_that_occurs_twice_is_gathered_once(
    look_up: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered: list[list[Tensor]] = []
    gather = tables.gather

    def recording(of: list[Tensor], positions: Tensor) -> list[Tensor]:
        gathered.append(of)
        return gather(of, positions)

    monkeypatch.setattr(tables, "gather", recording)
    shared, other = numbers(STORIES, SIZE), numbers(STORIES, 2)
    look_up({"plain": shared, "stories": shared, "other": (other, shared)}, POSITIONS)
    assert [[table is shared for table in of] for of in gathered] == [[True, False]]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_rows_stay_in_a_table_on_a_gpu(device: str) -> None:
    """Not in float64, which the kernels do not read, nor if a gradient is needed where it must not be."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():  # as if there were a GPU
        positions = torch.ones(2, 3, dtype=torch.long, device=device)
        table = torch.empty(STORIES, SIZE, device=device)
        assert (rows_at(table, positions).table is table) == (device == "cuda")
        assert rows_at(table.double(), positions).table is None
        assert rows_at(table, positions, without_gradient=True).table is None
        with torch.no_grad():
            assert (rows_at(table, positions, without_gradient=True).table is table) == (device == "cuda")


def test_a_lazy_projection_has_the_values_and_gradients_of_a_projected_table() -> None:
    items, matrix = numbers(STORIES, SIZE), numbers(5, SIZE, seed=4)
    results = []
    for table in (LazyProjection(items, [Weight(matrix)]), items @ matrix.T):
        (rows,) = gather_at((table,), POSITIONS)
        real = rows[POSITIONS != 0]
        results.append((real, *torch.autograd.grad(real.square().sum(), (items, matrix))))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)


def layers() -> dict[str, tuple[Tensor, dict[str, list[Weight]]]]:
    """Two tables of the same items, and one of others."""
    items, others = numbers(STORIES, SIZE), numbers(STORIES, SIZE, seed=6)
    first = {"content": [Weight(numbers(3, SIZE)), Weight(numbers(2, SIZE), numbers(2))], "denoise": []}
    second = {"content": [Weight(numbers(4, SIZE, seed=7))]}
    return {"clicked": (items, first), "candidate": (others, second), "skipped": (items, second)}


def test_projections_of_the_same_items_share_one_matrix_product(monkeypatch: pytest.MonkeyPatch) -> None:
    products: list[Tensor] = []

    def recording(items: Tensor, weights: list[Weight]) -> Tensor:
        products.append(items)
        return joint_linear(items, weights)

    monkeypatch.setattr(tables, "joint_linear", recording)
    asked = layers()
    projected = project(asked, training=False)
    assert [items is asked["clicked"][0] for items in products] == [True, False]
    for name, (items, groups) in asked.items():
        expected = joint_linear(items, [weight for group in groups.values() for weight in group])
        torch.testing.assert_close(projected[name], expected)


def test_projections_are_lazy_on_a_cpu_in_training() -> None:
    asked = layers()
    in_training, in_evaluation = (project(asked, training=training) for training in (True, False))
    assert all(isinstance(table, LazyProjection) for table in in_training.values())
    assert all(isinstance(table, Tensor) for table in in_evaluation.values())
    for name in asked:
        torch.testing.assert_close(*(gather_at(table[name], POSITIONS) for table in (in_training, in_evaluation)))


def test_columns_of_groups() -> None:
    assert columns(layers()["clicked"][1]) == {"content": 5, "denoise": 0}


@pytest.mark.parametrize("in_table", [True, False], ids=["in the table", "gathered"])
def test_rows_are_split_by_columns(in_table: bool) -> None:
    table = numbers(STORIES, 6)
    values = table[POSITIONS]
    rows = TableRows(POSITIONS, table, None) if in_table else TableRows(POSITIONS, None, values)
    parts = rows.split({"query": 2, "nothing": 0, "key": 4})
    assert list(parts) == ["query", "nothing", "key"]
    assert all((part.table is None) != in_table for part in parts.values())
    assert torch.equal(torch.cat([part.gather() for part in parts.values()], dim=-1), values)
    assert torch.equal(parts["key"].gather(), values[..., 2:])


@pytest.mark.parametrize("in_table", [(True, True), (False, False), (True, False)], ids=str)
def test_sequences_are_joined(in_table: tuple[bool, bool]) -> None:
    table, later = numbers(STORIES, SIZE), torch.tensor([[1], [3]])
    parts = [
        TableRows(positions, table, None) if stays else TableRows(positions, None, table[positions])
        for positions, stays in zip((POSITIONS, later), in_table, strict=True)
    ]
    both = concat_sequences(parts)
    assert torch.equal(both.positions, torch.cat([POSITIONS, later], dim=1))
    assert (both.table is table) == all(in_table)
    assert torch.equal(both.gather(), table[both.positions])


def test_a_weighted_sum_of_rows() -> None:
    values, weights = numbers(2, 3, SIZE), numbers(2, 3)
    expected = (weights.unsqueeze(-1) * values).sum(1)
    torch.testing.assert_close(weighted_sum(weights, values), expected)
    torch.testing.assert_close(weighted_sum(weights, TableRows(POSITIONS, None, values)), expected)


def test_means_and_sums_leave_out_padding() -> None:
    values, mask = numbers(3, 3, SIZE), torch.tensor([[True, False, True], [False, True, False], [False] * 3])
    rows = [row[present] for row, present in zip(values, mask, strict=True)]
    torch.testing.assert_close(masked_sum(values, mask), torch.stack([row.sum(0) for row in rows]))
    means = [row.sum(0) / max(1, len(row)) for row in rows]
    torch.testing.assert_close(masked_mean(values, mask), torch.stack(means))
    expected = torch.tensor([[0.5, 0, 0.5], [0, 1, 0], [0, 0, 0]], dtype=torch.float64)
    assert torch.equal(equal_weights(mask, values), expected)


def test_weighted_sums_have_the_precision_of_their_values() -> None:
    weights, values = numbers(2, 5, 3), numbers(2, 3, SIZE)
    torch.testing.assert_close(weighted_sums(weights, values), torch.einsum("bqs,bsd->bqd", weights, values))
    assert weighted_sums(weights, values.bfloat16()).dtype == torch.bfloat16

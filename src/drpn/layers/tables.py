"""Rows of a table at positions: the one idea that decides when a row is gathered, projected late, or read in place.

A model encodes each story once, as a row of a few tables, and then works with sequences of positions into them. How a
sequence gets at its rows depends on the device:

- On a GPU, kernels read the rows in the table, so that nothing is gathered (`TableRows.table`).
- On a CPU, rows are gathered at once (`TableRows.values`). In training, projections are made after that, only for the
  rows that a sequence needs (`LazyProjection`): a story of a batch plays few of its possible roles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from drpn.layers.gather import gather, gather_rows, weighted_rows
from drpn.layers.linear import Weight, cast_like, joint_linear


@dataclass(frozen=True)
class LazyProjection:
    """A projection of a table that is computed for the rows that are asked for."""

    items: Float[Tensor, "U D"]
    weights: Sequence[Weight]

    def at(self, positions: Int[Tensor, "..."]) -> Float[Tensor, "... all"]:
        """The projections of the rows at some positions, each computed once; position 0 is padding."""
        wanted, index = torch.unique(torch.cat([positions.new_zeros(1), positions.flatten()]), return_inverse=True)
        return gather_rows(joint_linear(gather_rows(self.items, wanted), self.weights), index[1:].view(positions.shape))


Table = Tensor | LazyProjection
"""A row for each story."""
Groups = Mapping[str, Sequence[Weight]]
"""Linear layers of the same items, by the part of a model that reads their results."""


class TableRows(NamedTuple):
    """The rows of a table at the positions of sequences: gathered, or left in the table for kernels to read."""

    positions: Int[Tensor, "B S"]
    table: Float[Tensor, "U D"] | None
    values: Float[Tensor, "B S D"] | None

    @property
    def mask(self) -> Bool[Tensor, "B S"]:
        """True for a row, False for padding."""
        return self.positions != 0

    def gather(self) -> Float[Tensor, "B S D"]:
        """The rows as one tensor."""
        if self.values is not None:
            return self.values
        assert self.table is not None
        return gather_rows(self.table, self.positions)

    def split(self, widths: Mapping[str, int]) -> "dict[str, TableRows]":
        """Groups of columns, by name."""
        sizes = list(widths.values())
        # one split of the table or of the values: the gradients of the parts are then joined in one operation
        if self.values is not None:
            parts = [TableRows(self.positions, None, part) for part in torch.split(self.values, sizes, dim=-1)]
        else:
            assert self.table is not None
            parts = [TableRows(self.positions, part, None) for part in torch.split(self.table, sizes, dim=-1)]
        return dict(zip(widths, parts, strict=True))


def project(layers: Mapping[str, tuple[Float[Tensor, "U D"], Groups]], *, training: bool) -> dict[str, Table]:
    """Tables of projections, by name, from the items and the groups of linear layers of each.

    Layers of the same items share one matrix product. On a CPU in training the projections are lazy.
    """
    weights = {name: [weight for group in groups.values() for weight in group] for name, (_, groups) in layers.items()}
    if training and not any(items.is_cuda for items, _ in layers.values()):
        return {name: LazyProjection(items, weights[name]) for name, (items, _) in layers.items()}
    tables: dict[str, Table] = {}
    for first, (items, _) in layers.items():
        if first not in tables:
            names = [name for name, (other, _) in layers.items() if other is items]
            packed = joint_linear(items, [weight for name in names for weight in weights[name]])
            parts = torch.split(packed, [_width(weights[name]) for name in names], dim=-1)
            tables.update(zip(names, parts, strict=True))
    return tables


def columns(groups: Groups) -> dict[str, int]:
    """The number of columns that each group of linear layers has in a table of `project`."""
    return {name: _width(weights) for name, weights in groups.items()}


def _width(weights: Sequence[Weight]) -> int:
    """The number of columns that linear layers give together."""
    return sum(len(weight.matrix) for weight in weights)


def map_tables(function: Callable[..., Any], *encoded: Any) -> Any:
    """`function` applied to the tables at the same place of several nested tuples and dictionaries."""
    first = encoded[0]
    if first is None:
        return None
    if isinstance(first, Tensor | LazyProjection):
        return function(*encoded)
    if isinstance(first, dict):
        return {name: map_tables(function, *(other[name] for other in encoded)) for name in first}
    parts = (map_tables(function, *parts) for parts in zip(*encoded, strict=True))
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def rows_at(encoded: Any, positions: Int[Tensor, "B S"], *, without_gradient: bool = False) -> Any:
    """The rows of every table at some positions: `TableRows` of matrices, tensors of vectors.

    `encoded` is a table, or nested tuples and dictionaries of tables. What is gathered is gathered in one operation.
    With `without_gradient`, rows stay in their tables only if no gradient is needed.
    """

    def stays_in_table(table: Table) -> bool:
        return (
            isinstance(table, Tensor)
            and table.dim() > 1
            and table.is_cuda
            and table.dtype != torch.float64
            and not (without_gradient and torch.is_grad_enabled())
        )

    gathered = _Gathered(encoded, positions, skip=stays_in_table)

    def look_up(table: Table) -> Tensor | TableRows:
        if stays_in_table(table):
            return TableRows(positions, table, None)  # type: ignore[arg-type]
        values = gathered[table]
        one_dimensional = isinstance(table, Tensor) and table.dim() == 1
        return values if one_dimensional else TableRows(positions, None, values)

    return map_tables(look_up, encoded)


def gather_at(encoded: Any, positions: Int[Tensor, "..."]) -> Any:
    """The rows of every table at some positions, as tensors, gathered in one operation."""
    gathered = _Gathered(encoded, positions, skip=lambda _table: False)
    return map_tables(lambda table: gathered[table], encoded)


class _Gathered:
    """Rows of several tables, gathered in one operation; a table that occurs twice is gathered once."""

    def __init__(self, encoded: Any, positions: Tensor, *, skip: Callable[[Table], bool]) -> None:
        self._positions = positions
        self._tables: list[Tensor] = []
        map_tables(lambda table: None if skip(table) else self._add(table), encoded)
        columns = [table.unsqueeze(-1) if table.dim() == 1 else table for table in self._tables]
        self._values = gather(columns, positions) if columns else []

    def _add(self, table: Table) -> None:
        if isinstance(table, Tensor) and not any(known is table for known in self._tables):
            self._tables.append(table)

    def __getitem__(self, table: Table) -> Tensor:
        if isinstance(table, LazyProjection):
            return table.at(self._positions)
        index = next(index for index, known in enumerate(self._tables) if known is table)
        return self._values[index].squeeze(-1) if table.dim() == 1 else self._values[index]


def weighted_sum(weights: Float[Tensor, "B S"], values: Float[Tensor, "B S D"] | TableRows) -> Float[Tensor, "B D"]:
    """The sum of the values, each times its weight."""
    if isinstance(values, TableRows):
        if values.table is not None:
            return weighted_rows(values.table, values.positions, weights)
        values = values.gather()
    if values.is_cuda:  # one pass over the values; a product of one-row matrices takes three times as long
        return (
            (weights.unsqueeze(-1) * values)
            .sum(1, dtype=torch.promote_types(values.dtype, torch.float32))
            .to(values.dtype)
        )
    return torch.einsum("bh,bhd->bd", weights, values)


def weighted_sums(weights: Float[Tensor, "... Q S"], values: Float[Tensor, "... S D"]) -> Float[Tensor, "... Q D"]:
    """Several weighted sums of the same values, in their precision."""
    return cast_like(weights, values) @ values


def equal_weights(mask: Bool[Tensor, "B S"], values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S"]:
    """The weights of a mean over the values where `mask` is True: 1 / their number there, 0 elsewhere."""
    present = cast_like(mask, values)
    return present / present.sum(-1, keepdim=True).clamp(min=1)


def masked_mean(values: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B D"]:
    """The mean of the values where `mask` is True; zeros if it is False throughout."""
    return weighted_sum(equal_weights(mask, values), values)


def masked_sum(values: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B D"]:
    """The sum of the values where `mask` is True."""
    return weighted_sum(cast_like(mask, values), values)


def concat_sequences(parts: Sequence[TableRows]) -> TableRows:
    """Sequences over the same table, joined to one."""
    positions = torch.cat([part.positions for part in parts], dim=1)
    if all(part.table is not None for part in parts):
        return TableRows(positions, parts[0].table, None)
    return TableRows(positions, None, torch.cat([part.gather() for part in parts], dim=1))

"""What a model computed once per news, whatever its shape: tensors, or tuples and dictionaries of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from drpn.batches.batch import NewsRows
from drpn.layers.attention import Weight, joint_linear
from drpn.layers.gather import gather, rows
from drpn.models.base import ClickModel, Encoded

_STEP = {"cpu": 512, "cuda": 8_192}


@dataclass(frozen=True)
class LazyProjection:
    """Projections that are made when it is known of which news: training on a CPU, where each has few of its roles."""

    items: Float[Tensor, "U D"]
    weights: Sequence[Weight]

    def at(self, positions: Int[Tensor, "..."]) -> Float[Tensor, "... all"]:
        """Those of the news at some positions, each made once; 0 is padding before and after."""
        wanted, places = torch.unique(torch.cat([positions.new_zeros(1), positions.flatten()]), return_inverse=True)
        return rows(joint_linear(rows(self.items, wanted), self.weights), places[1:].view(positions.shape))


def map_tensors(function: Callable[..., Any], *encoded: Encoded) -> Encoded:
    """`function` of the tensors that stand at the same place."""
    first = encoded[0]
    if first is None:
        return None
    if isinstance(first, Tensor | LazyProjection):
        return function(*encoded)
    if isinstance(first, dict):
        return {name: map_tensors(function, *(one[name] for one in encoded)) for name in first}
    parts = (map_tensors(function, *parts) for parts in zip(*encoded, strict=True))
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def at_positions(encoded: Encoded, positions: Int[Tensor, "..."]) -> Encoded:
    """Every tensor at the positions of some news, gathered in one go; a tensor that stands twice is read once."""
    tables: list[Tensor] = []

    def place(table: Tensor | LazyProjection) -> int:
        if isinstance(table, LazyProjection):
            return -1
        for index, known in enumerate(tables):
            if known is table:
                return index
        tables.append(table)
        return len(tables) - 1

    map_tensors(place, encoded)
    found = gather([table.unsqueeze(-1) if table.dim() == 1 else table for table in tables], positions)

    def look_up(table: Tensor | LazyProjection) -> Tensor:
        if isinstance(table, LazyProjection):
            return table.at(positions)
        return found[place(table)].squeeze(-1) if table.dim() == 1 else found[place(table)]

    return map_tensors(look_up, encoded)


def encode_all(model: ClickModel, news: NewsRows, *, step: int | None = None) -> Encoded:
    """All news encoded, so many at a time: as many as stay in a CPU's cache, or keep a GPU busy.

    On a CPU those of like length come together, for `encode_by_length` to spare their padding.
    """
    device = next(model.parameters()).device
    step = step or _STEP[device.type]
    order = (news.words != 0).sum(1).argsort(stable=True) if device.type == "cpu" else None
    whole: Encoded = None
    for start in range(0, len(news), step):
        where = slice(start, start + step) if order is None else order[start : start + step]
        part = model.encode_news(news.part(where).to(device))
        if whole is None:
            whole = _room_for(part, len(news))
        map_tensors(lambda to, some, where=where: to.__setitem__(where, some), whole, part)
    return whole


def _room_for(part: Encoded, count: int) -> Encoded:
    """Tensors like these with so many rows; one that stands twice stands twice again."""
    known: list[tuple[Tensor, Tensor]] = []

    def room(table: Tensor) -> Tensor:
        for one, other in known:
            if one is table:
                return other
        known.append((table, table.new_empty(count, *table.shape[1:])))
        return known[-1][1]

    return map_tensors(room, part)

"""Encoding many stories."""

from typing import Any

from torch import Tensor

from drpn.batches.batch import NewsRows
from drpn.layers.chunks import encoding_order, stories_per_step
from drpn.layers.tables import map_tables
from drpn.models.base import ClickModel


def encode_all(model: ClickModel, news: NewsRows, *, step: int | None = None) -> Any:
    """All stories encoded, `step` at a time, into tables with a row for each."""
    device = next(model.parameters()).device
    step = step or stories_per_step(device)
    order = encoding_order(news.words, device)
    encoded: Any = None
    for start in range(0, len(news), step):
        where = slice(start, start + step) if order is None else order[start : start + step]
        part = model.encode_news(news.part(where).to(device))
        if encoded is None:
            encoded = empty_like(part, len(news))
        map_tables(lambda table, rows, where=where: table.__setitem__(where, rows), encoded, part)
    return encoded


def empty_like(encoded: Any, count: int) -> Any:
    """Uninitialised tables of the same kind with `count` rows; a tensor that occurs twice occurs twice again."""
    made: dict[int, Tensor] = {}

    def make(table: Tensor) -> Tensor:
        if id(table) not in made:
            made[id(table)] = table.new_empty(count, *table.shape[1:])
        return made[id(table)]

    return map_tables(make, encoded)

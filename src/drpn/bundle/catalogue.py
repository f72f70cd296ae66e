"""The encoded stories of a model, each encoded once; new stories are added, expired ones removed."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from drpn.batches.batch import NewsRows
from drpn.errors import SettingsError
from drpn.layers.tables import map_tables
from drpn.models.base import ClickModel
from drpn.models.encode import empty_like, encode_all


class StoryCatalogue:
    """Stories by id, with their rows in the model's encoded tables; position 0 is padding.

    A story of the bundle is encoded when it is first asked for. If the model reads graph neighbours of candidates, all
    stories of the bundle are encoded at once, because the neighbours of a story must be there too.
    """

    def __init__(self, model: ClickModel, news: NewsRows, news_ids: Iterable[str]) -> None:
        self._model, self._news = model, news
        self._rows = {news_id: row for row, news_id in enumerate(news_ids) if row}
        self._positions: dict[str, int] = {}
        self._free: list[int] = []
        self._used = self._capacity = 0
        self.encodings = 0
        """Stories encoded so far."""
        self.encoded: Any = None
        """The model's tables; rows that no story uses are undefined."""
        self._encode([], news.part(torch.zeros(1, dtype=torch.int64)))  # padding
        if "news_neighbours" in model.needs:
            self.encoded, self.encodings = encode_all(model, news), len(self._rows)
            self._positions, self._used, self._capacity = dict(self._rows), len(news), len(news)

    def __contains__(self, news_id: str) -> bool:
        return news_id in self._positions or news_id in self._rows

    def __len__(self) -> int:
        return len(self._rows.keys() | self._positions.keys())

    def row(self, news_id: str) -> int:
        """The row of a story in the bundle; 0 for a story that was added later."""
        return self._rows.get(news_id, 0)

    def positions(self, news_ids: Sequence[str]) -> list[int]:
        """The positions of stories in `encoded`; stories not encoded yet are encoded now."""
        for news_id in news_ids:
            if news_id not in self:
                raise SettingsError(f"story '{news_id}' is not in the catalogue; add it first, or leave it out")
        missing = [news_id for news_id in dict.fromkeys(news_ids) if news_id not in self._positions]
        if missing:
            self._encode(missing, self._news.part(torch.tensor([self._rows[news_id] for news_id in missing])))
        return [self._positions[news_id] for news_id in news_ids]

    def add(self, news_ids: Sequence[str], news: NewsRows) -> None:
        """Add stories, or replace stories of the same ids."""
        self.remove([news_id for news_id in news_ids if news_id in self])
        self._encode(news_ids, news)

    def remove(self, news_ids: Iterable[str]) -> None:
        """Remove stories; their rows are used again."""
        for news_id in news_ids:
            if news_id not in self:
                raise SettingsError(f"story '{news_id}' is not in the catalogue; it cannot be removed")
            self._rows.pop(news_id, None)
            position = self._positions.pop(news_id, None)
            if position is not None:
                self._free.append(position)

    @torch.no_grad()
    def encode_apart(self, news: NewsRows) -> Any:
        """Stories encoded without adding them."""
        self.encodings += len(news)
        return encode_all(self._model, news)

    def _encode(self, news_ids: Sequence[str], news: NewsRows) -> None:
        encoded = self.encode_apart(news)
        positions = [self._free.pop() if self._free else self._next_position() for _ in range(len(news))]
        if self._used > self._capacity:
            self._grow(encoded)
        where = torch.tensor(positions)
        map_tables(lambda table, rows: table.__setitem__(where.to(table.device), rows), self.encoded, encoded)
        self._positions |= dict(zip(news_ids, positions, strict=False))  # padding has no id

    def _next_position(self) -> int:
        self._used += 1
        return self._used - 1

    def _grow(self, like: Any) -> None:
        """Double the tables until all positions fit."""
        old, kept = self.encoded, self._capacity
        self._capacity = max(2 * self._capacity, self._used, 64)
        self.encoded = empty_like(like, self._capacity)
        if old is not None:
            map_tables(lambda new, table: new.__setitem__(slice(kept), table[:kept]), self.encoded, old)

"""The encoded stories of a model, each encoded once; new stories are added, expired ones removed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from drpn.batches.batch import NewsRows
from drpn.errors import SettingsError
from drpn.layers.tables import map_tables
from drpn.models.base import ClickModel
from drpn.models.encode import empty_like, encode_all

if TYPE_CHECKING:
    from drpn.bundle.shared_tables import SharedTables


class StoryCatalogue:
    """Stories by id, with their rows in the model's encoded tables; position 0 is padding.

    A story of the bundle is encoded when it is first asked for. If the model reads graph neighbours of candidates, all
    stories of the bundle are encoded at once, because the neighbours of a story must be there too. Processes that share
    their tables have the live stories in them from the start.
    """

    def __init__(
        self,
        model: ClickModel,
        news: NewsRows,
        news_ids: Iterable[str],
        derive: Callable[[ClickModel, Any], Any] | None = None,
        *,
        live: Iterable[str] = (),
        shared: "SharedTables | None" = None,
    ) -> None:
        """`derive` makes further tables from encoded stories; once it returns None, there are none.

        With `shared`, the `live` stories are encoded by one process for all.
        """
        self._model, self._news, self._derive = model, news, derive
        self._rows = {news_id: row for row, news_id in enumerate(news_ids) if row}
        self._positions: dict[str, int] = {}
        self._free: list[int] = []
        self._used = self._capacity = 0
        self._pinned = 0
        """Positions below this one are never used again: other stories may have them as neighbours."""
        self.encodings = 0
        """Stories encoded so far."""
        self.encoded: Any = None
        """The model's tables; rows that no story uses are undefined."""
        self.derived: Any = None
        """The tables that `derive` makes; None without."""
        at_once = "news_neighbours" in model.needs
        if shared is not None:
            self._share(shared, list(self._rows) if at_once else [news_id for news_id in live if news_id in self._rows])
            self._pinned = self._used if at_once else 0
            return
        self._place(news if at_once else news.part(torch.zeros(1, dtype=torch.int64)))
        self.encodings -= 1  # padding is not a story
        if at_once:
            self._positions, self._pinned = dict(self._rows), self._used

    def __contains__(self, news_id: str) -> bool:
        return news_id in self._positions or news_id in self._rows

    def __len__(self) -> int:
        return len(self._rows.keys() | self._positions.keys())

    def row(self, news_id: str) -> int:
        """The row of a story in the bundle; 0 for a story that was added later."""
        return self._rows.get(news_id, 0)

    def rows(self, news_ids: Iterable[str]) -> list[int]:
        """The rows of stories in the bundle; 0 for stories that were added later."""
        get = self._rows.get
        return [get(news_id, 0) for news_id in news_ids]

    def positions(self, news_ids: Sequence[str]) -> list[int]:
        """The positions of stories in `encoded`; stories not encoded yet are encoded now."""
        missing = [news_id for news_id in dict.fromkeys(news_ids) if news_id not in self._positions]
        for news_id in missing:
            if news_id not in self._rows:
                raise SettingsError(f"story '{news_id}' is not in the catalogue; add it first, or leave it out")
        if missing:
            rows = torch.tensor([self._rows[news_id] for news_id in missing])
            self._positions |= zip(missing, self._place(self._news.part(rows)), strict=True)
        return [self._positions[news_id] for news_id in news_ids]

    def add(self, news_ids: Sequence[str], news: NewsRows) -> None:
        """Add stories, or replace stories of the same ids; of an id given twice, the last story counts."""
        last = {news_id: index for index, news_id in enumerate(news_ids)}
        if not last:
            return
        positions = self._place(news.part(torch.tensor(list(last.values()))))
        self.remove([news_id for news_id in last if news_id in self])
        self._positions |= zip(last, positions, strict=True)

    def remove(self, news_ids: Iterable[str]) -> None:
        """Remove stories, all or none of them; their positions are used again."""
        removed = list(dict.fromkeys(news_ids))
        for news_id in removed:
            if news_id not in self:
                raise SettingsError(f"story '{news_id}' is not in the catalogue; it cannot be removed")
        for news_id in removed:
            self._rows.pop(news_id, None)
            position = self._positions.pop(news_id, None)
            if position is not None:
                self._release([position])

    @contextmanager
    def temporary(self, news: NewsRows) -> Iterator[list[int]]:
        """The positions of stories that are in the tables only while the block runs."""
        positions = self._place(news) if len(news) else []
        try:
            yield positions
        finally:
            self._release(positions)

    def _release(self, positions: Iterable[int]) -> None:
        self._free += [position for position in positions if position >= self._pinned]

    @torch.no_grad()
    def _place(self, news: NewsRows) -> list[int]:
        """Encode stories into free positions of the tables, which are returned."""
        encoded = encode_all(self._model, news)
        self.encodings += len(news)
        positions = [self._free.pop() if self._free else self._next_position() for _ in range(len(news))]
        if self._used > self._capacity:
            self._grow(encoded)
        where = torch.tensor(positions)
        _write(self.encoded, where, encoded)
        if self.derived is not None:
            assert self._derive is not None
            derived = self._derive(self._model, encoded)
            if derived is None:
                self._derive = self.derived = None
            else:
                _write(self.derived, where, derived)
        return positions

    @torch.no_grad()
    def _share(self, shared: "SharedTables", first: list[str]) -> None:
        """Begin with tables of some stories of the bundle that other processes have, too."""
        rows = torch.tensor([0, *(self._rows[news_id] for news_id in first)])

        def encode(part: slice) -> tuple[Any, Any]:
            encoded = encode_all(self._model, self._news.part(rows[part]))
            return encoded, None if self._derive is None else self._derive(self._model, encoded)

        self.encoded, self.derived, self._capacity = shared.open(len(rows), encode)
        if self.derived is None:
            self._derive = None
        self._positions = {news_id: position for position, news_id in enumerate(first, start=1)}
        self._used, self.encodings = len(rows), len(first)

    def _next_position(self) -> int:
        self._used += 1
        return self._used - 1

    def _grow(self, like: Any) -> None:
        """Double the tables until all positions fit."""
        old, filled = self.encoded, self._capacity
        self._capacity = max(2 * self._capacity, self._used, 64)
        self.encoded = empty_like(like, self._capacity)
        if old is not None:
            map_tables(lambda new, table: new.__setitem__(slice(filled), table[:filled]), self.encoded, old)
        if self._derive is not None:
            made, older = self._derive(self._model, like), self.derived
            self.derived = None if made is None else empty_like(made, self._capacity)
            if made is None:
                self._derive = None
            elif older is not None:
                map_tables(lambda new, table: new.__setitem__(slice(filled), table[:filled]), self.derived, older)


def _write(tables: Any, where: torch.Tensor, rows: Any) -> None:
    map_tables(lambda table, row: table.__setitem__(where.to(table.device), row), tables, rows)

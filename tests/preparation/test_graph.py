"""The graph of stories against loops, and with one reader who clicks far more than all others."""

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import ibis
import numpy as np
import pyarrow as pa
import pytest

from drpn.logs.engines.duckdb import DuckDB, duckdb_engine
from drpn.preparation import graph
from drpn.recipes.prepare import prepare
from reference import raw_logs
from writing import MindLine, write_mind

Clicks = dict[str, list[str]]
"""user → the stories they clicked, oldest first"""


@pytest.fixture
def engine() -> Iterator[DuckDB]:
    with tempfile.TemporaryDirectory() as folder, duckdb_engine(Path(folder), memory="400MB") as opened:
        yield opened


def heaviest(engine: DuckDB, users: list[int], news: list[int], kind: Literal["co-click", "consecutive"]) -> list:
    """(story, neighbour, weight, slot) of the graph of these clicks, which are in the order of time."""
    columns = {
        "user": pa.array(users, pa.int32()),
        "news": pa.array(news, pa.int32()),
        "clicked": pa.array([True] * len(users)),
        "moment": pa.array(range(len(users)), pa.int64()),
    }
    feedback = engine.materialize("feedback", ibis.memtable(pa.table(columns)))
    rows = [batch.to_pylist() for batch in engine.stream(graph.neighbours(feedback, kind=kind, keep=5))]
    return sorted((row["news"], row["neighbour"], row["weight"], row["slot"]) for batch in rows for row in batch)


@pytest.mark.parametrize("limit", [3, 6, 1_000])
def test_a_user_links_only_the_newest_clicked_stories(
    engine: DuckDB, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Against loops over the newest `limit` stories of each user; nobody has more than 6."""
    monkeypatch.setattr(graph, "CLICKS_PER_USER", limit)
    draw = random.Random(limit)
    clicks: Clicks = {
        str(user): draw.sample([str(story) for story in range(1, 13)], 1 + user % 6) for user in range(20)
    }
    expected: dict[str, dict[str, int]] = {}
    for stories in clicks.values():
        for first in stories[-limit:]:
            for second in stories[-limit:]:
                if first != second:
                    weights = expected.setdefault(first, {})
                    weights[second] = weights.get(second, 0) + 1
    users = [int(user) for user, stories in clicks.items() for _ in stories]
    news = [int(story) for stories in clicks.values() for story in stories]
    rows = heaviest(engine, users, news, "co-click")
    by_number = {story: {int(other): weight for other, weight in row.items()} for story, row in expected.items()}
    assert rows == sorted(
        (int(story), neighbour, weight, slot)
        for story in by_number
        for slot, (neighbour, weight) in enumerate(raw_logs.heaviest(by_number, story, 5))
    )


@pytest.mark.parametrize("kind", ["co-click", "consecutive"])
def test_one_heavy_reader_does_not_stop_the_graph(engine: DuckDB, kind: Literal["co-click", "consecutive"]) -> None:
    """100,000 clicks of one user have 10,000,000,000 pairs; memory is limited to 400 MB."""
    clicks = 100_000
    ordinary = [(user, story) for user in range(2, 1_002) for story in (user % 50 + 1, user % 50 + 2, user % 50 + 3)]
    users = [1] * clicks + [user for user, _ in ordinary]
    news = [*range(1, clicks + 1), *[story for _, story in ordinary]]
    start = time.monotonic()
    rows = heaviest(engine, users, news, kind)
    assert time.monotonic() - start < 60
    linked = {story for story, *_ in rows}
    assert linked == (
        {*range(1, 53), *range(clicks - 999, clicks + 1)} if kind == "co-click" else {*range(1, clicks + 1)}
    )
    # the stories of ordinary users have the neighbours that they have without the heavy reader
    if kind == "co-click":
        alone = heaviest(engine, users[clicks:], news[clicks:], kind)
        assert [row for row in rows if row[0] < 53] == alone


def test_prepare_with_one_heavy_reader(tmp_path: Path) -> None:
    """A reader of 4,000 stories has 16,000,000 pairs; memory is limited to 300 MB."""
    count = 4_000
    news = [f"N{number}\tnews\tlocal\tStory {number}" for number in range(count)]
    lines = [MindLine("0", "heavy", "11/9/2019 8:00:00 AM", " ".join(f"N{number}-1" for number in range(count)))]
    for number, day in enumerate((9, 10, 11, 12, 13, 13), start=1):
        lines.append(MindLine(str(number), f"U{number}", f"11/{day}/2019 {number}:00:00 PM", "N1-1 N2-0 N3-1"))
    dataset = prepare(write_mind(tmp_path / "logs", lines, news), tmp_path / "data", memory="300MB")
    with_neighbours = np.flatnonzero(dataset.neighbours[:, 0])
    assert len(with_neighbours) == graph.CLICKS_PER_USER + 2

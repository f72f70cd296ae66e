"""Neighbour users: the readers of a story are divided into groups, since all pairs would be too many."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.logs.engines.duckdb import DuckDB, duckdb_engine
from drpn.preparation.graph import group_readers, neighbour_users

USERS, KEEP = 60, 4


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDB]:
    with duckdb_engine(tmp_path) as engine:
        yield engine


@pytest.fixture
def clicks() -> set[tuple[int, int]]:
    """(user, news): nearly all users click story 1, few click the others."""
    rng = np.random.default_rng(5)
    popular = {(int(user), 1) for user in range(1, USERS + 1) if rng.random() < 0.9}
    return popular | {(int(user), int(news)) for user, news in rng.integers(1, [USERS + 1, 40], (150, 2))}


def grouped(engine: DuckDB, clicks: set[tuple[int, int]], folder: Path, group_size: int) -> list[tuple[int, int, int]]:
    """(user, news, group) of every click."""
    skipped = [(user, news) for user in range(1, USERS + 1) for news in range(40, 50)]
    rows = [(*pair, True) for pair in sorted(clicks, reverse=True)] + [(*pair, False) for pair in skipped]
    columns = dict(zip(("user", "news", "clicked"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "feedback.parquet")
    table = engine.materialize(
        "groups", group_readers(engine.read_parquet(folder / "feedback.parquet"), group_size=group_size)
    )
    rows = pa.Table.from_batches(list(engine.stream(table))).to_pylist()
    return [(row["user"], row["news"], row["group"]) for row in rows]


@pytest.mark.parametrize("group_size", [1, 2, 7, 13, 100])
def test_groups_are_even_and_contain_adjacent_users(
    engine: DuckDB, clicks: set[tuple[int, int]], tmp_path: Path, group_size: int
) -> None:
    grouped_clicks = grouped(engine, clicks, tmp_path, group_size)
    assert {(user, news) for user, news, _ in grouped_clicks} == clicks
    assert len(grouped_clicks) == len(clicks)
    for story in {news for _, news in clicks}:
        groups = [group for _, news, group in sorted(grouped_clicks) if news == story]
        sizes = Counter(groups).values()
        assert groups == sorted(groups)
        assert len(sizes) == -(-len(groups) // group_size)
        assert max(sizes) <= group_size
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("group_size", [2, 7, 100])
@pytest.mark.parametrize("step", [7, 60])
def test_neighbours_match_a_loop_for_any_number_of_users_at_once(
    engine: DuckDB, clicks: set[tuple[int, int]], tmp_path: Path, group_size: int, step: int
) -> None:
    grouped_clicks = grouped(engine, clicks, tmp_path, group_size)
    shared: dict[int, Counter[int]] = defaultdict(Counter)
    for user, news, group in grouped_clicks:
        for other, other_news, other_group in grouped_clicks:
            if (news, group) == (other_news, other_group) and user != other:
                shared[user][other] += 1
    expected = {
        (user, slot): (other, weight)
        for user, others in shared.items()
        for slot, (other, weight) in enumerate(sorted(others.items(), key=lambda item: (-item[1], item[0]))[:KEEP])
    }
    groups = engine.read_parquet(tmp_path / "feedback.parquet")
    groups = engine.materialize("neighbour_groups", group_readers(groups, group_size=group_size))
    rows = [
        row
        for start in range(1, USERS + 1, step)
        for batch in engine.stream(neighbour_users(groups, range(start, start + step), keep=KEEP))
        for row in batch.to_pylist()
    ]
    assert {(row["user"], row["slot"]): (row["neighbour"], row["weight"]) for row in rows} == expected
    assert len(rows) == len(expected)
    assert any(weight > 1 for _, weight in expected.values())

"""Users who clicked the same news, where all pairs of a news' readers would be too many."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.logs.engines.duckdb import DuckDB, duckdb_engine
from drpn.prepare.graph import groups_of_readers, neighbour_users

USERS, KEEP = 60, 4


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDB]:
    with duckdb_engine(tmp_path) as engine:
        yield engine


@pytest.fixture
def clicks() -> set[tuple[int, int]]:
    """(user, news): news 1 is read by nearly everybody, others by few or one."""
    random = np.random.default_rng(5)
    found = {(int(user), 1) for user in range(1, USERS + 1) if random.random() < 0.9}
    return found | {(int(user), int(news)) for user, news in random.integers(1, [USERS + 1, 40], (150, 2))}


def grouped(engine: DuckDB, clicks: set[tuple[int, int]], folder: Path, readers: int) -> list[tuple[int, int, int]]:
    skipped = [(user, news) for user in range(1, USERS + 1) for news in range(40, 50)]
    rows = [(*pair, True) for pair in sorted(clicks, reverse=True)] + [(*pair, False) for pair in skipped]
    columns = dict(zip(("user", "news", "clicked"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "feedback.parquet")
    table = engine.keep("groups", groups_of_readers(engine.parquet(folder / "feedback.parquet"), readers=readers))
    found = pa.Table.from_batches(list(engine.rows(table))).to_pylist()
    return [(row["user"], row["news"], row["group"]) for row in found]


@pytest.mark.parametrize("readers", [1, 2, 7, 13, 100])
def test_readers_are_dealt_into_even_groups_of_neighbouring_rows(
    engine: DuckDB, clicks: set[tuple[int, int]], tmp_path: Path, readers: int
) -> None:
    found = grouped(engine, clicks, tmp_path, readers)
    assert {(user, news) for user, news, _ in found} == clicks
    assert len(found) == len(clicks)
    for news in {news for _, news in clicks}:
        groups = [group for _, one, group in sorted(found) if one == news]
        sizes = Counter(groups).values()
        assert groups == sorted(groups)
        assert len(sizes) == -(-len(groups) // readers)
        assert max(sizes) <= readers
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("readers", [2, 7, 100])
@pytest.mark.parametrize("step", [7, 60])
def test_neighbours_against_a_loop_whatever_number_of_users_at_once(
    engine: DuckDB, clicks: set[tuple[int, int]], tmp_path: Path, readers: int, step: int
) -> None:
    found = grouped(engine, clicks, tmp_path, readers)
    shared: dict[int, Counter[int]] = defaultdict(Counter)
    for one, news, group in found:
        for other, same, its_group in found:
            if (news, group) == (same, its_group) and one != other:
                shared[one][other] += 1
    expected = {
        (user, slot): (other, weight)
        for user, others in shared.items()
        for slot, (other, weight) in enumerate(sorted(others.items(), key=lambda each: (-each[1], each[0]))[:KEEP])
    }
    groups = engine.parquet(tmp_path / "feedback.parquet")
    groups = engine.keep("again", groups_of_readers(groups, readers=readers))
    rows = [
        row
        for start in range(1, USERS + 1, step)
        for batch in engine.rows(neighbour_users(groups, range(start, start + step), keep=KEEP))
        for row in batch.to_pylist()
    ]
    assert {(row["user"], row["slot"]): (row["neighbour"], row["weight"]) for row in rows} == expected
    assert len(rows) == len(expected)
    assert any(weight > 1 for _, weight in expected.values())

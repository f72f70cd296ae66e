"""Several processes have one copy of the encoded stories; what one of them adds is its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from contract_cases import SHAPE, every_model, newsroom, trained
from drpn.bundle import shared_tables
from drpn.bundle.catalogue import StoryCatalogue
from drpn.bundle.files import MANIFEST
from drpn.bundle.scoring import derived_tables
from drpn.bundle.shared_tables import SharedTables, remove_others, tables_name
from drpn.errors import OutputError
from drpn.layers.tables import map_tables

IDS = ["", *(f"N{row}" for row in range(1, SHAPE.news))]
LIVE = IDS[3:]


@pytest.fixture
def shared(tmp_path: Path) -> SharedTables:
    return SharedTables(tmp_path, bundle(tmp_path / "bundle", "first"))


def bundle(path: Path, content: str) -> Path:
    """A folder that has a manifest like that of a bundle."""
    path.mkdir()
    (path / MANIFEST).write_text(content)
    return path


def catalogue(shared: SharedTables | None, name: str = "drpn") -> StoryCatalogue:
    return StoryCatalogue(trained(name), newsroom(), IDS, derived_tables, live=LIVE, shared=shared)


def tables(stories: StoryCatalogue, *news_ids: str) -> list[torch.Tensor]:
    """The rows of some stories in all tables."""
    positions, rows = stories.positions(news_ids), list[torch.Tensor]()
    for encoded in (stories.encoded, stories.derived):
        map_tables(lambda table: rows.append(table[positions]), encoded)
    return rows


def no_encoding(stories: StoryCatalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a story was encoded again")

    monkeypatch.setattr(stories._model, "encode_news", fail)


@every_model
def test_tables_are_those_of_a_process_of_its_own(name: str, shared: SharedTables) -> None:
    alone, one, other = catalogue(None, name), catalogue(shared, name), catalogue(shared, name)
    for expected, first, second in zip(*(tables(stories, *LIVE) for stories in (alone, one, other)), strict=True):
        torch.testing.assert_close(first, expected, rtol=1e-5, atol=1e-6)
        assert torch.equal(first, second)
    for expected, first in zip(tables(alone, *IDS[1:]), tables(one, *IDS[1:]), strict=True):
        torch.testing.assert_close(first, expected, rtol=1e-5, atol=1e-6)


def test_live_stories_are_encoded_once(shared: SharedTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tables, "ROWS_AT_ONCE", 2)  # files are written in several parts
    first = catalogue(shared)
    written = [path.stat().st_mtime_ns for path in sorted(shared._folder.rglob("*.bin"))]
    second = catalogue(shared)
    assert [path.stat().st_mtime_ns for path in sorted(shared._folder.rglob("*.bin"))] == written
    no_encoding(second, monkeypatch)
    for one, other in zip(tables(first, *LIVE), tables(second, *LIVE), strict=True):
        assert torch.equal(one, other)


def test_added_stories_are_of_one_process(shared: SharedTables) -> None:
    one, other = catalogue(shared), catalogue(shared)
    before = tables(other, *LIVE)
    one.add([LIVE[0]], newsroom().part(torch.tensor([1])))
    one.add([f"later{number}" for number in range(5)], newsroom().part(torch.ones(5, dtype=torch.int64)))
    assert "later1" in one
    assert "later1" not in other
    for one_table, other_table, table in zip(tables(one, LIVE[0]), tables(other, LIVE[0]), before, strict=True):
        assert torch.equal(other_table, table[:1])
        assert other_table.numel() < 2 or not torch.equal(one_table, other_table)
    for now, then in zip(tables(catalogue(shared), *LIVE), before, strict=True):
        assert torch.equal(now, then)


def test_more_stories_than_there_is_space_for(shared: SharedTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tables, "_FEWEST_SPARE", 1)
    monkeypatch.setattr(shared_tables, "_SPARE", 0.0)
    stories = catalogue(shared)
    before = tables(stories, *LIVE)
    stories.add([f"later{number}" for number in range(50)], newsroom().part(torch.ones(50, dtype=torch.int64)))
    for now, then in zip(tables(stories, *LIVE), before, strict=True):
        assert torch.equal(now, then)
    for now, then in zip(tables(stories, "later49"), tables(catalogue(None), IDS[1]), strict=True):
        torch.testing.assert_close(now, then, rtol=1e-5, atol=1e-6)


def test_tables_that_were_not_completed_are_made_again(shared: SharedTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_tables, "ROWS_AT_ONCE", 2)
    parts = []

    def killed(part: slice) -> Any:
        parts.append(part)
        if len(parts) == 3:
            raise KeyboardInterrupt
        return encode(part)

    one = StoryCatalogue(trained("drpn"), newsroom(), IDS, derived_tables, live=LIVE)
    rows = torch.tensor([0, *range(3, SHAPE.news)])

    def encode(part: slice) -> Any:
        encoded = one._model.encode_news(newsroom().part(rows[part]))
        return encoded, derived_tables(one._model, encoded)

    with torch.no_grad(), pytest.raises(KeyboardInterrupt):
        shared.open(len(rows), killed)
    for now, then in zip(tables(catalogue(shared), *LIVE), tables(one, *LIVE), strict=True):
        torch.testing.assert_close(now, then, rtol=1e-5, atol=1e-6)


def test_a_folder_that_cannot_be_written(shared: SharedTables, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shared_tables, "_write", full)
    with pytest.raises(OutputError, match="No space left on device; free space there, or set TMPDIR"):
        catalogue(shared)


def test_tables_of_other_bundles_are_removed(tmp_path: Path) -> None:
    first, second = bundle(tmp_path / "a", "first"), bundle(tmp_path / "b", "second")
    stories = catalogue(SharedTables(tmp_path, first))
    catalogue(SharedTables(tmp_path, second))
    before = tables(stories, *LIVE)
    remove_others(tmp_path, [second])
    assert [path.name for path in tmp_path.glob("tables-*") if path.is_dir()] == [tables_name(second)]
    for now, then in zip(tables(stories, *LIVE), before, strict=True):
        assert torch.equal(now, then), "a process that uses them keeps them"


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what memory is shared")
def test_memory_is_shared_between_processes(shared: SharedTables, tmp_path: Path) -> None:
    stories = catalogue(shared)
    tables(stories, *LIVE)  # reads every row
    script = f"import mapped_tables; print(*mapped_tables.kilobytes({str(tmp_path / 'bundle')!r}))"
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    private, together = map(int, done.stdout.split())
    assert private == 0
    assert together > 0

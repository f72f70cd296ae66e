"""A table may be a folder of files, such as one file for each day."""

from pathlib import Path

import pytest

from drpn.errors import LogError
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from live_newsroom import VIEWS, make_dataset

SETTINGS = DataSettings(clicked=20, skipped=60, vector_size=8)


def split_table(file: Path, *, header: bool, parts: int = 3) -> list[Path]:
    """Replace a text file by a folder of the same name with some of its lines in each file; return these files."""
    first, *lines = file.read_text().splitlines(keepends=True)
    if not header:
        first, lines = "", [first, *lines]
    file.unlink()
    written = []
    for part in range(parts):
        folder = file / f"day={part}" / f"hour={part}"
        folder.mkdir(parents=True)
        written.append(folder / f"part-{part}{file.suffix}")
        written[-1].write_text(first + "".join(lines[part::parts]))
        (folder / "_SUCCESS").write_text("no table\n")
        (folder / f".part-{part}{file.suffix}").write_text("no table\n")
    return written


def arrays(folder: Path) -> dict[str, bytes]:
    """The bytes of all arrays of a dataset."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.npy")}


def test_folders_of_csv_files_give_the_same_arrays(tmp_path: Path) -> None:
    expected = make_dataset(tmp_path, VIEWS, protocol="paper")
    for name in ("news.csv", "impressions.csv"):
        split_table(tmp_path / "logs" / name, header=True)
    dataset = prepare(tmp_path / "logs", tmp_path / "again", SETTINGS)
    assert arrays(dataset.path) == arrays(expected.path)
    assert len(dataset.manifest["sources"]) == 6


def test_folders_of_mind_give_the_same_arrays(mind: Path, tmp_path: Path) -> None:
    expected = prepare(mind, tmp_path / "dataset")
    for name in ("news.tsv", "behaviors.tsv"):
        split_table(mind / name, header=False)
    assert arrays(prepare(mind, tmp_path / "again").path) == arrays(expected.path)


def test_a_bad_line_of_a_folder_is_named(tmp_path: Path) -> None:
    make_dataset(tmp_path, VIEWS, protocol="paper")
    part = split_table(tmp_path / "logs" / "impressions.csv", header=True)[1]
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join([*lines[:3], lines[3].replace("2026-", "soon-"), *lines[4:]]))
    with pytest.raises(LogError, match=r"^impressions.csv/day=1/hour=1/part-1.csv:4: time is 'soon-"):
        prepare(tmp_path / "logs", tmp_path / "again", SETTINGS)


def test_files_of_a_folder_need_the_same_header(tmp_path: Path) -> None:
    make_dataset(tmp_path, VIEWS, protocol="paper")
    part = split_table(tmp_path / "logs" / "impressions.csv", header=True)[2]
    part.write_text(part.read_text().replace("user_id,time", "time,user_id", 1))
    with pytest.raises(LogError, match=r"part-2.csv has other columns than part-0.csv; write the same header in all$"):
        prepare(tmp_path / "logs", tmp_path / "again", SETTINGS)


def test_an_empty_folder_is_no_table(tmp_path: Path) -> None:
    make_dataset(tmp_path, VIEWS, protocol="paper")
    (tmp_path / "logs" / "impressions.csv").unlink()
    (tmp_path / "logs" / "impressions.csv").mkdir()
    with pytest.raises(LogError, match=r"^impressions.csv is missing in "):
        prepare(tmp_path / "logs", tmp_path / "again", SETTINGS)

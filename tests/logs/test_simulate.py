"""The simulator: files, settings, titles taken from a file, and its page in the docs."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from drpn.errors import LogError, OutputError
from drpn.logs.simulate import Simulated, SimulationSettings, simulate
from drpn.logs.simulate.write import format_time
from newsroom_files import SMALL, Newsroom, read

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulator.md"
FILES = [
    "train/news.tsv",
    "train/behaviors.tsv",
    "dev/news.tsv",
    "dev/behaviors.tsv",
    "truth.parquet",
    "simulation.json",
]
TIME = re.compile(r"[1-9]\d?/[1-9]\d?/\d{4} (1[0-2]|[1-9]):[0-5]\d:[0-5]\d [AP]M")


def test_same_seed_gives_the_same_bytes(small: tuple[Path, Simulated], tmp_path: Path) -> None:
    simulate(tmp_path / "second", SMALL)
    for name in FILES:
        assert (small[0] / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


def test_another_seed_gives_other_bytes(small: tuple[Path, Simulated], tmp_path: Path) -> None:
    simulate(tmp_path / "second", SimulationSettings(users=40, news=600, days=2, seed=6))
    for name in FILES:
        assert (small[0] / name).read_bytes() != (tmp_path / "second" / name).read_bytes(), name


def test_every_behaviors_line_is_in_minds_format(newsroom: Newsroom) -> None:
    for part in ("train", "dev"):
        known = {line.split("\t")[0] for line in _lines(newsroom, part, "news.tsv")}
        for line in _lines(newsroom, part, "behaviors.tsv"):
            impression_id, user, time, history, candidates = line.split("\t")
            assert impression_id.isdecimal()
            assert re.fullmatch(r"U\d+", user)
            assert TIME.fullmatch(time), time
            matches = [re.fullmatch(r"(N\d+)-[01]", token) for token in candidates.split(" ")]
            assert all(matches), candidates
            news_ids = [match[1] for match in matches if match]
            assert len(set(news_ids)) == len(news_ids) >= 2
            assert known.issuperset(news_ids)
            assert known.issuperset(history.split())
            assert "  " not in history


def test_every_news_line_is_in_minds_format(newsroom: Newsroom) -> None:
    for part in ("train", "dev"):
        for line in _lines(newsroom, part, "news.tsv"):
            news_id, category, subcategory, title, abstract, url, *entities = line.split("\t")
            assert re.fullmatch(r"N\d+", news_id)
            assert subcategory.startswith(f"{category}_")
            assert title[0].isupper()
            assert '"' not in title + abstract
            assert url.endswith(f"/{news_id}")
            assert entities == ["[]", "[]"]


def test_impression_ids_are_unique_and_the_last_day_is_dev(newsroom: Newsroom) -> None:
    assert len({impression.impression_id for impression in newsroom.impressions}) == len(newsroom.impressions)
    days = {
        part: {i.time.date().isoformat() for i in newsroom.impressions if i.part == part} for part in ("train", "dev")
    }
    assert days["train"] == {f"2019-11-{day:02}" for day in range(9, 15)}
    assert days["dev"] == {"2019-11-15"}


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (0, "11/9/2019 12:00:00 AM"),
        (2 * 86_400 + 9 * 3600 + 5 * 60 + 58, "11/11/2019 9:05:58 AM"),
        (12 * 3600 + 1, "11/9/2019 12:00:01 PM"),
        (22 * 86_400 + 23 * 3600, "12/1/2019 11:00:00 PM"),
    ],
)
def test_times_are_in_minds_format(second: int, text: str) -> None:
    assert format_time(second) == text


def test_counts_match_the_files(small: tuple[Path, Simulated]) -> None:
    folder, counts = small
    newsroom = read(folder)
    assert counts.users == len({impression.user for impression in newsroom.impressions})
    assert counts.news == len(newsroom.news) == 600
    assert counts.impressions == len(newsroom.impressions)
    assert counts.clicks == sum(sum(impression.clicked) for impression in newsroom.impressions)
    assert counts.shown == len(newsroom.truth)
    summary = json.loads((folder / "simulation.json").read_text())
    assert summary["settings"]["seed"] == 5
    assert summary["written"]["shown"] == counts.shown


def test_existing_folder_is_kept_without_replace(tmp_path: Path) -> None:
    out = tmp_path / "out"
    simulate(out, SimulationSettings(users=1, news=300, days=2))
    (out / "mine").touch()
    with pytest.raises(OutputError, match="exists"):
        simulate(out, SMALL)
    assert (out / "mine").exists()
    simulate(out, SimulationSettings(users=2, news=300, days=2), replace=True)
    assert not (out / "mine").exists()
    assert json.loads((out / "simulation.json").read_text())["settings"]["users"] == 2


def _write_titles(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "titles.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_titles_can_be_read_from_a_file(tmp_path: Path) -> None:
    rows = [
        ("garden", "roses", "Pruning made easy"),
        ("garden", "", "Ten dull lawns"),
        ("boats", "sails", "Wind ahead"),
    ]
    lines = [f"N{i}\t{row[0]}\t{row[1]}\t{row[2]}\tabstract\n" for i, row in enumerate(rows)]
    simulate(tmp_path / "out", SMALL, titles=_write_titles(tmp_path, "".join(lines)))
    newsroom = read(tmp_path / "out")
    stories = [tuple(row[1:4]) for row in newsroom.news.values()]
    assert set(stories) == {rows[0], ("garden", "garden", "Ten dull lawns"), rows[2]}
    assert all(stories.count(row) == 200 for row in set(stories))  # 600 stories, three lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"titles\.tsv has no stories; pass a MIND news\.tsv"),
        ("N1\tnews\tx\tA title\nN2\tnews\tx\n", r"titles\.tsv:2: 3 columns \('N2.*at least 4.*correct the line"),
        ("N1\t\tx\tA title\n", r"titles\.tsv:1: the category of 'N1' is empty"),
        ("N1\tnews\tx\t \n", r"titles\.tsv:1: the title of 'N1' is empty"),
    ],
)
def test_bad_titles_file_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(LogError, match=message) as caught:
        simulate(tmp_path / "out", SMALL, titles=_write_titles(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_missing_or_unreadable_titles_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"nowhere\.tsv cannot be read: No such file.*pass the path"):
        simulate(tmp_path / "out", SMALL, titles=tmp_path / "nowhere.tsv")
    (tmp_path / "latin.tsv").write_bytes(b"N1\tnews\tx\tCaf\xe9\n")
    with pytest.raises(LogError, match=r"latin\.tsv:1: b'\\xe9' is not UTF-8; save"):
        simulate(tmp_path / "out", SMALL, titles=tmp_path / "latin.tsv")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("users", 0, "users is 0; at least 1"),
        ("news", 299, "news is 299; at least 300"),
        ("days", 1, "days is 1; at least 2"),
        ("seed", -1, "seed is -1; it must be 0 or more"),
        ("accidents", 1.0, "accidents is 1.0; it takes a share"),
        ("accidents", -0.1, "accidents is -0.1; it takes a share"),
        ("attention", 0.0, "attention is 0.0; it takes a share"),
        ("targeting", 1.5, "targeting is 1.5; it takes a share"),
    ],
)
def test_invalid_settings_are_refused(name: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        SimulationSettings(**{name: value})


def test_extreme_settings_work(tmp_path: Path) -> None:
    extreme = SimulationSettings(users=1, news=300, days=2, accidents=0.99, attention=1.0, targeting=1.0)
    assert simulate(tmp_path / "out", extreme).clicks >= 1
    assert read(tmp_path / "out").column("seen").all()


def test_more_users_have_more_stories() -> None:
    counts = [SimulationSettings(users=users).stories for users in (1, 2_000, 50_000, 200_000)]
    assert counts == sorted(counts)
    assert counts[2] == 51_282
    assert SimulationSettings(users=50_000, news=700).stories == 700


def test_page_documents_every_setting_column_and_cause(newsroom: Newsroom) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for field in fields(SimulationSettings):
        default = "none" if field.default is None else field.default
        assert f"| `{field.name}` | {default} |" in page
    for name in newsroom.truth.schema.names:
        assert f"`{name}`" in page
    for name in set(newsroom.column("cause").tolist()):
        assert f"| `{name}` |" in page


def test_newsroom_table_is_written_between_its_markers(small: tuple[Path, Simulated], tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = "<!-- newsroom table: begin -->", "<!-- newsroom table: end -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    command = [sys.executable, str(ROOT / "benchmarks" / "newsroom.py"), str(small[0]), "--page", str(page)]
    subprocess.run(command, check=True, capture_output=True)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{begin}\n")
    assert text.endswith(f"{end}\nafter\n")
    assert "old" not in text
    assert "seed 5" in text
    train = (small[0] / "train" / "behaviors.tsv").read_text(encoding="utf-8").splitlines()
    assert f"| impressions | {len(train)} |" in text


def _lines(newsroom: Newsroom, part: str, name: str) -> list[str]:
    return (newsroom.folder / part / name).read_text(encoding="utf-8").splitlines()

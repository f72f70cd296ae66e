"""The docs say what the program does."""

import re
from pathlib import Path

import pytest

from drpn import schema
from drpn.dataset.folder import Dataset
from drpn.recipes.prepare import prepare

ROOT = Path(__file__).parents[1]
EVENTS = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "columns"), [("news", schema.NEWS), ("impressions", schema.IMPRESSIONS)])
def test_the_columns_of_the_events_format_are_those_of_the_schema(
    name: str, columns: tuple[schema.Column, ...]
) -> None:
    found = re.search(f"<!-- columns of {name}: begin -->\n(.*?)\n<!-- columns of {name}: end -->", EVENTS, re.DOTALL)
    assert found
    rows = [
        f"| `{column.name}` | {column.kind} | {'required' if column.required else ''} | {column.meaning} |"
        for column in columns
    ]
    assert found[1].splitlines()[2:] == rows


def test_the_example_of_the_events_format_can_be_prepared(tmp_path: Path) -> None:
    impressions, news = re.findall(r"```csv\n(.*?)```", EVENTS, re.DOTALL)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "impressions.csv").write_text(impressions)
    (tmp_path / "logs" / "news.csv").write_text(news)
    dataset = prepare(tmp_path / "logs", tmp_path / "data")
    ben = list(dataset.user_ids).index("ben")
    assert [dataset.news_ids[row] for row in dataset.clicked[ben] if row] == ["derby"]
    assert [dataset.news_ids[row] for row in dataset.skipped[ben] if row] == ["storm"]
    assert dataset.arrays.array("users/clicked_read_seconds")[ben][0] == 95
    assert list(dataset.impressions("test").extras["read_seconds"])[1] == 2


QUOTES = re.findall(r"```python\n# (\S+)\n(.*?)```", (ROOT / "docs" / "adding-a-model.md").read_text(), re.DOTALL)


@pytest.mark.parametrize(("file", "quote"), QUOTES)
def test_what_adding_a_model_quotes_stands_in_the_file(file: str, quote: str) -> None:
    """In this order; a line of three dots is what was left out."""
    source, found = (ROOT / file).read_text(encoding="utf-8"), 0
    for part in re.split(r"^ *\.\.\.\n", quote, flags=re.MULTILINE):
        found = source.find(f"\n{part}", found)
        assert found >= 0, part


def test_adding_a_model_quotes_nothing_unchecked_and_names_what_exists() -> None:
    text = (ROOT / "docs" / "adding-a-model.md").read_text()
    assert len(QUOTES) == text.count("```python") >= 5
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / "docs" / link).exists(), link
    source = "".join(path.read_text() for path in (ROOT / "src" / "drpn" / "layers").glob("*.py"))
    rules = text[text.index("## 4.") : text.index("## 5.")]
    blocks = {name for how in re.findall(r"\| ([^|]+) \|$", rules, re.MULTILINE) for name in _names(how)}
    assert {"gather_rows", "rows_at", "gather_at", "masked_softmax", "where_present"} <= blocks
    for name in blocks:
        assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE), name


def _names(text: str) -> list[str]:
    """Functions and classes in backticks, with or without arguments."""
    return re.findall(r"`(\w+)(?:\([^`]*\))?`", text)


def test_every_command_of_the_docs_exists(drpn) -> None:
    help_text = drpn("--help").stdout
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    commands = {name for page in pages for name in re.findall(r"(?:^|`)drpn ([a-z]+)", page.read_text(), re.MULTILINE)}
    assert commands >= {"prepare", "simulate"}
    for name in commands:
        assert re.search(rf"\b{name}\b", help_text), f"drpn {name}"


def test_every_make_target_of_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    pattern = r"(?:^|`)make ([a-z-]+)(?=\s*(?:#|`|$))"
    named = {name for page in pages for name in re.findall(pattern, page.read_text(), re.MULTILINE)}
    assert {"demo", "test"} <= named <= targets


def test_the_layout_in_the_docstring_is_the_layout_on_disk(tmp_path: Path, mind: Path) -> None:
    from drpn.dataset import folder

    dataset = prepare(mind, tmp_path / "data")
    written = {path.relative_to(dataset.path).as_posix() for path in dataset.path.rglob("*.npy")}
    for name in written:
        room, file = name.split("/")
        assert f"{room}/" in folder.__doc__
        assert file.split(".")[0] in folder.__doc__, name
    assert Dataset.open(dataset.path).statistics == dataset.statistics

"""The docs agree with the code."""

import ast
import pkgutil
import re
from pathlib import Path

import pytest

from drpn import schema
from drpn.dataset.folder import Dataset
from drpn.recipes.prepare import prepare

ROOT = Path(__file__).parents[1]
EVENTS = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize(("name", "columns"), [("news", schema.NEWS), ("impressions", schema.IMPRESSIONS)])
def test_events_page_lists_the_columns_of_the_schema(name: str, columns: tuple[schema.Column, ...]) -> None:
    table = re.search(f"<!-- columns of {name}: begin -->\n(.*?)\n<!-- columns of {name}: end -->", EVENTS, re.DOTALL)
    assert table
    rows = [
        f"| `{column.name}` | {column.kind} | {'required' if column.required else ''} | {column.meaning} |"
        for column in columns
    ]
    assert table[1].splitlines()[2:] == rows


def test_example_log_of_the_events_page_can_be_prepared(tmp_path: Path) -> None:
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
def test_adding_a_model_quotes_the_source(file: str, quote: str) -> None:
    """The parts of a quote appear in this order; a line of three dots stands for left-out lines."""
    source, position = (ROOT / file).read_text(encoding="utf-8"), 0
    for part in re.split(r"^ *\.\.\.\n", quote, flags=re.MULTILINE):
        position = source.find(f"\n{part}", position)
        assert position >= 0, part


def test_adding_a_model_names_existing_blocks_and_checks_every_quote() -> None:
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_existing_files(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not link.startswith(("http://", "https://", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_python_examples_parse(page: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for example in examples:
        ast.parse(example)


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


def test_layout_in_the_docstring_is_the_layout_on_disk(tmp_path: Path, mind: Path) -> None:
    from drpn.dataset import folder

    dataset = prepare(mind, tmp_path / "data")
    written = {path.relative_to(dataset.path).as_posix() for path in dataset.path.rglob("*.npy")}
    for name in written:
        directory, file = name.split("/")
        assert f"{directory}/" in folder.__doc__
        assert file.split(".")[0] in folder.__doc__, name
    assert Dataset.open(dataset.path).statistics == dataset.statistics


PAPER_MAP = (ROOT / "docs" / "paper-map.md").read_text(encoding="utf-8")


def test_paper_map_names_existing_tests() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for name in set(re.findall(r"`(test_\w+)`", PAPER_MAP)):
        assert f"def {name}(" in source, name
    for path in set(re.findall(r"`(tests/[\w/]+\.py)`", PAPER_MAP)):
        assert (ROOT / path).is_file(), path


def test_paper_map_names_existing_code() -> None:
    packages = "|".join(path.parent.name for path in (ROOT / "src" / "drpn").glob("*/__init__.py"))
    names = set(re.findall(rf"`((?:{packages})(?:\.\w+)+)`", PAPER_MAP))
    assert len(names) > 50
    for name in names:
        assert pkgutil.resolve_name(f"drpn.{name}") is not None

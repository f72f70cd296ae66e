"""Code, docs and help texts are in plain English: names and phrases that were replaced do not come back."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from drpn.cli.app import app

ROOT = Path(__file__).parents[1]

NAMES = {
    # functions and methods
    "one_after_the_other", "side_by_side", "in_parts", "or_else", "carry_out", "naming_what_to_lower", "luck",
    "read_in_tables", "in_place", "at_positions", "encode_in_steps", "by_length", "without_padding", "memory_kept",
    "between_steps", "optimiser_of", "alone_in", "whole_file", "new_folder", "writing_to", "read_sealed",
    "write_sealed", "for_this_terminal", "pages_of_users", "shape_of", "inference_device", "forget_compiled",
    "drpn_only", "most_telling", "new_titles", "count_distinct", "some_news",
    # classes and constants
    "Placed", "Later", "Telling", "TracedNews", "ProfileNews", "NewTitle", "RecordedStepper", "NEEDS", "REMEDIES",
    # variables
    "found",
}  # fmt: skip
"""Not allowed as a name in code, with or without a leading underscore, nor in backticks in the docs."""

FUNCTIONS = {"along", "map_tensors"}
"""Not allowed as a function; methods and variables may have these names."""

MODULES = ["models.aggregators", "models.encoded", "logs.places", "dataset.feedback"]
"""Modules that no longer exist; written with dots or slashes."""

ALLOWED = {"benchmarks/side_by_side.py"}
"""Texts that contain one of the names and are right."""

PHRASES = [
    r"(an?|each|every|some|one|another|no|any|these|those|many|few|two) news"
    r"(?! (recommend\w+|rows?|site|files?|folder|table|reader|arrays?|columns?|logs?)\b)",
    r"(clicked|skipped|distinct|shown|encoded|new|recent|unknown|known|neighbour) news(?! id)",
    r"told apart",
    r"(take|takes|taken|taking|took) up",
    r"anew",
    r"as (it|they) comes?",
    r"of which",
    r"of whom",
    r"by themselves",
    r"said there",
    r"of like length",
    r"luck",
    r"so many",
    r"from nothing",
    r"naming what",
    r"(carry|carries|carried|carrying) out",
    r"nobody may read",
    r"beside",
    r"comes? along",
    r"recorded and played",
    r"what can be done",
    r"in its usual form",
    r"unless told",
    r"this drpn",
]
"""Regular expressions; case does not matter, and a space also matches a line break."""

DOCSTRINGS = [r"print it\.", r"what (is|are|was|were|a|an|the|each|every|it|could) "]
"""Regular expressions; beginnings of docstrings that say too little or are riddles."""

CODE = sorted(path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
OTHER = sorted(
    [
        *(ROOT / "src" / "drpn" / "configs").glob("*.toml"),
        *(ROOT / "benchmarks").glob("*.sh"),
        *(path for path in (ROOT / ".ci").iterdir() if path.is_file()),
        *(ROOT / name for name in ("Makefile", "pyproject.toml", ".gitignore", "CITATION.cff")),
    ]
)

Hit = tuple[int, str]
"""A line number and the words on that line."""


def one_of(expressions: list[str], *, before: str, after: str) -> re.Pattern[str]:
    gap = r"(?:[ \t]|\n[ \t#>*]*)+"  # the next line may start with a comment sign
    spaced = "|".join(f"(?:{expression.replace(' ', gap)})" for expression in expressions)
    return re.compile(f"{before}(?:{spaced}){after}", re.IGNORECASE)


PHRASE = one_of(PHRASES, before=r"(?<![\w.-])", after=r"(?![\w/.-]*\w)")
DOCSTRING = one_of(DOCSTRINGS, before='"""', after="")
MODULE = re.compile("|".join(rf"\b{name.replace('.', '[./]')}\b" for name in MODULES))
QUOTED_NAME = re.compile(r"`[^`\n]*`")


def matches(pattern: re.Pattern[str], text: str) -> Iterator[Hit]:
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


def phrases_in(text: str) -> Iterator[Hit]:
    for pattern in (PHRASE, DOCSTRING, MODULE):
        yield from matches(pattern, text)


def names_in_code(source: str) -> Iterator[Hit]:
    """Names of the lists above in Python code, outside comments and strings."""
    before, beginning = "", False
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.string.strip()]
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        name = token.string.removeprefix("_")
        called = following is not None and following.string == "(" and before not in (".", "def")
        defined = before == "def" and beginning
        if token.type == tokenize.NAME and (name in NAMES or (name in FUNCTIONS and (called or defined))):
            yield token.start[0], token.string
        before, beginning = token.string, token.start[1] == 0


def names_in_docs(text: str) -> Iterator[Hit]:
    """Names of the lists above between backticks."""
    for line, quoted in matches(QUOTED_NAME, text):
        if not any(allowed in quoted for allowed in ALLOWED):
            words = re.findall(r"\w+", quoted)
            yield from ((line, word) for word in words if word.removeprefix("_") in NAMES - {"found"})


def report(path: Path, hits: Iterator[Hit]) -> list[str]:
    return [f"{path.relative_to(ROOT).as_posix()}:{line}: {words}" for line, words in sorted(hits)]


def test_code_does_not_use_replaced_names() -> None:
    files = [path for path in CODE if path != Path(__file__)]
    assert len(files) > 200
    hits = [hit for path in files for hit in report(path, names_in_code(path.read_text(encoding="utf-8")))]
    assert not hits, "\n".join(["name these by what they hold or do:", *hits])


def test_docs_do_not_mention_replaced_names() -> None:
    hits = [hit for path in DOCS for hit in report(path, names_in_docs(path.read_text(encoding="utf-8")))]
    assert not hits, "\n".join(["these names no longer exist:", *hits])


def test_code_and_docs_are_in_plain_english() -> None:
    files = [path for path in (*CODE, *DOCS, *OTHER) if path != Path(__file__)]
    hits = [hit for path in files for hit in report(path, phrases_in(path.read_text(encoding="utf-8")))]
    assert not hits, "\n".join(["write these sentences in plain English:", *hits])


def test_help_texts_are_in_plain_english(drpn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10000")  # no line breaks within a sentence
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for arguments in ([], *([name] for name in commands)):
        shown = drpn(*arguments, "--help")
        assert shown.returncode == 0
        assert not [words for _, words in phrases_in(shown.stdout)], f"drpn {' '.join(arguments)} --help"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the weight of each news in it", [(1, "each news")]),
        ("first\n    # vectors of a\n    # news", [(2, "a # news")]),
        ("A news recommender; every news row; a news_id; two news/title arrays; news", []),
        ("Runs are taken up after a stop.", [(1, "taken up")]),
        ("Besides that, take an update.", []),
        ('"""What is kept of a story."""', [(1, '"""What is')]),
        ("see models/aggregators.py and `models.encoded`", [(1, "models/aggregators"), (1, "models.encoded")]),
    ],
)
def test_phrases_are_recognised(text: str, expected: list[Hit]) -> None:
    assert list(phrases_in(text)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("found = 1", ["found"]),
        ("for found, expected in pairs: pass", ["found"]),
        ('print("not found")  # found', []),
        ("def along(items): pass", ["along"]),
        ("map_tensors(function)", ["map_tensors"]),
        ("class Batch:\n    def map_tensors(self): pass", []),
        ("batch.map_tensors(function)\nalong = 3", []),
        ("_in_place(rows)", ["_in_place"]),
        ("Later.Telling", ["Later", "Telling"]),
    ],
)
def test_names_are_recognised(source: str, expected: list[str]) -> None:
    assert [name for _, name in names_in_code(source)] == expected


def test_names_in_docs_are_recognised() -> None:
    text = "`benchmarks/side_by_side.py` compares; later `shape_of(x)` and\n`Later` were found"
    assert list(names_in_docs(text)) == [(1, "shape_of"), (2, "Later")]

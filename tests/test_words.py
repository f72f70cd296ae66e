"""Code, docs and help texts are in plain English: names and phrases that were replaced do not come back."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from drpn.cli.app import app
from drpn.cli.reference import reference

ROOT = Path(__file__).parents[1]

# never a name in code: no function, class, variable, argument or attribute
NAMES = set(
    """
    one_after_the_other side_by_side in_parts or_else carry_out naming_what_to_lower luck found read_in_tables in_place
    at_positions encode_in_steps by_length without_padding memory_kept between_steps optimiser_of alone_in whole_file
    new_folder writing_to read_sealed write_sealed for_this_terminal pages_of_users shape_of inference_device
    forget_compiled drpn_only most_telling new_titles count_distinct Placed Later Telling TracedNews ProfileNews NewTitle
    RecordedStepper NEEDS REMEDIES some_news
    """.split()
)

# words that are fine as variables, but say too little as the name of a function or method
FUNCTIONS = {"along", "map_tensors"}

# modules that were merged into others or renamed
MODULES = [r"models[./]aggregators", r"models[./]encoded", r"logs[./]places", r"dataset[./]feedback"]

# regular expressions over prose, ignoring case and line breaks
PHRASES = [
    r"(a|an|each|every|some|one|another|no|any|this|that|these|those|many|few|two|what a) news(?!"
    r" (recommend\w+|rows?|site|file|folder|table|reader|reads|arrays?|column|log)\b|[-_/.]|rooms?\b|papers?\b)",
    r"(clicked|skipped|distinct|shown|encoded|new|recent|unknown|known|neighbour) news(?! id)(?![-_/.])",
    r"told apart",
    r"(take|takes|taken|taking|took) up",
    r"anew",
    r"as (it|they) comes?",
    r"of which",
    r"by themselves",
    r"said there",
    r"of (like|the same|equal) length as each other",
    r"of like length",
    r"luck",
    r"from nothing",
    r"naming what",
    r"(carry|carries|carried|carrying) out",
    r"nobody may read",
    r"print it\.",
    r"beside",
    r"what can be done here",
    r"in its usual form",
    r"what comes along",
    r"recorded and played",
]

CODE = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
DOCS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
OTHER = [
    *(ROOT / "src" / "drpn" / "configs").glob("*.toml"),
    *(ROOT / "benchmarks").glob("*.sh"),
    *(ROOT / ".ci").iterdir(),
    *(ROOT / name for name in ("Makefile", "pyproject.toml", ".gitignore", "CITATION.cff")),
]
HERE = Path(__file__)

_GAP = r"[\s#|*>]+"
"""Between two words: white space, a line break, and whatever starts the next line of a comment or a table."""
_PROSE = re.compile(r"(?<![\w.-])(?:" + "|".join(f"(?:{one})".replace(" ", _GAP) for one in PHRASES) + r")(?!\w)", re.I)
_MODULE = re.compile(rf"\b(?:{'|'.join(MODULES)})\b")
_QUOTED = re.compile(r"`[^`\n]+`")


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _prose(text: str) -> Iterator[tuple[int, str]]:
    for match in [*_PROSE.finditer(text), *_MODULE.finditer(text)]:
        yield _line(text, match.start()), " ".join(match[0].split())


def _names(source: str) -> Iterator[tuple[int, str]]:
    previous = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            name = token.string.removeprefix("_")
            if name in NAMES or (name in FUNCTIONS and previous == "def"):
                yield token.start[0], token.string
            previous = token.string


def _report(path: Path, hits: Iterator[tuple[int, str]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line}: {words}" for line, words in hits]


def test_code_has_no_replaced_names() -> None:
    hits = [hit for path in CODE if path != HERE for hit in _report(path, _names(path.read_text(encoding="utf-8")))]
    assert not hits, "\n".join(["rename these:", *hits])

"""The settings file that `drpn tune` writes: one table `[models.NAME]` per model, its trials above it as comments."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drpn.errors import OutputError
from drpn.escape import terminal
from drpn.experiments.space import DESCRIPTIONS

_TRIALS_PER_LINE = 10


def header(name: str) -> str:
    """Return the comments at the top of a new file called `name`."""
    lines = [
        "Settings found by drpn tune: for each model those of the trial with the best validation AUC, marked *.",
        "No trial was measured on the test split. Searched, where the model has the setting:",
        *(f"  {text}" for text in DESCRIPTIONS.values()),
        "Use them with:",
        f"  drpn train FOLDER --out run --model NAME --config {name}",
        f"  drpn compare FOLDER --out tables --configs {name}",
    ]
    return _as_comments(lines)


def trial_lines(rows: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line per row: its name, then one aligned cell per trial; long rows are wrapped."""
    width = max(map(len, rows))
    widths = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    lines = []
    for start in range(0, len(widths), _TRIALS_PER_LINE):
        part = slice(start, start + _TRIALS_PER_LINE)
        for name, cells in rows.items():
            aligned = (cell.rjust(size) for cell, size in zip(cells[part], widths[part], strict=True))
            lines.append("  ".join([name.ljust(width), *aligned]))
    return lines


def with_model_table(text: str, model: str, comments: Sequence[str], values: Mapping[str, Any], *, file: Path) -> str:
    """Return the text of a settings file with the table `[models.MODEL]` added or replaced; the rest is unchanged.

    `values` has keys such as `training.rate`. A paragraph of the file that holds the model's table is replaced whole.
    """
    settings = "".join(f"{name} = {_toml_value(value)}\n" for name, value in values.items())
    block = f"{_as_comments(comments)}[models.{model}]\n{settings}".rstrip("\n")
    has_table = re.compile(rf"^\[models\.{re.escape(model)}[.\]]", re.MULTILINE)
    paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", text.strip("\n")) if paragraph]
    before = [number for number, paragraph in enumerate(paragraphs) if has_table.search(paragraph)]
    place = before[0] if before else len(paragraphs)
    others = [paragraph for number, paragraph in enumerate(paragraphs) if number not in before]
    merged = "\n\n".join([*others[:place], block, *others[place:]]) + "\n"
    expected = tomllib.loads(text)
    expected["models"] = expected.get("models", {}) | {model: tomllib.loads(settings)}
    if not _says(merged, expected):
        raise OutputError(
            f"{file}: [models.{model}] cannot be written without changing other settings there; "
            "put a blank line before the table of each model"
        )
    return merged


def _says(text: str, expected: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        return False


def _as_comments(lines: Sequence[str]) -> str:
    return "".join(f"# {terminal(line)}".rstrip() + "\n" for line in lines)


def _toml_value(value: Any) -> str:
    if value is None:
        return '"none"'
    return json.dumps(value) if isinstance(value, bool | str) else repr(value)

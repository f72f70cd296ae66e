"""Format tables as Markdown and as LaTeX."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from drpn import escape

RULE = None
"""Stands for a horizontal line between two rows of a table."""

_SIGNS = {"±": r"$\pm$", "–": "--"}
_BOLD = re.compile(r"\*\*(.*)\*\*", re.DOTALL)


@dataclass(frozen=True)
class Table:
    """A table of text cells."""

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...] | None, ...]
    """`**text**` is bold; `RULE` is a horizontal line."""
    left: int = 1
    """The number of left-aligned columns (words); the others are right-aligned (numbers)."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if row is not RULE and len(row) != len(self.heads):
                raise ValueError(f"a row has {len(row)} cells under {len(self.heads)} heads: {row}")


def markdown(table: Table) -> list[str]:
    """Return the lines of a Markdown table, which has no horizontal lines between rows."""
    alignment = ["---" if place < table.left else "---:" for place in range(len(table.heads))]
    rows = [row for row in table.rows if row is not RULE]
    return [_line(row) for row in (table.heads, alignment, *rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_markdown_cell, cells)) + " |"


def _markdown_cell(cell: str) -> str:
    bold = _BOLD.fullmatch(cell)
    return f"**{escape.markdown(bold[1])}**" if bold else escape.markdown(cell)


def latex(table: Table, *, label: str) -> list[str]:
    """Return the lines of a LaTeX table as wide as the text column; needs the packages booktabs and graphicx."""
    columns = "l" * table.left + "r" * (len(table.heads) - table.left)
    body = [r"\midrule" if row is RULE else _latex_row(row) for row in table.rows]
    return [
        r"\begin{table}",
        r"\centering",
        r"\resizebox{\columnwidth}{!}{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row([f"**{head}**" if head else "" for head in table.heads]),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}}",
        rf"\caption{{{_escape(table.caption)}}}",
        rf"\label{{{label}}}",
        r"\end{table}",
    ]


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_latex_cell(cell) for cell in cells) + r" \\"


def _latex_cell(cell: str) -> str:
    bold = _BOLD.fullmatch(cell)
    return rf"\textbf{{{_escape(bold[1])}}}" if bold else _escape(cell)


def _escape(text: str) -> str:
    plain = "".join(_SIGNS.get(character, character) for character in escape.latex(text))
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", plain)  # typeset as a minus sign, not as a hyphen

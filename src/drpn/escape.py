"""Make text from logs, file names and settings harmless where it is shown: terminal, Markdown and LaTeX.

Titles and ids may hold anything, such as escape sequences that recolour a terminal, or marks that reverse the order of
letters. JSON and NumPy files keep the exact text.
"""

import re
import unicodedata

_KEPT = "\u00ad\u200c\u200d"
"""Soft hyphens, and the joiners that Persian and emoji need."""
_MARKDOWN = re.compile(r"[\\`*_\[\]<>|~$&]")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    # after the end of a row these would be read as its arguments
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
}


def terminal(text: str) -> str:
    r"""The text on one line, with control and other invisible characters as in Python, such as `\x1b` and `\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def markdown(text: str) -> str:
    """The text as plain text of a Markdown page or table cell."""
    return _MARKDOWN.sub(r"\\\g<0>", terminal(text))


def latex(text: str) -> str:
    """The text as plain text of a LaTeX document or table cell."""
    return "".join(_LATEX.get(character, character) for character in terminal(text))


def _visible(character: str) -> str:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _KEPT
    return character.encode("unicode_escape").decode("ascii") if hidden else character

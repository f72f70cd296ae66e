"""Text from logs is harmless wherever it is shown."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from drpn.errors import LogError
from drpn.escape import latex, markdown, terminal
from drpn.evaluation.tables import Table
from drpn.evaluation.tables import latex as latex_table
from drpn.evaluation.tables import markdown as markdown_table
from drpn.progress import Lines

SPECIAL = st.text(
    st.characters()
    | st.sampled_from("\x1b\x00\x7f\x85\x9b\u202e\u2066\u2028\n\r\t|\\`*_[]<>~$&%#{}^\"'\udcff\U000e0041")
)


def test_terminal_text() -> None:
    assert terminal("Plain title, 100 % – déjà vu ☃ 👩‍💻") == "Plain title, 100 % – déjà vu ☃ 👩‍💻"
    assert terminal("\x1b[31mred\x1b[0m \x07\x9b2J") == r"\x1b[31mred\x1b[0m \x07\x9b2J"
    assert terminal("two\nlines\r\t\u2028") == r"two\nlines\r\t\u2028"
    assert terminal("\u202eabc\u2066 \udcff \U000e0041") == r"\u202eabc\u2066 \udcff \U000e0041"


def test_markdown_text() -> None:
    assert markdown("a|b\n<b>*x*</b> [y](z) `c` $d$ e_f \\") == (
        r"a\|b\\n\<b\>\*x\*\</b\> \[y\](z) \`c\` \$d\$ e\_f \\"
    )


def test_latex_text() -> None:
    assert latex("50% & $x_1$ #{a}~^\\input\n[*]") == (
        r"50\% \& \$x\_1\$ \#\{a\}\textasciitilde{}\textasciicircum{}\textbackslash{}input\textbackslash{}n{[}{*}{]}"
    )


@given(SPECIAL)
def test_no_hidden_character_is_left(text: str) -> None:
    for escaped in (terminal(text), markdown(text), latex(text), str(LogError(text.replace("\n", "")))):
        hidden = {unicodedata.category(character) for character in escaped if character not in "\u00ad\u200c\u200d"}
        assert not hidden & {"Cc", "Cf", "Cs", "Zl", "Zp"}
        escaped.encode("utf-8")
    assert terminal(terminal(text)) == terminal(text)


@given(SPECIAL)
def test_markdown_text_is_given_back(text: str) -> None:
    """Every special character has one backslash before it; without these backslashes the text is the same."""
    escaped = markdown(text)
    assert re.sub(r"\\([\\`*_\[\]<>|~$&])", r"\1", escaped) == terminal(text)
    assert not re.search(r"[`*_\[\]<>|~$&]", re.sub(r"\\.", "", escaped))


@given(SPECIAL)
def test_latex_text_has_no_active_character(text: str) -> None:
    commands = r"\\text[a-z]+\{\}|\\[&%$#_{}]|\{[\[\]*]\}"
    assert not re.search(r"[\\{}$&#^_~%\[\]*]", re.sub(commands, "", latex(text)))


@given(st.lists(st.tuples(SPECIAL, SPECIAL, SPECIAL), min_size=1, max_size=3), SPECIAL)
def test_tables_have_as_many_cells_as_heads(rows: list[tuple[str, ...]], caption: str) -> None:
    table = Table(caption, ("a", "b", "c"), tuple(rows))
    lines = markdown_table(table)
    assert len(lines) == 2 + len(rows)
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 4
        assert len(line.splitlines()) == 1
    source = latex_table(table, label="x")
    body = [line for line in source if line.endswith(r"\\")]
    assert len(body) == 1 + len(rows)
    for line in body:
        assert len(re.findall(r"(?<!\\)&", line)) == 2
        assert len(line.splitlines()) == 1
    assert all(len(line.splitlines()) == 1 for line in source)
    text = re.sub(r"\\[{}]", "", "\n".join(source))
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "[/] [red]x[/red] :fire:", "\u202e", "a\nb"])
def test_notes_are_shown_as_they_are(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    from drpn.progress import Terminal

    lines: list[str] = []
    Lines(lines.append).note(text)
    assert lines == [terminal(text)]
    progress = Terminal(Console(force_terminal=True, width=200))
    progress.note(text)
    with progress.stage(text, 3) as advance:
        advance(1)
    out = Text.from_ansi(capsys.readouterr().out).plain
    assert out.count(terminal(text)) >= 2


def test_an_error_quotes_a_log_without_control_characters() -> None:
    error = LogError("news \x1b[2J\u202e is twice", hint="pass --user '\x1b'")
    assert str(error) == r"news \x1b[2J\u202e is twice"
    assert error.hint == r"pass --user '\x1b'"

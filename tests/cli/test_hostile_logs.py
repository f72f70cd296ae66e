"""A log whose titles, ids and labels attack whoever shows them goes through all commands."""

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drpn.escape import terminal
from small_comparison import AS_OPTIONS, SETS
from small_training import refused

ATTACKS = [
    "\x1b[31mred\x1b[0m", "\x1b]0;own title\x07", "\x9b2J", "bell\x07back\x08del\x7fnull\x00", "\u202edesrever\u202c",
    "\u2066isolate\u2069", "two\nlines", "return\rover", "line\u2028para\u2029", "[red]x[/red]", "[/] [bold", ":fire:",
    "a | b | c", "`code` **bold** _it_", "<script>alert(1)</script>", "[link](http://x.example)", "$x^2$ $\\frac{",
    "\\input{/etc/passwd}", "50% #1 & {x} ~^", "back\\", "=1+1", "'; DROP TABLE news; --", '"quoted"', "{0} %s %(x)s",
]  # fmt: skip
FOLDER = "data $\\frac{ \x1b[31m\n| `x` [a](b)"
DRPN = [word for setting in SETS if "head_size" not in setting for word in ("--set", setting)]
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
Drpn = Callable[..., Any]


def is_hidden(character: str) -> bool:
    return unicodedata.category(character) in HIDDEN and character != "\n"


def check_visible(text: str, where: str) -> None:
    hidden = {character for character in text if is_hidden(character)}
    assert not hidden, f"{where} holds {hidden}"


def write_logs(folder: Path) -> Path:
    """An attack in every title, id and label, over three days."""
    folder.mkdir()
    news = [
        {"news_id": f"N{number} {attack}", "title": f"Title {number} {attack} storm market", "category": f"c {attack}",
         "subcategory": f"s {attack}"}
        for number, attack in enumerate(ATTACKS)
    ]  # fmt: skip
    rows = []
    for day in (9, 10, 11):
        for user, attack in enumerate(ATTACKS):
            shown = [(user + step + day) % len(ATTACKS) for step in range(4)]
            rows += [
                {"impression_id": f"{day}/{user} {attack}", "user_id": f"U{user} {attack}",
                 "time": f"2026-11-{day:02}T{user % 12:02}:{user:02}:00", "news_id": news[story]["news_id"],
                 "clicked": int(place == 0), "device": f"d {attack}"}
                for place, story in enumerate(shown)
            ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(news), folder / "news.parquet")
    pq.write_table(pa.Table.from_pylist(rows), folder / "impressions.parquet")
    return folder


@pytest.fixture
def checked(drpn: Drpn) -> Drpn:
    """A function that runs a command, which must succeed, and checks that its output is visible."""

    def run(*arguments: object) -> str:
        done = drpn(*arguments)
        assert done.returncode == 0, done.stderr
        check_visible(done.stdout + done.stderr, f"the output of drpn {arguments[0]}")
        return str(done.stdout)

    return run


def check_files(folder: Path) -> set[str]:
    """Check every text file of a folder; return the kinds that were checked."""
    kinds = set()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.suffix in (".json", ".jsonl", ".md", ".tex", ".svg", ".toml", ".txt"):
            check_visible(file.read_text(encoding="utf-8"), file.name)
            kinds.add(file.suffix)
    return kinds


def check_markdown(page: str) -> None:
    """Every row of a table has as many cells as its head; nothing else is a table, code, a link or HTML."""
    for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in block.splitlines()}
        assert len(widths) == 1
    assert not re.search(r"(?<!\\)(<script|\]\(http|`code`)", page)


def check_latex(source: str) -> None:
    code = "\n".join(line for line in source.splitlines() if not line.startswith("%"))
    assert r"\input" not in code
    assert r"\frac" not in code
    for columns, body in re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", code, re.DOTALL):
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert rows
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(columns) - 1}


def test_a_hostile_log_goes_through_all_commands(checked: Drpn, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    checked("prepare", "logs", "--out", FOLDER, "--set", "data.vector_size=4")
    checked("stats", FOLDER)
    run = "run $x$ \x1b[31m"
    checked("train", FOLDER, "--out", run, *DRPN)
    checked("evaluate", run, "--scores", "scores.jsonl", "--scores-format", "jsonl")
    for attack in (ATTACKS[0], ATTACKS[4], ATTACKS[6], ATTACKS[9]):
        user = next(f"U{number} {text}" for number, text in enumerate(ATTACKS) if text == attack)
        table = checked("recommend", run, "--user", user, "--user", "new \x1b[31m", "--top", "50")
        assert terminal(user) in table
        assert terminal("\x1b[31mred") in table
        explained = checked("explain", run, "--user", user, "--out", "case.svg")
        assert terminal(user) in explained
        assert ElementTree.parse(tmp_path / "case.svg")
    # new titles and unknown labels are shown too
    new = ["--title", "new \x1b[31m [red]", "--category", "\x1b", "--subcategory", "\u202e"]
    checked("recommend", run, "--clicked", "unknown \x1b[31m", *new)
    checked("compare", FOLDER, "--out", "tables", "--models", "drpn,nrms", "--seeds", "1", *AS_OPTIONS)
    for page in ("table2", "table3", "claims"):
        check_markdown((tmp_path / "tables" / f"{page}.md").read_text())
        check_latex((tmp_path / "tables" / f"{page}.tex").read_text())
    check_markdown((tmp_path / run / "bundle" / "README.md").read_text())
    assert check_files(tmp_path) == {".json", ".jsonl", ".md", ".tex", ".svg"}


def test_json_is_the_exact_text(checked: Drpn, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    checked("prepare", "logs", "--out", "data", "--set", "data.vector_size=4")
    checked("train", "data", "--out", "run", *DRPN)
    users = [f"U{number} {attack}" for number, attack in enumerate(ATTACKS)]
    titles = {f"N{number} {attack}": f"Title {number} {attack} storm market" for number, attack in enumerate(ATTACKS)}
    options = [word for user in users if "\x00" not in user for word in ("--user", user)]
    rankings = json.loads(checked("recommend", "run", *options, "--json", "--top", "50"))["rankings"]
    assert [ranking["user_id"] for ranking in rankings] == [user for user in users if "\x00" not in user]
    shown = {row["news_id"]: row["title"] for ranking in rankings for row in ranking["rows"]}
    assert shown == {news_id: titles[news_id] for news_id in shown}
    assert len(shown) == len(titles)
    traced = json.loads(checked("explain", "run", "--user", users[0], "--json"))
    assert traced["user_id"] == users[0]
    checked("evaluate", "run", "--scores", "scores.jsonl", "--scores-format", "jsonl")
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().split("\n") if line]
    assert {line["user_id"] for line in lines} <= set(users)
    assert {news_id for line in lines for news_id in line["candidates"]} <= set(titles)


def test_ids_that_the_submission_format_cannot_hold_are_refused(checked: Drpn, drpn: Drpn, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    checked("prepare", "logs", "--out", "data", "--set", "data.vector_size=4")
    checked("train", "data", "--out", "run", *DRPN)
    message = refused(drpn, "evaluate", "run", "--scores", "ranks.txt")
    assert "cannot be written in the format mind, whose ids have no spaces; choose jsonl" in message
    check_visible(message, "the error")
    assert not (tmp_path / "ranks.txt").exists()


def test_errors_quote_a_log_visibly(drpn: Drpn, tmp_path: Path) -> None:
    logs = write_logs(tmp_path / "logs")
    news = pq.read_table(logs / "news.parquet").to_pylist()
    pq.write_table(pa.Table.from_pylist(news[1:]), logs / "news.parquet")
    message = refused(drpn, "prepare", "logs", "--out", "data")
    assert terminal(news[0]["news_id"]) in message
    check_visible(message, "the error")
    pq.write_table(pa.Table.from_pylist([*news, news[0] | {"title": "\x1b[2J other"}]), logs / "news.parquet")
    check_visible(refused(drpn, "prepare", "logs", "--out", "data"), "the error")


def test_settings_files_of_a_search_hold_one_comment_per_line(checked: Drpn, tmp_path: Path) -> None:
    import tomllib

    write_logs(tmp_path / "logs")
    folder = "data\n[training]\nepochs = 99 \x1b[31m"
    checked("prepare", "logs", "--out", folder, "--set", "data.vector_size=4")
    checked("tune", folder, "--model", "drpn", "--out", "tuned.toml", "--trials", "1", *DRPN)
    assert "training" not in tomllib.loads((tmp_path / "tuned.toml").read_text())
    check_files(tmp_path)

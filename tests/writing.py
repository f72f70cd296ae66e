"""Write small logs for tests."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class MindLine(NamedTuple):
    """One line of behaviors.tsv with named fields."""

    impression_id: str
    user_id: str
    time: str
    candidates: str
    history: str = ""

    def text(self) -> str:
        return "\t".join([self.impression_id, self.user_id, self.time, self.history, self.candidates])


def write_mind(folder: Path, lines: Iterable[MindLine], news: Sequence[str] = ()) -> Path:
    """Write one part of a MIND folder; without `news`, four stories N1 to N4."""
    folder.mkdir(parents=True, exist_ok=True)
    stories = news or [f"N{number}\tsports\tchess\tStory number {number}" for number in range(1, 5)]
    news_lines = [line + "\t" * (7 - line.count("\t")) for line in stories]
    (folder / "news.tsv").write_text("".join(line + "\n" for line in news_lines), encoding="utf-8")
    (folder / "behaviors.tsv").write_text("".join(line.text() + "\n" for line in lines), encoding="utf-8")
    return folder


def edit(file: Path, line: int, old: str, new: str) -> None:
    """Replace `old` in one line of a file; fail if the line does not contain it."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    file.write_text("".join(lines), encoding="utf-8")

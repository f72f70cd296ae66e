"""Write the scores of every candidate to a file, in the MIND competition's format or as JSON lines."""

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal

from drpn.dataset.arrays import Array
from drpn.dataset.folder import Impressions
from drpn.errors import OutputError
from drpn.escape import terminal
from drpn.evaluation.metrics import check, ranks
from drpn.output import atomic_file, explain_write_errors

ScoresFormat = Literal["mind", "jsonl"]


def write_scores(
    target: Path,
    scores_format: ScoresFormat,
    impressions: Impressions,
    scores: Array,
    user_ids: Iterable[str],
    news_ids: Iterable[str],
) -> None:
    """Write the scores of all candidates atomically to the file `target`."""
    if scores_format == "mind":
        lines = mind_lines(impressions, scores)
    else:
        lines = json_lines(impressions, scores, user_ids, news_ids)
    _write(target, lines)


def mind_lines(impressions: Impressions, scores: Array) -> Iterator[str]:
    """Yield lines `impression_id [r1,r2,...]` with the rank of each candidate, 1 for the best, in the order of the log.

    If all impression ids are numbers, lines are sorted by id, as in MIND's own files.
    """
    rank = ranks(scores, impressions.offsets)
    ids = list(impressions.ids)
    for text in ids:
        if text.split() != [text] or terminal(text) != text:
            raise OutputError(
                f"impression id {text!r} cannot be written in the format mind, whose ids have no spaces; choose jsonl",
                hint="pass --scores-format jsonl",
            )
    for row in _line_order(ids):
        impression_ranks = rank[impressions.offsets[row] : impressions.offsets[row + 1]].tolist()
        yield f"{ids[row]} [{','.join(map(str, impression_ranks))}]"


def json_lines(
    impressions: Impressions, scores: Array, user_ids: Iterable[str], news_ids: Iterable[str]
) -> Iterator[str]:
    """Yield one JSON object per impression, in the order of the dataset; candidates are in the order of the log."""
    check(scores, impressions.clicked, impressions.offsets)
    users, news = list(user_ids), list(news_ids)
    ends = pairwise(impressions.offsets.tolist())
    for impression_id, user, (start, end) in zip(impressions.ids, impressions.users.tolist(), ends, strict=True):
        line = {
            "impression_id": impression_id,
            "user_id": users[user],
            "candidates": [news[row] for row in impressions.candidates[start:end].tolist()],
            "labels": impressions.clicked[start:end].astype(int).tolist(),
            "scores": scores[start:end].tolist(),
        }
        yield json.dumps(line)


def _line_order(ids: list[str]) -> list[int]:
    rows = list(range(len(ids)))
    if all(text.isascii() and text.isdecimal() for text in ids):
        rows.sort(key=lambda row: int(ids[row]))
    return rows


def _write(target: Path, lines: Iterator[str]) -> None:
    if target.exists() and not target.is_file():  # such as /dev/stdout, which must not be replaced by a file
        with explain_write_errors(target):
            _write_lines(target, lines)
    else:
        with explain_write_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(target) as scratch:
            _write_lines(scratch, lines)


def _write_lines(file: Path, lines: Iterator[str]) -> None:
    with file.open("w", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)

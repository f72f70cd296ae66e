"""Topics and subtopics, MIND's categories and subcategories: generated, or read from a news file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drpn.errors import LogError

TOPIC_SHARES = {
    "news": 0.270, "lifestyle": 0.110, "sports": 0.100, "finance": 0.097, "food": 0.063, "entertainment": 0.060,
    "travel": 0.054, "health": 0.051, "autos": 0.049, "music": 0.046, "tv": 0.042, "movies": 0.023, "video": 0.015,
    "weather": 0.015, "kids": 0.002, "science": 0.001, "games": 0.001, "books": 0.001,
}  # fmt: skip
"""Share of stories per topic, close to the shares among MIND's shown stories."""

SUBTOPICS = 220
"""Total number of subtopics; MIND has 160 to 285, depending on the part."""

FEWEST_SUBTOPICS = 3
"""Subtopics of the smallest topic."""


@dataclass(frozen=True)
class Topics:
    """Topics and their subtopics; `share` is the share of stories per subtopic."""

    topics: list[str]
    subtopics: list[str]
    topic_of: NDArray[np.int64]
    share: NDArray[np.float64]


@dataclass(frozen=True)
class TitleLines:
    """Title and subtopic of each line of a MIND news file."""

    titles: list[str]
    subtopic: NDArray[np.int64]


def subtopics_per_topic() -> NDArray[np.int64]:
    """Number of subtopics of each generated topic, proportional to the square root of the topic's share."""
    roots = np.sqrt(list(TOPIC_SHARES.values()))
    counts: NDArray[np.int64] = np.maximum(FEWEST_SUBTOPICS, np.round(SUBTOPICS * roots / roots.sum())).astype(np.int64)
    return counts


def make_topics(names: list[str], *, even: bool = False) -> Topics:
    """18 topics of very unequal size, or of equal size if `even`; the k-th subtopic of a topic has weight 1/k.

    `names` name the subtopics.
    """
    topics, counts = list(TOPIC_SHARES), subtopics_per_topic()
    shares = np.full(len(topics), 1 / len(topics)) if even else np.array(list(TOPIC_SHARES.values()))
    topic_of = np.repeat(np.arange(len(topics)), counts)
    weight = np.concatenate([1 / np.arange(1, count + 1) for count in counts])
    share = shares[topic_of] * weight / np.bincount(topic_of, weight)[topic_of]
    subtopics = [f"{topics[topic]}_{name}" for topic, name in zip(topic_of, names, strict=True)]
    return Topics(topics, subtopics, topic_of, share / share.sum())


def read_topics(path: Path) -> tuple[Topics, TitleLines]:
    """The categories, subcategories and titles of a MIND news file."""
    topics: dict[str, int] = {}
    subtopics: dict[tuple[str, str], int] = {}
    titles: list[str] = []
    subtopic_of_line: list[int] = []
    for number, line in enumerate(_lines(path), start=1):
        columns = line.split("\t")
        if len(columns) < 4:
            raise LogError(
                f"{path}:{number}: {len(columns)} columns ({line.strip()[:40]!r}); a line of news.tsv has at least 4, "
                "news_id, category, subcategory and title; correct the line or pass another file"
            )
        category, subcategory, title = (column.strip() for column in columns[1:4])
        if not category or not title:
            missing = "title" if category else "category"
            raise LogError(f"{path}:{number}: the {missing} of {columns[0]!r} is empty; fill it in or drop the line")
        topics.setdefault(category, len(topics))
        titles.append(title)
        subtopic_of_line.append(subtopics.setdefault((category, subcategory or category), len(subtopics)))
    if not titles:
        raise LogError(f"{path} has no stories; pass a MIND news.tsv with at least one line")
    subtopic = np.array(subtopic_of_line)
    topic_of = np.array([topics[category] for category, _ in subtopics])
    share = np.bincount(subtopic, minlength=len(subtopics)) / len(subtopic)
    names = [name for _, name in subtopics]
    return Topics(list(topics), names, topic_of, share), TitleLines(titles, subtopic)


def _lines(path: Path) -> Iterator[str]:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LogError(f"{path} cannot be read: {error.strerror}; pass the path of a MIND news.tsv") from error
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n") if raw else [], start=1):
        try:
            yield line.decode("utf-8").rstrip("\r")
        except UnicodeDecodeError as error:
            bad_byte = line[error.start : error.start + 1]
            raise LogError(f"{path}:{number}: {bad_byte!r} is not UTF-8; save the file as UTF-8") from error

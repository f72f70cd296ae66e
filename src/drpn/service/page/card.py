"""The model card, which is Markdown, as headings, lists and paragraphs that a template shows as plain text."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from drpn.bundle.files import MANIFEST
from drpn.service.newsroom import Newsroom

_ESCAPED = re.compile(r"\\([\\`*_\[\]<>|~$&])")


@dataclass
class Section:
    """A heading and the paragraphs and lists under it."""

    heading: str
    blocks: list[str | list[str]] = field(default_factory=list)
    """A text is a paragraph; a list has an item in each line."""


@dataclass(frozen=True)
class Card:
    """The card of the model of one variant."""

    variant: str
    model: str
    trained: datetime | None
    """When the training ended; None if the bundle does not say."""
    written: datetime | None
    """When the bundle was written."""
    sections: list[Section]


def read_cards(newsroom: Newsroom) -> list[Card]:
    """The cards of all variants; blocks while files are read."""
    return [_read(newsroom, variant, path) for variant, path in newsroom.bundles.items()]


def sections_of(text: str) -> list[Section]:
    """The sections of a card; the first is under the title."""
    sections = [Section("")]
    paragraph: list[str] = []

    def end() -> None:
        if paragraph:
            sections[-1].blocks.append(_plain(" ".join(paragraph)))
            paragraph.clear()

    for line in text.splitlines():
        if line.startswith("#"):
            end()
            title = _plain(line.lstrip("#").strip())
            if line.startswith("##"):
                sections.append(Section(title))
            else:
                sections[0].heading = title
        elif line.startswith("- "):
            end()
            if not (sections[-1].blocks and isinstance(sections[-1].blocks[-1], list)):
                sections[-1].blocks.append([])
            items = sections[-1].blocks[-1]
            assert isinstance(items, list)
            items.append(_plain(line[2:]))
        elif line.strip():
            paragraph.append(line.strip())
        else:
            end()
    end()
    return sections


def _read(newsroom: Newsroom, variant: str, path: Path) -> Card:
    title, *others = sections_of(newsroom.card(variant))
    try:
        written = datetime.fromtimestamp((path / MANIFEST).stat().st_mtime, UTC)
    except OSError:
        written = None
    return Card(variant, title.heading, newsroom.trained(variant), written, [Section("", title.blocks), *others])


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)

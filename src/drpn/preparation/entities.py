"""Find the words of titles that name entities, assign rows to the entities, and write their vectors. Row 0 is padding.

An entity has a row if a word names it in a title that was shown before the end of training, or if a word of any title
names it and a vector file has it, so that every row has a vector that is trained or read from a file. Words that name
an entity without a row name none.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array, ArrayWriter, Strings
from drpn.dataset.mentions import Mention, mentioned_words, mentions_in, word_entities
from drpn.dataset.vocabulary import tokens
from drpn.errors import LogError, SettingsError
from drpn.preparation.vectors import text_lines
from drpn.progress import Progress

ENTITY_FILE, CONTEXT_FILE = "entity_embedding.vec", "context_embedding.vec"
"""MIND's file of entity vectors, next to news.tsv, and a file of the same format with context vectors."""


class EntityFiles(NamedTuple):
    """Files of vectors of entities."""

    vectors: Sequence[Path] = ()
    contexts: Sequence[Path] = ()
    """The context of an entity is the mean of its neighbours in a knowledge graph."""

    @classmethod
    def choose(
        cls, sources: Iterable[Path], *, entities: int, vectors: Path | None, contexts: Path | None
    ) -> "EntityFiles":
        """The given files, or else those next to the logs; none if no entities are kept."""
        for file, kind in ((vectors, "entity"), (contexts, "context")):
            if file is not None and not entities:
                raise SettingsError(
                    f"{file} has {kind} vectors, but data.entities is 0; set how many entities of each title to keep",
                    hint="for example --set data.entities=5",
                )
        folders = dict.fromkeys(source.parent for source in sources) if entities else ()
        return cls(
            *(
                [file] if file else [folder / name for folder in folders if (folder / name).is_file()]
                for file, name in ((vectors, ENTITY_FILE), (contexts, CONTEXT_FILE))
            )
        )


class Titles(NamedTuple):
    """The titles of all stories, in the order of their rows from 1 on."""

    news_ids: Sequence[str]
    titles: Sequence[str]
    entities: Sequence[str | None]
    """MIND's JSON for each title."""
    words: Sequence[Sequence[str]]
    """The words of each story: its labels, then the words of its title."""


def write_entities(
    stories: Titles,
    times_shown: Array,
    writer: ArrayWriter,
    *,
    keep: int,
    length: int,
    files: EntityFiles,
    progress: Progress,
) -> dict[str, Any]:
    """Write news/word_entities, the entity that each of the first `length` words names, and entities/.

    At most `keep` entities of a title count, the first of its JSON. Returns the number of entities, of mentions, and of
    mentions that are found in the words of their title.
    """
    mentions = [parse_mentions(*story) for story in zip(stories.news_ids, stories.entities, strict=True)]
    if not any(mentions):
        raise LogError(f"data.entities is {keep}, but no title in these logs has an entity; leave it at 0")
    matched = [
        mentioned_words(title, story, before=len(words) - len(tokens(title)))
        for title, story, words in zip(stories.titles, mentions, stories.words, strict=True)
    ]
    named = [{mention.entity for mention, words in story if words.start < length} for story in matched]
    shown = set().union(*(story for times, story in zip(times_shown[1:], named, strict=True) if times))
    vectors = read_entity_vectors(files.vectors, set().union(*named), kind=f"an {ENTITY_FILE}, as MIND has it")
    rows = {entity: row for row, entity in enumerate(sorted(shown | vectors.keys()), start=1)}
    if not rows:
        raise LogError(f"data.entities is {keep}, but no word of a title shown in training names one; leave it at 0")
    contexts = read_entity_vectors(files.contexts, set(rows), kind=f"a {CONTEXT_FILE} with lines as in {ENTITY_FILE}")
    table = [[0] * length, *(word_entities(story, rows, keep=keep, length=length) for story in matched)]
    writer.array("news/word_entities", np.array(table, dtype=np.int32))
    writer.strings("entities/id", Strings.of(["", *rows]))
    for name, read in (("vector", vectors), ("context", contexts)):
        if read:
            writer.array(f"entities/{name}", _vector_table(read, rows))
    counts = [sum(map(len, titles)) for titles in (mentions, matched)]
    context_share = f", {len(contexts) / len(rows):.1%} with a context" if files.contexts else ""
    progress.note(f"{len(rows):,} entities, {len(vectors) / len(rows):.1%} of them with a vector{context_share}")
    progress.note(f"mentions of entities found in the words of titles: {counts[1]:,} of {counts[0]:,}")
    return {"entities": len(rows), "entity_mentions": counts[0], "entity_mentions_found": counts[1]}


def parse_mentions(news_id: str, text: str | None) -> list[Mention]:
    """The mentions of entities in MIND's JSON for a title (`dataset.mentions`); a JSON of other form is an error."""
    mentions = mentions_in(text)
    if mentions is None:
        raise _format_error(news_id, text or "")
    return mentions


def read_entity_vectors(files: Iterable[Path], wanted: set[str], *, kind: str) -> dict[str, NDArray[np.float32]]:
    """The vectors of the wanted entities; the first one for an entity with several. All vectors must have one size."""
    vectors: dict[str, NDArray[np.float32]] = {}
    size = None
    for file in files:
        for number, line in text_lines(file, kind):
            entity, *values = line.split() or [""]
            if not values:
                raise LogError(f"{file}:{number}: {entity[:40]!r} is not an entity and its vector")
            size = size or len(values)
            if len(values) != size:
                raise LogError(f"{file}:{number}: {entity!r} is followed by {len(values)} numbers, others by {size}")
            if entity in wanted and entity not in vectors:
                try:
                    vectors[entity] = np.array([float(value) for value in values], dtype=np.float32)
                except ValueError as error:
                    raise LogError(f"{file}:{number}: {entity!r} is not followed by {size} numbers") from error
    return vectors


def _vector_table(vectors: dict[str, NDArray[np.float32]], rows: dict[str, int]) -> NDArray[np.float32]:
    """(entities, size): zeros where no file has a vector."""
    table = np.zeros((len(rows) + 1, len(next(iter(vectors.values())))), dtype=np.float32)
    for entity, vector in vectors.items():
        table[rows[entity]] = vector
    return table


def _format_error(news_id: str, text: str) -> LogError:
    return LogError(
        f"news {news_id} has title_entities {text[:40]!r}, which is not a JSON list of entities with a WikidataId "
        "each, and SurfaceForms with OccurrenceOffsets; correct it, or leave data.entities at 0"
    )

"""Assign rows to the entities of titles, and write their vectors. Row 0 is padding.

An entity has a row if a title shown before the end of training contains it, or if a vector file has it, so that every
row has a vector that is trained or read from a file. Entities without a row are left out of titles.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array, ArrayWriter, Strings
from drpn.errors import LogError
from drpn.preparation.vectors import text_lines
from drpn.progress import Progress

ENTITY_FILE = "entity_embedding.vec"
"""MIND's file of entity vectors, next to news.tsv."""


def write_entities(
    news_ids: Sequence[str],
    texts: Sequence[str | None],
    times_shown: Array,
    writer: ArrayWriter,
    *,
    keep: int,
    files: Iterable[Path],
    progress: Progress,
) -> dict[str, Any]:
    """Write news/entities (the first `keep` of each title) and entities/; return the number of entities."""
    titles = [parse_entities(news_id, text) for news_id, text in zip(news_ids, texts, strict=True)]
    if not any(titles):
        raise LogError(f"data.entities is {keep}, but no title in these logs has an entity; leave it at 0")
    shown = {entity for times, title in zip(times_shown[1:], titles, strict=True) if times for entity in title}
    vectors = read_entity_vectors(files, {entity for title in titles for entity in title})
    ids = ["", *sorted(shown | vectors.keys())]
    rows = {entity: row for row, entity in enumerate(ids) if row}
    title_rows = np.zeros((len(titles) + 1, keep), dtype=np.int32)
    for row, title in enumerate(titles, start=1):
        entity_rows = [rows[entity] for entity in title if entity in rows][:keep]
        title_rows[row, : len(entity_rows)] = entity_rows
    writer.array("news/entities", title_rows)
    writer.strings("entities/id", Strings.of(ids))
    if vectors:
        writer.array("entities/vector", _vector_table(vectors, rows))
    progress.note(f"{len(rows):,} entities, {len(vectors) / max(len(rows), 1):.1%} of them with a vector")
    return {"entities": len(rows)}


def parse_entities(news_id: str, text: str | None) -> list[str]:
    """The Wikidata ids in MIND's JSON for a title, in order and without repetition."""
    if not text or not text.strip():
        return []
    try:
        entities = [entity["WikidataId"] for entity in json.loads(text)]
    except (ValueError, TypeError, KeyError) as error:
        raise _format_error(news_id, text) from error
    if not all(isinstance(entity, str) and entity for entity in entities):
        raise _format_error(news_id, text)
    return list(dict.fromkeys(entities))


def read_entity_vectors(files: Iterable[Path], wanted: set[str]) -> dict[str, NDArray[np.float32]]:
    """The vectors of the wanted entities; the first one for an entity with several. All vectors must have one size."""
    vectors: dict[str, NDArray[np.float32]] = {}
    size = None
    for file in files:
        for number, line in text_lines(file, "an entity_embedding.vec, as MIND has it"):
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
        "each; correct it, or leave data.entities at 0"
    )

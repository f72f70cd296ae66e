"""Entities of titles as rows, and their vectors. Row 0 is padding.

A row has every entity of a title shown up to the end of training, and every other one of which a file knows the vector:
no model ever reads a vector that nothing has given or taught it. What has no row is left out of titles.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array, ArrayWriter, Strings
from drpn.errors import LogError
from drpn.prepare.vectors import text_lines
from drpn.progress import Progress

ENTITY_FILE = "entity_embedding.vec"
"""What MIND calls the vectors of entities, beside its news."""


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
    """Write news/entities, the first `keep` of each title, and entities/; gives their number."""
    named = [entities_of(news_id, text) for news_id, text in zip(news_ids, texts, strict=True)]
    if not any(named):
        raise LogError(f"data.entities is {keep}, but no title of these logs names an entity; leave it at 0")
    shown = {entity for times, title in zip(times_shown[1:], named, strict=True) if times for entity in title}
    vectors = read_entity_vectors(files, {entity for title in named for entity in title})
    ids = ["", *sorted(shown | vectors.keys())]
    rows = {entity: row for row, entity in enumerate(ids) if row}
    coded = np.zeros((len(named) + 1, keep), dtype=np.int32)
    for row, title in enumerate(named, start=1):
        found = [rows[entity] for entity in title if entity in rows][:keep]
        coded[row, : len(found)] = found
    writer.array("news/entities", coded)
    writer.strings("entities/id", Strings.of(ids))
    if vectors:
        writer.array("entities/vector", _by_row(vectors, rows))
    progress.note(f"{len(rows):,} entities, vectors for {len(vectors) / max(len(rows), 1):.1%} of them")
    return {"entities": len(rows)}


def entities_of(news_id: str, text: str | None) -> list[str]:
    """The Wikidata ids in MIND's JSON of a title, each once, in their order."""
    if not text or not text.strip():
        return []
    try:
        entities = [entity["WikidataId"] for entity in json.loads(text)]
    except (ValueError, TypeError, KeyError) as error:
        raise _not_entities(news_id, text) from error
    if not all(isinstance(entity, str) and entity for entity in entities):
        raise _not_entities(news_id, text)
    return list(dict.fromkeys(entities))


def read_entity_vectors(files: Iterable[Path], wanted: set[str]) -> dict[str, NDArray[np.float32]]:
    """The vectors of the wanted entities; of one that stands twice the first. All files must agree on the size."""
    found: dict[str, NDArray[np.float32]] = {}
    size = None
    for file in files:
        for number, line in text_lines(file, "an entity_embedding.vec, as MIND has it"):
            entity, *values = line.split() or [""]
            if not values:
                raise LogError(f"{file}:{number}: {entity[:40]!r} is not an entity and its vector")
            size = size or len(values)
            if len(values) != size:
                raise LogError(f"{file}:{number}: {entity!r} is followed by {len(values)} numbers, others by {size}")
            if entity in wanted and entity not in found:
                try:
                    found[entity] = np.array([float(value) for value in values], dtype=np.float32)
                except ValueError as error:
                    raise LogError(f"{file}:{number}: {entity!r} is not followed by {size} numbers") from error
    return found


def _by_row(vectors: dict[str, NDArray[np.float32]], rows: dict[str, int]) -> NDArray[np.float32]:
    """(entities, size); zeros where no file has one."""
    table = np.zeros((len(rows) + 1, len(next(iter(vectors.values())))), dtype=np.float32)
    for entity, vector in vectors.items():
        table[rows[entity]] = vector
    return table


def _not_entities(news_id: str, text: str) -> LogError:
    return LogError(
        f"news {news_id} has title_entities {text[:40]!r}, which are no JSON list of entities with a WikidataId each; "
        "put them right, or leave data.entities at 0"
    )

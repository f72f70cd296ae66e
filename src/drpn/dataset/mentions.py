"""Find the words of a title that name an entity."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, zip_longest
from typing import NamedTuple

from drpn.dataset.vocabulary import token_spans, tokens


class Mention(NamedTuple):
    """A place of a title that names an entity."""

    entity: str
    """The id of the entity, such as Q80976 of Wikidata."""
    text: str
    """The name as the title has it, the surface form."""
    offset: int | None = None
    """The character of the title at which it starts; None if that is not known."""


def mentions_in(text: str | None) -> list[Mention] | None:
    """The mentions of entities in MIND's JSON for a title, in order; None if the JSON has another form.

    An entity has a WikidataId, and SurfaceForms with their OccurrenceOffsets; one without surface forms is a mention
    without a name.
    """
    if not text or not text.strip():
        return []
    try:
        entities = [
            (entity["WikidataId"], entity.get("SurfaceForms") or [""], entity.get("OccurrenceOffsets") or [])
            for entity in json.loads(text)
        ]
        mentions = [
            Mention(entity, name, offset)
            for entity, names, offsets in entities
            for name, offset in zip_longest(names, offsets[: len(names)])
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    valid = all(isinstance(names, list) for _, names, _ in entities) and all(
        isinstance(entity, str) and entity and isinstance(name, str) and isinstance(offset, int | None)
        for entity, name, offset in mentions
    )
    return mentions if valid else None


def mentioned_words(title: str, mentions: Iterable[Mention], *, before: int = 0) -> list[tuple[Mention, range]]:
    """Each mention whose name is in the title, with the positions of its words; `before` words precede the title's.

    The name is looked for at its offset. If it is not there, the nearest place counts where the title has all words of
    the name. Upper and lower case are the same.
    """
    spans = token_spans(title)
    words = [word for word, _, _ in spans]
    # offsets count characters of the title; lower-casing can turn one character into several
    starts = [0, *accumulate(len(character.lower()) for character in title)]
    matched = []
    for mention in mentions:
        name, offset = mention.text, -1 if mention.offset is None else mention.offset
        positions = range(0)
        if name and 0 <= offset < len(title) and title[offset : offset + len(name)].lower() == name.lower():
            positions = _overlapping(spans, starts[offset], starts[offset + len(name)])
        if not positions:
            expected = starts[min(max(offset, 0), len(title))]
            positions = _nearest(words, tokens(name), [abs(first - expected) for _, first, _ in spans])
        if positions:
            matched.append((mention, range(positions.start + before, positions.stop + before)))
    return matched


def word_entities(
    matched: Sequence[tuple[Mention, range]], rows: Mapping[str, int], *, keep: int, length: int
) -> list[int]:
    """The row of the entity that each of the first `length` words names; 0 for none.

    At most `keep` entities count, the first of those with a row. If two names share a word, the longer one has it; of
    two names of the same length, the first.
    """
    known = list(dict.fromkeys(mention.entity for mention, words in matched if words.start < length))
    kept = [entity for entity in known if entity in rows][:keep]
    entities, longest = [0] * length, [0] * length
    for mention, words in matched:
        for position in words if mention.entity in kept else ():
            if position < length and len(words) > longest[position]:
                entities[position], longest[position] = rows[mention.entity], len(words)
    return entities


def _overlapping(spans: Sequence[tuple[str, int, int]], start: int, end: int) -> range:
    """The words that the characters from `start` to `end` cover in whole or in part."""
    covered = [position for position, (_, first, last) in enumerate(spans) if first < end and last > start]
    return range(covered[0], covered[-1] + 1) if covered else range(0)


def _nearest(words: Sequence[str], name: Sequence[str], distances: Sequence[int]) -> range:
    """The place with the smallest distance at which `words` has all words of the name in a row; empty if none has."""
    last = len(words) - len(name) if name else -1
    places = [first for first in range(last + 1) if words[first : first + len(name)] == name]
    nearest = min(places, key=lambda place: distances[place], default=0)
    return range(nearest, nearest + len(name)) if places else range(0)

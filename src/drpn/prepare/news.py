"""What is known of each news by itself: its texts, words, category and vector."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from drpn.dataset.arrays import Array, ArrayWriter, Strings
from drpn.dataset.vocabulary import UNKNOWN, Vocabulary, title_words, tokens
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.prepare.entities import write_entities
from drpn.prepare.settings import DataSettings
from drpn.prepare.texts import strings
from drpn.prepare.titles import vectors_from_titles
from drpn.prepare.vectors import WordVectors, read_vectors
from drpn.progress import Progress

_TEXTS = ("news_id", "title", "abstract", "title_entities", "abstract_entities")
_LABELS = {"category": "categories", "subcategory": "subcategories"}


def write_news(
    engine: Engine,
    news: ir.Table,
    times_shown: Array,
    writer: ArrayWriter,
    settings: DataSettings,
    *,
    vectors: Path | None,
    entities: Iterable[Path],
    progress: Progress,
) -> dict[str, Any]:
    """Write news/, words/, entities/, categories/ and subcategories/; gives the statistics of the words."""
    ordered = news.order_by("news")
    table = pa.Table.from_batches(list(engine.rows(ordered)), schema=ordered.schema().to_pyarrow())
    for name in _TEXTS:
        if name in table.column_names and table[name].null_count < len(table):
            writer.strings(f"news/{name.removeprefix('news_')}", strings(table[name], padding=True))
    labels = [_write_labels(table, name, writer) for name in _LABELS]
    if "published" in table.column_names and table["published"].null_count < len(table):
        published = table["published"].to_numpy().astype("datetime64[us]")
        writer.array("news/published", np.concatenate([[np.datetime64("NaT", "us")], published]))
    if "vector" in table.column_names and table["vector"].null_count < len(table):
        writer.array("news/vector", _vectors(table))
    known = _write_words(table, labels, times_shown, writer, settings, vectors, progress)
    if settings.entities:
        ids, texts = table["news_id"].to_pylist(), _texts(table, "title_entities")
        known |= write_entities(
            ids, texts, times_shown, writer, keep=settings.entities, files=entities, progress=progress
        )
    return known


def _texts(table: pa.Table, name: str) -> list[str]:
    """A text for each news, empty where it has none."""
    texts = table[name].to_pylist() if name in table.column_names else [None] * len(table)
    return [text or "" for text in texts]


def _write_labels(table: pa.Table, name: str, writer: ArrayWriter) -> list[str | None]:
    """The category or subcategory of each news as a row of its names, 0 for none."""
    values = [text.strip() if text else "" for text in table[name].to_pylist()] if name in table.column_names else []
    names = ["", *sorted(set(values) - {""})]
    rows = {text: row for row, text in enumerate(names)}
    coded = np.zeros(len(table) + 1, dtype=np.int32)
    coded[1 : len(values) + 1] = [rows[text] for text in values]
    writer.array(f"news/{name}", coded)
    writer.strings(f"{_LABELS[name]}/name", Strings.of(names))
    return list(values) or [None] * len(table)


def _vectors(table: pa.Table) -> Array:
    """(news, size); zeros where a news has none."""
    column = table["vector"].to_pylist()
    sizes = {len(vector): row for row, vector in enumerate(column) if vector is not None}
    if len(sizes) > 1:
        names = ", ".join(f"news {table['news_id'][row]} has {size}" for size, row in sorted(sizes.items()))
        raise LogError(f"vectors must be of one length, but {names}")
    values = np.zeros((len(column) + 1, next(iter(sizes))), dtype=np.float32)
    for row, vector in enumerate(column, start=1):
        if vector is not None:
            values[row] = vector
    return values


def _write_words(
    table: pa.Table,
    labels: list[list[str | None]],
    times_shown: Array,
    writer: ArrayWriter,
    settings: DataSettings,
    vectors: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    titles = table["title"].to_pylist()
    per_news = [
        title_words(title, names if settings.category_words else ())
        for title, *names in zip(titles, *labels, strict=True)
    ]
    abstracts = _abstracts(table, settings.abstracts) if settings.abstracts else []
    vocabulary = Vocabulary.of(per_news, abstracts)
    rows = vocabulary.encode_all(per_news, settings.words)
    seen = np.zeros(len(vocabulary), dtype=np.bool_)
    seen[rows[times_shown > 0].ravel()] = True
    if settings.abstracts:
        of_abstracts = vocabulary.encode_all(abstracts, settings.abstracts)
        seen[of_abstracts[times_shown > 0].ravel()] = True
        writer.array("news/abstract_words", of_abstracts)
    seen[: UNKNOWN + 1] = False
    writer.array("news/words", rows)
    writer.array("words/seen", seen)
    writer.strings("words/word", Strings.of(vocabulary.words))
    untitled = sum(not title.strip() for title in titles)
    if untitled:
        progress.note(f"{untitled} news have no title")
    lengths = [len(tokens(title)) for title in titles]
    in_titles = len(set(itertools.chain.from_iterable(per_news)))
    known: dict[str, Any] = {"words": in_titles, "mean_title_words": sum(lengths) / len(lengths)}
    if settings.abstracts:
        known["words_of_abstracts_alone"] = len(vocabulary) - UNKNOWN - 1 - in_titles
    if vectors is not None:
        known |= _write_vectors(read_vectors(vectors, vocabulary), rows, writer, progress)
    elif settings.vector_size:
        shown = rows[times_shown > 0]  # what came after training must not shape what training starts from
        of_titles = vectors_from_titles(shown, words=in_titles + UNKNOWN + 1, size=settings.vector_size)
        of_titles = of_titles.padded(len(vocabulary))
        known |= _write_vectors(of_titles, rows, writer, progress)
    return known


def _abstracts(table: pa.Table, length: int) -> list[list[str]]:
    """The first words of each abstract."""
    abstracts = [tokens(text)[:length] for text in _texts(table, "abstract")]
    if not any(abstracts):
        raise LogError(f"data.abstracts is {length}, but no news of these logs has an abstract; leave it at 0")
    return abstracts


def _write_vectors(found: WordVectors, rows: Array, writer: ArrayWriter, progress: Progress) -> dict[str, Any]:
    writer.array("words/vector", found.vectors)
    writer.array("words/has_vector", found.found)
    of_words, of_titles = (
        float(known.mean()) if len(known) else 0.0
        for known in (found.found[UNKNOWN + 1 :], found.found[rows[rows > UNKNOWN]])
    )
    progress.note(
        f"vectors of {found.vectors.shape[1]} numbers for {of_words:.1%} of the words, {of_titles:.1%} of the text"
    )
    return {"words_with_vector": round(of_words, 4), "text_with_vector": round(of_titles, 4)}

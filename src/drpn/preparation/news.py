"""Write the content of stories: texts, words, categories, entities and vectors."""

import itertools
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from drpn.dataset.arrays import Array, ArrayWriter, Strings
from drpn.dataset.vocabulary import UNKNOWN, Vocabulary, title_words, tokens
from drpn.errors import LogError
from drpn.logs.engines.engine import Engine
from drpn.preparation.entities import EntityFiles, Titles, write_entities
from drpn.preparation.settings import DataSettings
from drpn.preparation.texts import strings
from drpn.preparation.titles import vectors_from_titles
from drpn.preparation.vectors import WordVectors, read_vectors
from drpn.progress import Progress

_TEXTS = ("news_id", "title", "abstract", "title_entities", "abstract_entities")
_PAPER_WORDS = 15
"""Words of a title, category and subcategory included, that DRPN reads in its paper."""
_LABELS = {"category": "categories", "subcategory": "subcategories"}


def write_news(
    engine: Engine,
    news: ir.Table,
    times_shown: Array,
    writer: ArrayWriter,
    settings: DataSettings,
    *,
    vectors: Path | None,
    entities: EntityFiles,
    progress: Progress,
) -> dict[str, Any]:
    """Write news/, words/, entities/, categories/ and subcategories/; return word and entity statistics."""
    ordered = news.order_by("news")
    table = pa.Table.from_batches(list(engine.stream(ordered)), schema=ordered.schema().to_pyarrow())
    for name in _TEXTS:
        if name in table.column_names and table[name].null_count < len(table):
            writer.strings(f"news/{name.removeprefix('news_')}", strings(table[name], padding=True))
    labels = [_write_labels(table, name, writer) for name in _LABELS]
    if "published" in table.column_names and table["published"].null_count < len(table):
        published = table["published"].to_numpy().astype("datetime64[us]")
        writer.array("news/published", np.concatenate([[np.datetime64("NaT", "us")], published]))
    if "vector" in table.column_names and table["vector"].null_count < len(table):
        writer.array("news/vector", _dense_vectors(table))
    titles = table["title"].to_pylist()
    labelled = [title_words(title, names) for title, *names in zip(titles, *labels, strict=True)]
    words = labelled if settings.category_words else [tokens(title) for title in titles]
    statistics = _write_words(table, words, times_shown, writer, settings, vectors, progress)
    statistics["mean_title_words_with_labels"] = sum(map(len, labelled)) / len(titles)
    statistics["mean_title_words_of_15"] = sum(min(len(words), _PAPER_WORDS) for words in labelled) / len(titles)
    if settings.entities:
        statistics |= write_entities(
            Titles(table["news_id"].to_pylist(), titles, _texts(table, "title_entities"), words),
            times_shown,
            writer,
            keep=settings.entities,
            length=settings.words,
            files=entities,
            progress=progress,
        )
    return statistics


def _texts(table: pa.Table, name: str) -> list[str]:
    """The text column `name`, with the empty text for null or a missing column."""
    texts = table[name].to_pylist() if name in table.column_names else [None] * len(table)
    return [text or "" for text in texts]


def _write_labels(table: pa.Table, name: str, writer: ArrayWriter) -> list[str | None]:
    """Write the category or subcategory of each story as a row of its names, 0 for none; return the names by story."""
    values = [text.strip() if text else "" for text in table[name].to_pylist()] if name in table.column_names else []
    names = ["", *sorted(set(values) - {""})]
    rows = {text: row for row, text in enumerate(names)}
    label_rows = np.zeros(len(table) + 1, dtype=np.int32)
    label_rows[1 : len(values) + 1] = [rows[text] for text in values]
    writer.array(f"news/{name}", label_rows)
    writer.strings(f"{_LABELS[name]}/name", Strings.of(names))
    return list(values) or [None] * len(table)


def _dense_vectors(table: pa.Table) -> Array:
    """(news, size): zeros for a story without a vector."""
    vectors = table["vector"].to_pylist()
    sizes = {len(vector): row for row, vector in enumerate(vectors) if vector is not None}
    if len(sizes) > 1:
        examples = ", ".join(f"news {table['news_id'][row]} has {size}" for size, row in sorted(sizes.items()))
        raise LogError(f"all vectors must have the same length, but {examples}")
    values = np.zeros((len(vectors) + 1, next(iter(sizes))), dtype=np.float32)
    for row, vector in enumerate(vectors, start=1):
        if vector is not None:
            values[row] = vector
    return values


def _write_words(
    table: pa.Table,
    story_words: list[list[str]],
    times_shown: Array,
    writer: ArrayWriter,
    settings: DataSettings,
    vectors: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    """Write the words of stories and abstracts, the vocabulary and its vectors; return word statistics."""
    titles = table["title"].to_pylist()
    abstracts = _abstract_words(table, settings.abstracts) if settings.abstracts else []
    vocabulary = Vocabulary.of(story_words, abstracts)
    rows = vocabulary.encode_all(story_words, settings.words)
    if settings.abstracts:
        writer.array("news/abstract_words", vocabulary.encode_all(abstracts, settings.abstracts))
    writer.array("news/words", rows)
    writer.strings("words/word", Strings.of(vocabulary.words))
    untitled = sum(not title.strip() for title in titles)
    if untitled:
        progress.note(f"stories without a title: {untitled}")
    words_in_titles = len(set(itertools.chain.from_iterable(story_words)))
    statistics: dict[str, Any] = {
        "words": words_in_titles,
        "mean_title_words": sum(len(tokens(title)) for title in titles) / len(titles),
    }
    if settings.abstracts:
        statistics["words_of_abstracts_alone"] = len(vocabulary) - UNKNOWN - 1 - words_in_titles
    if vectors is not None:
        statistics |= _write_word_vectors(read_vectors(vectors, vocabulary), rows, writer, progress)
    elif settings.vector_size:
        shown = rows[times_shown > 0]  # stories first shown after training must not influence the initial vectors
        word_vectors = vectors_from_titles(shown, words=words_in_titles + UNKNOWN + 1, size=settings.vector_size)
        statistics |= _write_word_vectors(word_vectors.padded(len(vocabulary)), rows, writer, progress)
    return statistics


def _abstract_words(table: pa.Table, length: int) -> list[list[str]]:
    """The first `length` words of each abstract."""
    abstracts = [tokens(text)[:length] for text in _texts(table, "abstract")]
    if not any(abstracts):
        raise LogError(f"data.abstracts is {length}, but no story in these logs has an abstract; leave it at 0")
    return abstracts


def _write_word_vectors(words: WordVectors, rows: Array, writer: ArrayWriter, progress: Progress) -> dict[str, Any]:
    writer.array("words/vector", words.vectors)
    share_of_words, share_of_text = (
        float(has_vector.mean()) if len(has_vector) else 0.0
        for has_vector in (words.has_vector[UNKNOWN + 1 :], words.has_vector[rows[rows > UNKNOWN]])
    )
    progress.note(
        f"word vectors of size {words.vectors.shape[1]} for {share_of_words:.1%} of the words, "
        f"{share_of_text:.1%} of the text"
    )
    return {"words_with_vector": round(share_of_words, 4), "text_with_vector": round(share_of_text, 4)}

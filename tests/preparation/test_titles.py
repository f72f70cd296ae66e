"""Word vectors from titles: similar for words of the same titles, and independent of titles shown after training."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from drpn.dataset.folder import Dataset
from drpn.dataset.vocabulary import UNKNOWN
from drpn.preparation.settings import DataSettings
from drpn.preparation.titles import vectors_from_titles
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

TOPICS, WORDS_OF_TOPIC = 6, 10
FIRST = UNKNOWN + 1


def titles_of_topics(count: int = 400) -> NDArray[np.int32]:
    """Titles of five words from the ten words of one topic, followed by padding."""
    rng = np.random.default_rng(0)
    topic = rng.integers(TOPICS, size=(count, 1))
    words = FIRST + topic * WORDS_OF_TOPIC + rng.integers(WORDS_OF_TOPIC, size=(count, 5))
    return np.pad(words, [(0, 0), (0, 3)]).astype(np.int32)


def vectors_by_svd(titles: NDArray[np.int32], words: int, size: int) -> NDArray[np.float64]:
    """The vectors from a dense matrix and numpy's singular value decomposition."""
    counts = np.zeros((len(titles), words))
    for row, title in enumerate(titles):
        for word in title[title > UNKNOWN]:
            counts[row, word] += 1
    weights = counts * (np.log((len(titles) + 1) / ((counts > 0).sum(0) + 1)) + 1)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    _, values, right = np.linalg.svd(weights, full_matrices=False)
    vectors = right[:size].T * values[:size]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def test_vectors_match_a_dense_decomposition() -> None:
    titles, words = titles_of_topics(), FIRST + TOPICS * WORDS_OF_TOPIC
    vectors = vectors_from_titles(titles, words=words, size=TOPICS).vectors[FIRST:]
    expected = vectors_by_svd(titles, words, TOPICS)[FIRST:]
    # singular vectors have no sign, so compare inner products; four iterations are approximate
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=0.02)


def test_words_of_one_topic_are_similar() -> None:
    words = FIRST + TOPICS * WORDS_OF_TOPIC
    vectors = vectors_from_titles(titles_of_topics(), words=words, size=TOPICS).vectors[FIRST:]
    similarity = (vectors @ vectors.T).reshape(TOPICS, WORDS_OF_TOPIC, TOPICS, WORDS_OF_TOPIC)
    same_topic = np.stack([similarity[topic, :, topic] for topic in range(TOPICS)])
    other_topic = np.stack([similarity[topic, :, (topic + 1) % TOPICS] for topic in range(TOPICS)])
    assert same_topic.min() > 0.9
    assert other_topic.max() < 0.1


def test_words_outside_titles_have_no_vector() -> None:
    titles = titles_of_topics()
    words = FIRST + TOPICS * WORDS_OF_TOPIC + 1
    result = vectors_from_titles(titles, words=words, size=8)
    assert result.has_vector[FIRST:-1].all()
    assert not result.has_vector[[0, UNKNOWN, -1]].any()
    assert not result.vectors[~result.has_vector].any()
    np.testing.assert_allclose(np.linalg.norm(result.vectors[result.has_vector], axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("titles", [np.zeros((0, 4)), np.zeros((3, 4)), np.full((2, 4), UNKNOWN)])
def test_without_known_words_there_are_no_vectors(titles: NDArray[np.float64]) -> None:
    result = vectors_from_titles(titles.astype(np.int32), words=5, size=8)
    assert result.vectors.shape == (5, 8)
    assert not result.vectors.any()
    assert not result.has_vector.any()


def test_dimensions_beyond_the_rank_are_zero() -> None:
    vectors = vectors_from_titles(np.array([[2, 3, 0], [3, 4, 2]], dtype=np.int32), words=5, size=30).vectors
    assert vectors.shape == (5, 30)
    assert vectors[2:, :2].any()
    assert not vectors[:, 2:].any()


def test_same_titles_give_the_same_bytes() -> None:
    titles = titles_of_topics()
    first, second = (vectors_from_titles(titles, words=80, size=16).vectors for _ in range(2))
    assert first.tobytes() == second.tobytes()


def prepared(tmp_path: Path, last_title: str, **settings: int) -> Dataset:
    """Prepare three days of logs; N4 is shown on the last day only, which is for evaluation."""
    lines = [
        MindLine("1", "U1", "11/9/2019 8:00:00 AM", "N1-1 N2-0"),
        MindLine("2", "U2", "11/10/2019 9:00:00 AM", "N2-1 N3-0"),
        MindLine("3", "U1", "11/11/2019 8:00:00 AM", "N3-0 N4-1"),
        MindLine("4", "U2", "11/11/2019 9:00:00 AM", "N1-0 N4-1"),
    ]
    logs = write_mind(tmp_path / last_title.replace(" ", ""), lines)
    file = next(logs.rglob("news.tsv"))
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    for row in rows:
        if row[0] == "N4":
            row[3] = last_title
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    return prepare(logs, tmp_path / f"{last_title} data", DataSettings(**settings))


def vector_of(dataset: Dataset, word: str) -> NDArray[np.float32]:
    vector: NDArray[np.float32] = dataset.arrays.array("words/vector")[dataset.vocabulary.rows[word]]
    return vector


def test_titles_shown_after_training_do_not_change_vectors(tmp_path: Path) -> None:
    first, second = (
        prepared(tmp_path, title, vector_size=4) for title in ("Quite another story", "Nothing of the kind")
    )
    shared = set(first.vocabulary.rows) & set(second.vocabulary.rows)
    assert len(shared) > 3
    for word in shared:
        np.testing.assert_allclose(vector_of(first, word), vector_of(second, word), atol=1e-6)
    assert not vector_of(first, "quite").any()


def test_vector_size_zero_writes_no_vectors(tmp_path: Path) -> None:
    assert "words/vector" not in prepared(tmp_path, "A title", vector_size=0).arrays


def test_log_without_words_has_no_vectors_and_valid_statistics(tmp_path: Path) -> None:
    lines = [
        MindLine(str(number), "U1", f"11/{day}/2019 {8 + number}:00:00 AM", "N1-1 N2-0")
        for number, day in enumerate((9, 10, 11, 11))
    ]
    logs = write_mind(tmp_path / "logs", lines)
    for file in logs.rglob("news.tsv"):
        rows = [line.split("\t") for line in file.read_text().splitlines()]
        file.write_text("".join("\t".join([row[0], "", "", "", *row[4:]]) + "\n" for row in rows))
    statistics = prepare(logs, tmp_path / "data").statistics
    assert statistics["words"] == 0
    assert statistics["words_with_vector"] == statistics["text_with_vector"] == 0.0

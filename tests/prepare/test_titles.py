"""Word vectors from titles: alike where words stand in the same titles, and from nothing that came after training."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from drpn.dataset.folder import Dataset
from drpn.dataset.vocabulary import UNKNOWN
from drpn.prepare.settings import DataSettings
from drpn.prepare.titles import vectors_from_titles
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

TOPICS, WORDS_OF_TOPIC = 6, 10
FIRST = UNKNOWN + 1


def titles_of_topics(count: int = 400) -> NDArray[np.int32]:
    """Titles of five words, each from the ten words of one topic, and padding behind them."""
    rng = np.random.default_rng(0)
    topic = rng.integers(TOPICS, size=(count, 1))
    words = FIRST + topic * WORDS_OF_TOPIC + rng.integers(WORDS_OF_TOPIC, size=(count, 5))
    return np.pad(words, [(0, 0), (0, 3)]).astype(np.int32)


def by_numpy(titles: NDArray[np.int32], words: int, size: int) -> NDArray[np.float64]:
    """The same by a dense matrix and numpy's singular value decomposition."""
    counts = np.zeros((len(titles), words))
    for row, title in enumerate(titles):
        for word in title[title > UNKNOWN]:
            counts[row, word] += 1
    weights = counts * (np.log((len(titles) + 1) / ((counts > 0).sum(0) + 1)) + 1)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    _, values, right = np.linalg.svd(weights, full_matrices=False)
    vectors = right[:size].T * values[:size]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def test_the_vectors_are_those_of_a_dense_decomposition() -> None:
    titles, words = titles_of_topics(), FIRST + TOPICS * WORDS_OF_TOPIC
    found = vectors_from_titles(titles, words=words, size=TOPICS).vectors[FIRST:]
    expected = by_numpy(titles, words, TOPICS)[FIRST:]
    # a singular vector may point either way: inner products are the same, as far as four rounds have come
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=0.02)


def test_words_of_one_topic_are_alike() -> None:
    words = FIRST + TOPICS * WORDS_OF_TOPIC
    vectors = vectors_from_titles(titles_of_topics(), words=words, size=TOPICS).vectors[FIRST:]
    alike = (vectors @ vectors.T).reshape(TOPICS, WORDS_OF_TOPIC, TOPICS, WORDS_OF_TOPIC)
    same = np.stack([alike[topic, :, topic] for topic in range(TOPICS)])
    other = np.stack([alike[topic, :, (topic + 1) % TOPICS] for topic in range(TOPICS)])
    assert same.min() > 0.9
    assert other.max() < 0.1


def test_a_word_of_no_title_has_no_vector() -> None:
    titles = titles_of_topics()
    words = FIRST + TOPICS * WORDS_OF_TOPIC + 1
    found = vectors_from_titles(titles, words=words, size=8)
    assert found.found[FIRST:-1].all()
    assert not found.found[[0, UNKNOWN, -1]].any()
    assert not found.vectors[~found.found].any()
    np.testing.assert_allclose(np.linalg.norm(found.vectors[found.found], axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("titles", [np.zeros((0, 4)), np.zeros((3, 4)), np.full((2, 4), UNKNOWN)])
def test_no_titles_no_vectors(titles: NDArray[np.float64]) -> None:
    found = vectors_from_titles(titles.astype(np.int32), words=5, size=8)
    assert found.vectors.shape == (5, 8)
    assert not found.vectors.any()
    assert not found.found.any()


def test_fewer_words_than_numbers_leave_zeros_behind() -> None:
    found = vectors_from_titles(np.array([[2, 3, 0], [3, 4, 2]], dtype=np.int32), words=5, size=30)
    assert found.vectors.shape == (5, 30)
    assert found.vectors[2:, :2].any()
    assert not found.vectors[:, 2:].any()


def test_the_same_titles_give_the_same_bytes() -> None:
    titles = titles_of_topics()
    one, two = (vectors_from_titles(titles, words=80, size=16).vectors for _ in range(2))
    assert one.tobytes() == two.tobytes()


def prepared(tmp_path: Path, last_title: str, **settings: int) -> Dataset:
    """Three days; N4 is shown on the last one alone, which is for evaluation."""
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
    vectors: NDArray[np.float32] = dataset.arrays.array("words/vector")[dataset.vocabulary.rows[word]]
    return vectors


def test_what_came_after_training_shapes_no_vector(tmp_path: Path) -> None:
    one, two = (prepared(tmp_path, title, vector_size=4) for title in ("Quite another story", "Nothing of the kind"))
    shared = set(one.vocabulary.rows) & set(two.vocabulary.rows)
    assert len(shared) > 3
    for word in shared:
        np.testing.assert_allclose(vector_of(one, word), vector_of(two, word), atol=1e-6)
    assert not vector_of(one, "quite").any()


def test_vectors_can_be_left_out(tmp_path: Path) -> None:
    assert "words/vector" not in prepared(tmp_path, "A title", vector_size=0).arrays


def test_a_log_without_words_has_no_vectors_and_sound_statistics(tmp_path: Path) -> None:
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

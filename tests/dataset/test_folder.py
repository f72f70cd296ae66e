"""The dataset folder: reproducible, and readable without the query engine."""

import subprocess
import sys
from pathlib import Path

import ibis
import numpy as np
import pytest

from drpn.dataset.arrays import Strings
from drpn.dataset.folder import Dataset
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.graph import group_readers, neighbour_users, neighbours
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.state.profile_expressions import feedback_matrix, impression_events, profile_sequences


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newsroom") / "logs"
    simulate(folder, SimulationSettings(users=150, news=600, seed=3))
    return folder


@pytest.fixture(scope="module")
def plain(newsroom: Path) -> Dataset:
    """The newsroom, prepared with the default settings."""
    return prepare(newsroom, newsroom.parent / "plain")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_same_logs_and_settings_give_the_same_bytes(newsroom: Path, plain: Dataset, tmp_path: Path) -> None:
    again = prepare(newsroom, tmp_path / "again", memory="500MB")
    assert contents(plain.path) == contents(again.path)
    other = prepare(newsroom, tmp_path / "other", DataSettings(neighbours=3))
    assert contents(plain.path) != contents(other.path)


def test_manifest_contains_no_absolute_paths(newsroom: Path, plain: Dataset) -> None:
    text = (plain.path / "manifest.json").read_text()
    assert plain.path.is_relative_to(newsroom.parent)
    assert str(newsroom.parent) not in text
    assert '"train/news.tsv"' in text


def test_word_vectors_and_their_coverage_are_stored(newsroom: Path, plain: Dataset, tmp_path: Path) -> None:
    words = plain.vocabulary.words[2:12]
    (tmp_path / "glove.txt").write_text("".join(f"{word} {row} 0.5\n" for row, word in enumerate(words)))
    dataset = prepare(newsroom, tmp_path / "data", vectors=tmp_path / "glove.txt")
    assert dataset.arrays.array("words/vector")[2:12, 0].tolist() == list(range(10))
    assert dataset.statistics["words_with_vector"] == pytest.approx(10 / dataset.statistics["words"], abs=1e-4)


def test_optional_arrays_do_not_change_the_others(newsroom: Path, plain: Dataset, tmp_path: Path) -> None:
    dataset = prepare(newsroom, tmp_path / "more", DataSettings(abstracts=8, user_neighbours=3))
    before, more = plain.arrays.checksums, dataset.arrays.checksums
    assert more.keys() - before.keys() == {"news/abstract_words.npy", "users/neighbours.npy"}
    changed = {name for name in before if before[name] != more[name]}
    assert changed == {f"words/{name}.npy" for name in ("word.offsets", "word.utf8", "vector")}
    # words that occur only in abstracts come after those of titles, which keep their rows and vectors
    title_words = len(plain.vocabulary)
    assert dataset.vocabulary.words[:title_words] == plain.vocabulary.words
    assert len(dataset.vocabulary) > title_words
    vectors = dataset.arrays.array("words/vector")
    assert np.array_equal(vectors[:title_words], plain.arrays.array("words/vector"))
    assert not vectors[title_words:].any()


def test_category_words_are_optional(newsroom: Path, plain: Dataset, tmp_path: Path) -> None:
    without = prepare(newsroom, tmp_path / "b", DataSettings(category_words=False))
    assert plain.vocabulary.words[plain.news_words[1, 0]] == plain.category(1).lower()
    assert without.vocabulary.words[without.news_words[1, 0]] == without.titles[1].split()[0].strip(",:").lower()


def test_folder_opens_without_the_query_engine(plain: Dataset) -> None:
    """As on a machine with only the packages that training needs."""
    code = f"""
import sys
for name in ("ibis", "duckdb", "pyarrow", "pandas", "matplotlib", "fastapi", "pydantic"):
    sys.modules[name] = None
from pathlib import Path
from drpn.dataset.folder import Dataset
data = Dataset.open(Path({str(plain.path)!r}))
print(len(data.impressions("train")), data.vocabulary.words[2], data.titles[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 0


def test_arrays_are_memory_maps(plain: Dataset) -> None:
    dataset = Dataset.open(plain.path)
    assert isinstance(dataset.clicked, np.memmap)
    assert isinstance(dataset.impressions("test").candidates, np.memmap)


def test_strings_round_trip() -> None:
    texts = ["", "ærlig", "", "日本", "tab\tand\nline"]
    strings = Strings.of(texts)
    assert list(strings) == texts
    assert [strings[row] for row in range(len(strings))] == texts
    assert list(Strings.of([])) == []
    with pytest.raises(IndexError):
        strings[5]


@pytest.mark.parametrize("kind", ["co-click", "consecutive"])
def test_expressions_compile_to_spark_sql(kind: str) -> None:
    """Compiled only; Spark itself is not needed."""
    shown = ibis.table({"impression": "int64", "news": "int32", "clicked": "bool", "order": "int32"}, name="shown")
    users = ibis.table({"impression": "int64", "user": "int32"}, name="users")
    feedback = feedback_matrix(impression_events(shown, users))
    for expression in (
        feedback,
        profile_sequences(feedback, clicked=True, keep=30),
        neighbours(feedback, kind=kind, keep=5),
        neighbour_users(group_readers(feedback), range(1, 9), keep=5),
    ):
        assert "SELECT" in ibis.to_sql(expression, dialect="pyspark")

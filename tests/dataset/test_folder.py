"""The dataset folder: reproducible, light to open, refusing what is not its own."""

import subprocess
import sys
from pathlib import Path

import ibis
import numpy as np
import pytest

from drpn.dataset.arrays import Strings
from drpn.dataset.folder import Dataset
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.prepare.graph import groups_of_readers, neighbour_users, neighbours
from drpn.prepare.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.state.profile_expressions import feedback_matrix, impression_events, profile_sequences


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newsroom") / "logs"
    simulate(folder, SimulationSettings(users=150, news=600, seed=3))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_logs_and_settings_give_the_same_bytes(newsroom: Path, tmp_path: Path) -> None:
    first = prepare(newsroom, tmp_path / "a")
    second = prepare(newsroom, tmp_path / "b", memory="500MB")
    assert contents(first.path) == contents(second.path)
    third = prepare(newsroom, tmp_path / "c", DataSettings(neighbours=3))
    assert contents(first.path) != contents(third.path)


def test_neither_the_time_nor_the_place_of_preparing_is_in_the_manifest(newsroom: Path, tmp_path: Path) -> None:
    text = (prepare(newsroom, tmp_path / "a").path / "manifest.json").read_text()
    assert str(tmp_path) not in text
    assert str(newsroom.parent) not in text
    assert '"train/news.tsv"' in text


def test_vectors_are_kept_and_their_coverage_is_told(newsroom: Path, tmp_path: Path) -> None:
    plain = prepare(newsroom, tmp_path / "plain")
    words = plain.vocabulary.words[2:12]
    (tmp_path / "glove.txt").write_text("".join(f"{word} {row} 0.5\n" for row, word in enumerate(words)))
    dataset = prepare(newsroom, tmp_path / "data", vectors=tmp_path / "glove.txt")
    assert dataset.arrays.array("words/vector")[2:12, 0].tolist() == list(range(10))
    assert dataset.arrays.array("words/has_vector").sum() == 10
    assert dataset.statistics["words_with_vector"] == pytest.approx(10 / dataset.statistics["words"], abs=1e-4)


def test_what_models_ask_for_is_added_and_changes_nothing_else(newsroom: Path, tmp_path: Path) -> None:
    plain = prepare(newsroom, tmp_path / "plain").arrays.checksums
    dataset = prepare(newsroom, tmp_path / "more", DataSettings(abstracts=8, user_neighbours=3))
    more = dataset.arrays.checksums
    assert more.keys() - plain.keys() == {"news/abstract_words.npy", "users/neighbours.npy"}
    changed = {name for name in plain if plain[name] != more[name]}
    assert changed == {f"words/{name}.npy" for name in ("word.offsets", "word.utf8", "seen", "vector", "has_vector")}
    # words of abstracts alone stand behind those of titles, which keep their rows and vectors
    before = Dataset.open(tmp_path / "plain")
    known = len(before.vocabulary)
    assert dataset.vocabulary.words[:known] == before.vocabulary.words
    assert len(dataset.vocabulary) > known
    vectors = dataset.arrays.array("words/vector")
    assert np.array_equal(vectors[:known], before.arrays.array("words/vector"))
    assert not vectors[known:].any()


def test_category_words_can_be_left_out(newsroom: Path, tmp_path: Path) -> None:
    with_them = prepare(newsroom, tmp_path / "a")
    without = prepare(newsroom, tmp_path / "b", DataSettings(category_words=False))
    first = with_them.vocabulary.words[with_them.news_words[1, 0]]
    assert first == with_them.category(1).lower()
    assert without.vocabulary.words[without.news_words[1, 0]] == without.titles[1].split()[0].strip(",:").lower()


def test_words_seen_in_training_are_marked(newsroom: Path, tmp_path: Path) -> None:
    dataset = prepare(newsroom, tmp_path / "a")
    shown = dataset.arrays.array("news/times_shown") > 0
    seen = dataset.arrays.array("words/seen")
    assert set(np.flatnonzero(seen)) == set(np.unique(dataset.news_words[shown])) - {0, 1}
    assert 0 < seen.sum() < len(seen)


def test_a_folder_opens_without_the_query_engine(newsroom: Path, tmp_path: Path) -> None:
    """On a machine that has only what training needs."""
    prepare(newsroom, tmp_path / "data")
    code = f"""
import sys
for name in ("ibis", "duckdb", "pyarrow", "pandas", "matplotlib", "fastapi", "pydantic"):
    sys.modules[name] = None
from pathlib import Path
from drpn.dataset.folder import Dataset
data = Dataset.open(Path({str(tmp_path / "data")!r}))
print(len(data.impressions("train")), data.vocabulary.words[2], data.titles[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 0


def test_arrays_are_memory_maps(newsroom: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(prepare(newsroom, tmp_path / "a").path)
    assert isinstance(dataset.clicked, np.memmap)
    assert isinstance(dataset.impressions("test").candidates, np.memmap)


def test_strings_come_back_as_they_were() -> None:
    texts = ["", "ærlig", "", "日本", "tab\tand\nline"]
    kept = Strings.of(texts)
    assert list(kept) == texts
    assert [kept[row] for row in range(len(kept))] == texts
    assert list(Strings.of([])) == []
    with pytest.raises(IndexError):
        kept[5]


@pytest.mark.parametrize("kind", ["co-click", "consecutive"])
def test_the_expressions_can_be_put_to_spark(kind: str) -> None:
    """The same definitions in another engine's SQL, without that engine."""
    shown = ibis.table({"impression": "int64", "news": "int32", "clicked": "bool", "order": "int32"}, name="shown")
    users = ibis.table({"impression": "int64", "user": "int32"}, name="users")
    feedback = feedback_matrix(impression_events(shown, users))
    for expression in (
        feedback,
        profile_sequences(feedback, clicked=True, keep=30),
        neighbours(feedback, kind=kind, keep=5),
        neighbour_users(groups_of_readers(feedback), range(1, 9), keep=5),
    ):
        assert "SELECT" in ibis.to_sql(expression, dialect="pyspark")

"""A dataset that is cut to the first words and the newest stories equals one that holds no more."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpn.dataset.folder import Dataset
from drpn.dataset.limits import newest
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare

FEW = {"words": 6, "clicked": 2, "skipped": 5, "neighbours": 3}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    """The same logs, prepared with many and with few words, clicks and skips."""
    folder: Path = tmp_path_factory.mktemp("newsroom")
    simulate(folder / "logs", SimulationSettings(users=60, news=1_500))
    few, many = DataSettings(vector_size=0, user_neighbours=3, **FEW), DataSettings(vector_size=0, user_neighbours=8)
    return prepare(folder / "logs", folder / "many", many), prepare(folder / "logs", folder / "few", few)


def test_every_array_equals_that_of_a_folder_with_fewer_columns(folders: tuple[Dataset, Dataset]) -> None:
    many, few = folders
    limited = many.limited(**FEW)
    # no model reads the profiles at the end of the log before they are in a bundle
    names = [name.removesuffix(".npy") for name in few.arrays.checksums if not name.startswith("latest/")]
    assert {"news/words", "users/clicked", "users/skipped", "users/clicked_opinion"} <= {*names}
    assert {"news/neighbours", "users/neighbours"} <= {*names}
    assert many.neighbours[:, 3:].any()
    for name in names:
        np.testing.assert_array_equal(limited.arrays.array(name), few.arrays.array(name), err_msg=name)
    assert np.array_equal(limited.clicked, few.clicked)
    assert not np.array_equal(few.clicked, many.clicked[:, :2])  # the oldest would be the wrong ones


def test_one_limit_leaves_the_rest_as_it_is(folders: tuple[Dataset, Dataset]) -> None:
    many, few = folders
    limited = many.limited(skipped=FEW["skipped"])
    assert np.array_equal(limited.skipped, few.skipped)
    assert np.array_equal(limited.clicked, many.clicked)
    assert np.array_equal(limited.news_words, many.news_words)


def test_without_a_limit_it_is_the_same_dataset(folders: tuple[Dataset, Dataset]) -> None:
    many, _ = folders
    assert many.limited() is many
    same = many.limited(words=99, clicked=99, skipped=99)
    assert np.array_equal(same.clicked, many.clicked)
    assert np.array_equal(same.news_words, many.news_words)


@given(st.lists(st.integers(0, 6), max_size=8), st.integers(1, 8))
def test_the_newest_are_the_last_before_the_padding(lengths: list[int], count: int) -> None:
    sequences = np.zeros((len(lengths), 6), dtype=np.int32)
    for row, length in enumerate(lengths):
        sequences[row, :length] = np.arange(length) + 10 * row + 1
    kept = newest(sequences, np.array(lengths, dtype=np.int64), count)
    assert kept.shape == (len(lengths), min(count, 6))
    for row, length in enumerate(lengths):
        expected = [10 * row + item + 1 for item in range(length)][-count:]
        assert kept[row].tolist() == expected + [0] * (kept.shape[1] - len(expected))

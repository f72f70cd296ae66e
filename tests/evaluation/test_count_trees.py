"""LightGBM on the counts of the live protocol."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from drpn.dataset.folder import Dataset
from drpn.errors import SettingsError
from drpn.evaluation import count_trees
from drpn.evaluation.baselines import click_rate
from drpn.evaluation.count_trees import check_trees, tree_scores
from drpn.evaluation.metrics import measure
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.state.count_columns import PAIR


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough trees for a small log."""
    monkeypatch.setattr(count_trees, "_TREES", 100)


def very_few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough trees where it does not matter how well they rank."""
    monkeypatch.setattr(count_trees, "_TREES", 20)
    monkeypatch.setattr(count_trees, "_STEP", 10)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A live newsroom."""
    folder = tmp_path_factory.mktemp("live")
    simulate(folder / "logs", SimulationSettings(users=250, seed=3, preset="live"))
    return prepare(folder / "logs", folder / "data", DataSettings(protocol="live", vector_size=16))


def test_trees_rank_better_than_the_click_rate_which_ranks_better_than_chance(live: Dataset) -> None:
    test = live.impressions("test")
    counts = np.asarray(live.arrays.array("pairs/counts"))[test.first_pair : test.first_pair + len(test.candidates)]
    auc = {
        name: measure(scores, test.clicked, test.offsets).mean()["auc"]
        for name, scores in {"trees": tree_scores(live, "test"), "click rate": click_rate(counts)}.items()
    }
    assert auc["trees"] > auc["click rate"] > 0.55


def test_the_same_seed_gives_the_same_scores(live: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    very_few_trees(monkeypatch)
    first, again, other = (tree_scores(live, "validation", seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_labels_of_the_split_that_is_scored_do_not_matter(live: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    very_few_trees(monkeypatch)
    expected, read = tree_scores(live, "test"), Dataset.impressions

    def turned(dataset: Dataset, split: str) -> object:
        part = read(dataset, split)  # type: ignore[arg-type]
        if split == "test":
            object.__setattr__(part, "clicked", ~np.asarray(part.clicked))
        return part

    monkeypatch.setattr(Dataset, "impressions", turned)
    assert np.array_equal(tree_scores(live, "test"), expected)


def test_features_in_view_against_a_loop() -> None:
    """Differences from the mean of the list, ranks in the list where equal values share theirs, and its length."""
    random = np.random.default_rng(4)
    offsets = np.cumsum([0, 3, 1, 5, 2])
    features = random.integers(0, 3, (11, 4)).astype(np.float32)
    difference, rank, length = count_trees._compared_with_list(features, offsets)
    for start, stop in itertools.pairwise(offsets):
        part = features[start:stop]
        for row in range(start, stop):
            assert length[row] == stop - start
            for place in range(4):
                below = (part[:, place] < features[row, place]).sum()
                equal = (part[:, place] == features[row, place]).sum()
                expected = (below + (equal - 1) / 2) / max(stop - start - 1, 1)
                assert rank[row, place] == pytest.approx(expected)
                assert difference[row, place] == pytest.approx(features[row, place] - part[:, place].mean(), abs=1e-6)


def test_trees_that_read_lists_score_otherwise(live: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    very_few_trees(monkeypatch)
    alone, in_view = (tree_scores(live, "test", in_view=flag) for flag in (False, True))
    assert not np.array_equal(alone, in_view)


def test_the_click_rate_is_smoothed() -> None:
    counts = np.zeros((2, len(PAIR)), np.float16)
    counts[1, PAIR.index("shows 48 h")], counts[1, PAIR.index("clicks 48 h")] = np.log1p(15), np.log1p(3)
    assert click_rate(counts) == pytest.approx([0.45 / 5, 3.45 / 20], rel=1e-2)


def test_a_folder_without_counts_is_refused(dataset: Dataset) -> None:
    with pytest.raises(
        SettingsError, match=r"has no counts for trees to learn from; prepare it with data\.protocol=live"
    ):
        check_trees(dataset)


def test_a_missing_package_is_named(live: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(SettingsError, match=r"LightGBM is not installed; run: pip install 'drpn\[trees\]'"):
        check_trees(live)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A newsroom of the paper's protocol."""
    folder: Path = tmp_path_factory.mktemp("paper")
    simulate(folder / "logs", SimulationSettings(users=120, seed=1))
    return prepare(folder / "logs", folder / "data", DataSettings(vector_size=0))

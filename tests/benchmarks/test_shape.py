"""The generated dataset folder is valid and has the requested shape."""

import dataclasses
import subprocess
import sys
from collections import Counter
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest

from draws import ONCE, heavy_tail
from drpn.dataset.folder import SPLITS, Dataset
from drpn.evaluation.metrics import measure
from drpn.models.drpn import DrpnSettings
from drpn.preparation.statistics import TITLE_WORDS, statistics
from drpn.recipes.train import train
from drpn.training.settings import TrainingSettings
from shape import SUBCATEGORIES, ShapeSettings, batch_news, co_clicked, write_shape
from tastes import Tastes

SMALL = ShapeSettings(news=900, vocabulary=700, users=3_000, impressions=2_000, validation=40, test=60)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_shape(tmp_path_factory.mktemp("shape") / "data", SMALL)


def test_folder_opens_with_valid_checksums(dataset: Dataset) -> None:
    opened = Dataset.open(dataset.path, verify=True)
    assert opened.manifest["sources"] == []
    assert opened.manifest["settings"]["generated"]["news"] == 900


def test_same_settings_give_the_same_bytes(dataset: Dataset, tmp_path: Path) -> None:
    again = write_shape(tmp_path / "again", SMALL)
    assert again.manifest == dataset.manifest


def test_sizes_and_means_match_the_settings(dataset: Dataset) -> None:
    counts = dataset.statistics
    assert (counts["users"], counts["news"], counts["words"]) == (3_000, 900, 700)
    assert counts["impressions"] == {"train": 2_000, "validation": 40, "test": 60}
    assert counts["mean_clicked"] == pytest.approx(4.14, rel=0.03)
    assert counts["mean_skipped"] == pytest.approx(96.8, rel=0.08)
    assert counts["mean_candidates"] == pytest.approx(37, rel=0.03)
    assert counts["mean_title_words"] + 2 == pytest.approx(12.66, rel=0.03)
    assert counts["clicked_samples"] / 2_100 == pytest.approx(1.5, rel=0.05)


def test_statistics_equal_those_of_prepare(dataset: Dataset) -> None:
    written = dataset.statistics
    totals = {name: round(written[f"mean_{name}"] * 3_000) for name in ("clicked", "skipped")}
    expected = statistics(
        users=3_000,
        news=900,
        words={"words": len(dataset.vocabulary) - 2} | dict.fromkeys(TITLE_WORDS, written["mean_title_words"]),
        counts={"users": 3_000, **totals, "clicks": totals["clicked"], "skips": totals["skipped"]},
        splits={name: dataset.impressions(name) for name in SPLITS},
        stretches={},
        clicked=dataset.clicked,
        skipped=dataset.skipped,
        neighbours=dataset.neighbours,
    )
    assert written == {name: expected[name] for name in written}
    assert set(expected) - set(written) == {
        *TITLE_WORDS[1:],
        "of_profile_users",
        "stretches",
    }  # no labels, no newcomers


def test_no_story_occurs_twice_in_a_profile_or_impression(dataset: Dataset) -> None:
    profiles = np.concatenate([dataset.clicked, dataset.skipped], axis=1)
    for row in profiles[1:]:
        real = row[row > 0]
        assert len(set(real.tolist())) == len(real)
    train = dataset.impressions("train")
    for start, end in zip(train.offsets[:-1], train.offsets[1:], strict=True):
        assert len(set(train.candidates[start:end].tolist())) == end - start
        assert 0 < train.clicked[start:end].sum() < end - start


def test_row_0_is_padding_and_padding_is_at_the_end(dataset: Dataset) -> None:
    for table in (dataset.clicked, dataset.skipped, dataset.news_words, dataset.neighbours):
        real = table > 0
        assert not real[0].any()
        assert (real[:, :-1] >= real[:, 1:]).all()
    assert dataset.clicked[1:, 0].all()
    assert dataset.clicked.max() <= 900


def test_two_thirds_of_users_clicked_once() -> None:
    clicks = heavy_tail(30_000, 4.14, np.random.default_rng(0))
    assert (clicks == 1).mean() == pytest.approx(ONCE, abs=0.001)


def test_popularity_falls_as_one_over_rank(dataset: Dataset) -> None:
    # stories do not repeat within an impression, so the first ranks are shown less often
    shown = np.sort(dataset.arrays.array("news/times_shown"))[::-1].astype(float)
    assert np.polyfit(np.log(np.arange(51, 601)), np.log(shown[50:600]), 1)[0] == pytest.approx(-1, abs=0.15)
    rows = np.argsort(-dataset.arrays.array("news/times_shown"), kind="stable")[:100]
    assert 300 < rows.mean() < 600  # popular stories are in random rows


def test_neighbours_are_the_heaviest_co_clicks() -> None:
    rng = np.random.default_rng(1)
    profiles = [rng.permutation(np.arange(1, 9))[: rng.integers(1, 5)] for _ in range(60)]
    clicked = np.zeros((61, 5), dtype=np.int32)
    for row, news in enumerate(profiles, start=1):
        clicked[row, : len(news)] = news
    edges = Counter(pair for news in profiles for pair in permutations(news.tolist(), 2))
    rows, weights = co_clicked(clicked, news=8, keep=3)
    for news in range(1, 9):
        heaviest = sorted((-weight, other) for (story, other), weight in edges.items() if story == news)[:3]
        assert [(-weight, other) for weight, other in zip(weights[news], rows[news], strict=True)] == heaviest


def test_fixed_number_of_candidates_and_other_lengths(tmp_path: Path) -> None:
    settings = ShapeSettings(fixed=True, words=20, clicked=50).scaled(0.002)
    dataset = write_shape(tmp_path / "data", settings)
    assert set(np.diff(dataset.impressions("test").offsets).tolist()) == {37}
    assert (dataset.news_words.shape[1], dataset.clicked.shape[1]) == (20, 50)


def test_full_profiles_have_no_padding(tmp_path: Path) -> None:
    dataset = write_shape(tmp_path / "data", ShapeSettings(full=True).scaled(0.003))
    assert dataset.clicked[1:].all()
    assert dataset.skipped[1:].all()


def test_batch_counts_real_positions(dataset: Dataset) -> None:
    batch = batch_news(dataset, 64, np.random.default_rng(0))
    assert 64 * 7 <= batch.positions <= 64 * 95
    assert batch.distinct <= 900


def test_model_trains_on_the_folder(tmp_path: Path) -> None:
    settings = ShapeSettings(news=300, vocabulary=400, users=200, impressions=20, validation=10, test=10)
    write_shape(tmp_path / "data", settings)
    run = train(
        tmp_path / "data",
        tmp_path / "run",
        settings=DrpnSettings(size=12, heads=2, hidden=4, graph_heads=2),
        training=TrainingSettings(epochs=1, device="cpu"),
    )
    assert 0 < run.bundle().manifest["metrics"]["validation_auc"] < 1


def test_stats_command_reads_the_folder(drpn, dataset: Dataset) -> None:
    result = drpn("stats", dataset.path)
    assert result.returncode == 0
    assert "3,000" in result.stdout


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"news": 10}, "news is 10; it takes 50 or more"), ({"users": 0}, "users is 0; it takes 1 or more")],
)
def test_too_small_sizes_are_refused(setting: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ShapeSettings(**setting)


def test_shape_imports_only_numpy() -> None:
    heavy = ("ibis", "duckdb", "pyarrow", "pandas", "torch", "matplotlib")
    program = f"import shape, sys; print([name for name in {heavy} if name in sys.modules])"
    benchmarks = Path(__file__).parents[2] / "benchmarks"
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=benchmarks, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


def test_with_tastes_the_best_stories_are_clicked_and_topics_have_their_own_words(tmp_path: Path) -> None:
    settings = dataclasses.replace(SMALL, vocabulary=3_000, tastes=True)
    dataset = write_shape(tmp_path / "data", settings)
    tastes = Tastes(settings.users, settings.news, SUBCATEGORIES, np.random.default_rng([settings.seed, 1]))
    train = dataset.impressions("train")
    utility = tastes.utility(np.repeat(train.users, np.diff(train.offsets)), np.asarray(train.candidates))
    assert np.nanmean(measure(utility, train.clicked, train.offsets).auc) > 0.75
    assert dataset.statistics["mean_clicked"] == pytest.approx(4.14, rel=0.03)

    def liking(profiles: np.ndarray) -> float:
        readers, places = np.nonzero(profiles)
        return float(tastes.utility(readers, np.asarray(profiles)[readers, places]).mean())

    assert liking(dataset.clicked) > liking(dataset.skipped) + 1

    def shared_words(titles: np.ndarray) -> float:
        return float(np.mean([len(np.intersect1d(a[a > 0], b[b > 0])) for a, b in pairwise(titles)]))

    titles = np.asarray(dataset.news_words)[1:, 2:]
    assert shared_words(titles[np.argsort(tastes.topics)]) > 2 * shared_words(titles)

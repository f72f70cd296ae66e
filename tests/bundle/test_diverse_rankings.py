"""Rankings of a bundle with diversity, fresh and popular stories."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract_cases import small_settings
from drpn.bundle.files import Bundle, data_shape, write_bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.requests import Ranking
from drpn.bundle.stories import NewStory
from drpn.dataset.folder import SPLITS, Dataset
from drpn.errors import RunError, SettingsError
from drpn.logs.simulate import SimulationSettings, simulate
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.state.profile import Profile
from drpn.versioned import read_versioned, write_versioned

CPU = torch.device("cpu")
shares = st.sampled_from([0.0, 0.1, 0.3, 0.5])
options = st.fixed_dictionaries(
    {
        "diversity": st.sampled_from([0.0, 0.2, 0.7, 1.0]),
        "diversity_method": st.sampled_from(["mmr", "calibrated"]),
        "fresh": shares,
        "popular": shares,
    }
)


@pytest.fixture(autouse=True)
def _single_thread(one_thread: None) -> None:
    """Every test here uses one thread."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("diverse")
    simulate(folder / "logs", SimulationSettings(users=150, news=900, seed=4))
    return prepare(folder / "logs", folder / "data", DataSettings(vector_size=8))


def make_bundle(folder: Path, dataset: Dataset, name: str = "drpn") -> Bundle:
    torch.manual_seed(3)
    model = CATALOGUE[name].model(small_settings(name), data_shape(dataset))
    write_bundle(folder, model, name=name, settings=small_settings(name), dataset=dataset, facts={})
    return Bundle.open(folder)


@pytest.fixture(scope="module")
def bundle(dataset: Dataset) -> Bundle:
    return make_bundle(dataset.path.parent / "bundle", dataset)


@pytest.fixture
def recommender(bundle: Bundle) -> Recommender:
    return Recommender(bundle, CPU)


def ids(ranking: Ranking) -> list[str]:
    return [row.news_id for row in ranking.rows]


def users(dataset: Dataset) -> list[str]:
    """Some users with clicks, and one that nobody knows."""
    known = np.flatnonzero(dataset.arrays.array("latest/clicked")[:, 0])[:12]
    return [*(dataset.user_ids[int(row)] for row in known), "nobody"]


@pytest.mark.parametrize("method", ["mmr", "calibrated"])
def test_no_diversity_is_the_plain_ranking(recommender: Recommender, dataset: Dataset, method: Any) -> None:
    for user in users(dataset):
        plain = recommender.recommend(user, top=50)
        assert recommender.recommend(user, top=50, diversity=0.0, diversity_method=method, fresh=0.0) == plain
        assert [row.rank for row in plain.rows] == [row.plain_rank for row in plain.rows] == list(range(1, 51))
        assert {row.reason for row in plain.rows} == {"ranked"}
        scores = [row.score for row in plain.rows]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("name", ["drpn", "nrms", "libfm", "lstur"])
@pytest.mark.parametrize("method", ["mmr", "calibrated"])
def test_a_diverse_list_is_an_order_of_the_plain_one(name: str, method: Any, dataset: Dataset, tmp_path: Path) -> None:
    recommender = Recommender(make_bundle(tmp_path / "bundle", dataset, name), CPU)
    for user in users(dataset)[:4]:
        plain = recommender.recommend(user, top=10_000)
        mixed = recommender.recommend(user, top=10_000, diversity=0.7, diversity_method=method)
        assert sorted(ids(mixed)) == sorted(ids(plain))
        assert ids(mixed) != ids(plain)
        by_score = {row.news_id: row for row in plain.rows}
        for row in mixed.rows:
            assert (row.plain_rank, row.score) == (by_score[row.news_id].rank, by_score[row.news_id].score)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), mix=options, top=st.integers(0, 40))
def test_hidden_and_excluded_stories_never_come_back(
    recommender: Recommender, dataset: Dataset, data: st.DataObject, mix: dict[str, Any], top: int
) -> None:
    user = data.draw(st.sampled_from(users(dataset)))
    live = recommender.live
    excluded = data.draw(st.lists(st.sampled_from(live), max_size=20))
    row = list(dataset.user_ids).index(user) if user != "nobody" else 0
    clicked = set(recommender.bundle.all_clicked(row) or ())
    ranking = recommender.recommend(user, exclude=excluded, top=top, **mix)
    allowed = set(live) - set(excluded) - clicked
    assert set(ids(ranking)) <= allowed
    assert len(set(ids(ranking))) == len(ranking.rows) == min(top, len(allowed))
    assert [entry.rank for entry in ranking.rows] == list(range(1, len(ranking.rows) + 1))


def test_many_users_get_the_lists_of_one_call_each(recommender: Recommender, dataset: Dataset) -> None:
    mix: dict[str, Any] = {"diversity": 0.5, "fresh": 0.2, "popular": 0.1, "top": 15}
    for user, ranking in zip(users(dataset), recommender.recommend_many(users(dataset), **mix), strict=True):
        assert ids(ranking) == ids(recommender.recommend(user, **mix))


def test_more_diversity_gives_more_categories(recommender: Recommender, dataset: Dataset) -> None:
    category = dict(zip(dataset.news_ids, dataset.arrays.array("news/category").tolist(), strict=True))
    counts = []
    for diversity in (0.0, 0.5, 1.0):
        rankings = recommender.recommend_many(users(dataset), diversity=diversity)
        counts.append(np.mean([len({category[story] for story in ids(ranking)}) for ranking in rankings]))
    assert counts[0] < counts[1] <= counts[2]


def test_calibrated_lists_follow_the_history(recommender: Recommender, dataset: Dataset) -> None:
    """Of ten places, six or seven and three or four are for the two categories of a history of two to one."""
    category = dataset.arrays.array("news/category")
    live = [list(dataset.news_ids).index(story) for story in recommender.live]
    common = np.argsort(-np.bincount(category[live]))[:2]
    clicked = [
        dataset.news_ids[int(np.flatnonzero(category == label)[n])]
        for label, n in ((common[0], 0), (common[0], 1), (common[1], 0))
    ]
    ranking = recommender.recommend(history=Profile(clicked), diversity=1.0, diversity_method="calibrated", top=9)
    labels = [category[list(dataset.news_ids).index(story)] for story in ids(ranking)]
    assert (labels.count(common[0]), labels.count(common[1])) == (6, 3)


def test_a_reader_without_clicks_gets_the_categories_of_all_clicks(recommender: Recommender, dataset: Dataset) -> None:
    category, clicks = (dataset.arrays.array(f"news/{name}") for name in ("category", "times_clicked"))
    shares = np.bincount(category, clicks) / clicks.sum()
    ranking = recommender.recommend("nobody", diversity=1.0, diversity_method="calibrated", top=40)
    labels = np.array([category[list(dataset.news_ids).index(story)] for story in ids(ranking)])
    placed = np.bincount(labels, minlength=len(shares)) / len(labels)
    plain = recommender.recommend("nobody", top=40)
    before = (
        np.bincount([category[list(dataset.news_ids).index(story)] for story in ids(plain)], minlength=len(shares)) / 40
    )
    assert np.abs(placed - shares).sum() < 0.5 * np.abs(before - shares).sum()


def test_popular_stories_have_the_most_clicks_of_the_last_day(recommender: Recommender, dataset: Dataset) -> None:
    end = recommender.bundle.as_of
    assert end is not None
    clicks = np.zeros(len(dataset.news_ids), dtype=np.int64)
    for split in SPLITS:
        impressions = dataset.impressions(split)
        for place, moment in enumerate(impressions.times.astype("datetime64[s]").astype(object)):
            if end - timedelta(hours=24) <= moment.replace(tzinfo=end.tzinfo) <= end:
                part = slice(*impressions.offsets[place : place + 2])
                np.add.at(clicks, impressions.candidates[part][impressions.clicked[part]], 1)
    by_id = dict(zip(dataset.news_ids, clicks.tolist(), strict=True))
    ranking = recommender.recommend("nobody", popular=0.3)
    chosen = [row for row in ranking.rows if row.reason == "popular"]
    assert len(chosen) == 3
    ranked_before = {row.news_id for row in ranking.rows if row.reason == "ranked"}
    most = sorted((by_id[story] for story in recommender.live if story not in ranked_before), reverse=True)
    assert [by_id[row.news_id] for row in chosen] == most[:3]


def test_fresh_stories_are_the_newest(recommender: Recommender) -> None:
    end = recommender.bundle.as_of
    assert end is not None
    recommender.add(
        [
            NewStory("a storm tomorrow", "weather", news_id="coming", published=end - timedelta(seconds=1)),
            NewStory("a storm today", "weather", news_id="undated"),
            NewStory("a storm long ago", "weather", news_id="old", published=end - timedelta(days=400)),
        ]
    )
    ranking = recommender.recommend("nobody", fresh=1.0, top=2, new=[NewStory("no storm", news_id="given")])
    assert {row.reason for row in ranking.rows} == {"fresh"}
    assert set(ids(ranking)) == {"undated", "given"}
    third = recommender.recommend(
        "nobody", fresh=1.0, top=3, exclude=["undated"], candidates=["coming", "old", recommender.live[0]]
    )
    assert ids(third)[0] == "coming"
    assert ids(third)[-1] == "old"


def test_added_stories_are_compared_by_title_and_label(recommender: Recommender, dataset: Dataset) -> None:
    """Of two copies of a story, one goes to the end of the list."""
    best = recommender.recommend("nobody", top=1).rows[0]
    row = list(dataset.news_ids).index(best.news_id)
    labels = (dataset.category(row), dataset.subcategory(row))
    recommender.add([NewStory(best.title, *labels, news_id="copy")])
    pool = [*recommender.recommend("nobody", top=20, exclude=["copy"]).rows]
    some = [story.news_id for story in pool] + ["copy"]
    ranking = recommender.recommend("nobody", candidates=some, diversity=1.0, top=21)
    assert ids(ranking)[-1] in ("copy", best.news_id)
    assert recommender.recommend("nobody", new=[NewStory("x y", "none")], candidates=some, diversity=0.5).rows


def test_bundles_without_clicks_or_ages_refuse_to_mix(bundle: Bundle, recommender: Recommender, tmp_path: Path) -> None:
    shutil.copytree(bundle.path, tmp_path / "old")
    manifest = read_versioned(
        tmp_path / "old" / "manifest.json", version=1, of="a bundle", error=RunError, remedy="train again"
    )
    for name in ("first_seen", "recent_clicks"):
        (tmp_path / "old" / "news" / f"{name}.npy").unlink()
        del manifest["files"][f"news/{name}.npy"]
    write_versioned(tmp_path / "old" / "manifest.json", manifest)
    old = Recommender(Bundle.open(tmp_path / "old"), CPU)
    assert ids(old.recommend("nobody", diversity=0.5)) == ids(recommender.recommend("nobody", diversity=0.5))
    with pytest.raises(RunError, match=r"old was written without the ages of stories; train again to mix in fresh"):
        old.recommend("nobody", fresh=0.1)
    with pytest.raises(RunError, match=r"old was written without clicks on stories; train again to mix in popular"):
        old.recommend("nobody", popular=0.1)


def test_wrong_diversity_is_refused(recommender: Recommender) -> None:
    with pytest.raises(SettingsError, match=r"^diversity is 2; it takes a number from 0 to 1$"):
        recommender.recommend("nobody", diversity=2)

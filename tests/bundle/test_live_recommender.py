"""Rankings by a model that reads counts, and feedback that the next ranking knows."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle, data_shape
from drpn.bundle.recommender import Recommender
from drpn.bundle.requests import Ranking
from drpn.bundle.stories import NewStory
from drpn.dataset.folder import Dataset
from drpn.errors import FolderError, RunError, SettingsError
from drpn.evaluation.scoring import score_impressions
from drpn.models.base import ClickModel
from drpn.progress import Silent
from drpn.state.profile import Profile
from drpn.versioned import read_versioned, write_versioned
from live_newsroom import CPU, START, STORIES, View, make_bundle, make_dataset, make_model, some_views

FIRST_SHOWN_LAST = STORIES[-1]


@pytest.fixture(autouse=True)
def _single_thread(one_thread: None) -> None:
    """Every test here uses one thread."""


def views_with_a_late_story() -> list[View]:
    """Six days; the last page view is later than all others and the first that shows one of the stories."""
    views = some_views(STORIES[:-1], clicked=0.25)
    last = (FIRST_SHOWN_LAST, *STORIES[3:8])
    moment = START + timedelta(days=6)
    return [*views, View(len(views), "u4", moment, "phone", "40", "no", STORIES[9], last, last[1:3])]


VIEWS = views_with_a_late_story()


class Newsroom(NamedTuple):
    """The whole log and the log without its last page view."""

    whole: Dataset
    short: Dataset
    model: ClickModel
    whole_bundle: Bundle
    short_bundle: Bundle


@pytest.fixture(scope="module")
def newsroom(tmp_path_factory: pytest.TempPathFactory) -> Newsroom:
    folder = tmp_path_factory.mktemp("live")
    whole, short = (make_dataset(folder / name, VIEWS[:stop]) for name, stop in (("whole", None), ("short", -1)))
    model = make_model(whole)
    bundles = (make_bundle(folder / f"{data.path.parent.name}-bundle", data, model) for data in (whole, short))
    return Newsroom(whole, short, model, *map(Bundle.open, bundles))


@pytest.fixture
def short(newsroom: Newsroom) -> Recommender:
    return Recommender(newsroom.short_bundle, CPU)


@pytest.fixture
def whole(newsroom: Newsroom) -> Recommender:
    return Recommender(newsroom.whole_bundle, CPU)


def scores(ranking: Ranking) -> dict[str, float]:
    return {row.news_id: row.score for row in ranking.rows}


def everything(recommender: Recommender, user: str, **options: Any) -> dict[str, float]:
    moment = options.pop("moment", VIEWS[-1].moment + timedelta(hours=1))
    return scores(recommender.recommend(user, candidates=STORIES, moment=moment, top=99, **options))


def record_last(recommender: Recommender) -> None:
    last = VIEWS[-1]
    recommender.record(
        last.user, last.shown, last.clicked, moment=last.moment, page=last.page or None, about=last.about
    )


def test_a_request_has_the_scores_of_evaluation(newsroom: Newsroom, short: Recommender) -> None:
    last, impressions = VIEWS[-1], newsroom.whole.impressions("test")
    tables = Tables.from_dataset(newsroom.model.limit(newsroom.whole), CPU, needs=newsroom.model.requirements)
    expected = score_impressions(newsroom.model, tables, impressions, Silent())[impressions.offsets[-2] :]
    request: dict[str, Any] = {"candidates": last.shown, "moment": last.moment, "top": 99}
    asked = scores(short.recommend(last.user, page=last.page, about=last.about, **request))
    shown = [newsroom.whole.news_ids[row] for row in impressions.candidates[impressions.offsets[-2] :].tolist()]
    assert shown == list(last.shown)
    assert [asked[story] for story in shown] == pytest.approx(expected.tolist(), abs=1e-5)
    for change in ({"page": "n10"}, {"page": None}, {"about": {"device": "desktop"}}):
        other = scores(short.recommend(last.user, **({"page": last.page, "about": last.about} | change), **request))
        assert other != pytest.approx(asked, abs=1e-4)


def test_recorded_feedback_gives_the_rankings_of_the_longer_log(short: Recommender, whole: Recommender) -> None:
    users = [f"u{number}" for number in range(9)]
    before = {user: everything(short, user) for user in users}
    record_last(short)
    for user in users:
        assert everything(short, user) == pytest.approx(everything(whole, user), abs=1e-5)
        assert everything(short, user) != pytest.approx(before[user], abs=1e-5)  # clicks of others count too
        assert short.profile(user).clicked == whole.profile(user).clicked
        assert short.profile(user).skipped == whole.profile(user).skipped
    assert short.profile("u4").as_of == VIEWS[-1].moment
    hidden = {row.news_id for row in short.recommend("u4", top=99).rows}
    assert not hidden & set(VIEWS[-1].clicked)


def test_several_page_views_are_recorded_one_after_the_other(tmp_path: Path, newsroom: Newsroom) -> None:
    """The last twenty page views of the log."""
    bundle = make_bundle(tmp_path / "bundle", make_dataset(tmp_path, VIEWS[:-20]), newsroom.model)
    recommender, whole = Recommender(Bundle.open(bundle), CPU), Recommender(newsroom.whole_bundle, CPU)
    for view in VIEWS[-20:]:
        moment = view.moment.replace(tzinfo=None)  # without a time zone: UTC
        recommender.record(view.user, view.shown, view.clicked, moment=moment, page=view.page or None, about=view.about)
    for user in ("u1", "u4", "u7"):
        assert everything(recommender, user) == pytest.approx(everything(whole, user), abs=1e-5)


def test_many_users_get_the_rankings_of_one_call_each(short: Recommender) -> None:
    record_last(short)
    new = [NewStory("storm over the bank", "topic1")]
    users: list[Any] = ["u1", "nobody", "u4", Profile(clicked=["n11"])]
    options: dict[str, Any] = {"candidates": STORIES, "new": new, "page": "n12", "about": {"age": 33}, "top": 99}
    for ranking, user in zip(short.recommend_many(users, **options), users, strict=True):
        one = short.recommend(**({"history": user} if isinstance(user, Profile) else {"user_id": user}), **options)
        assert scores(ranking) == pytest.approx(scores(one), abs=1e-5)
        assert "new" in scores(one)


def test_asking_leaves_no_trace(short: Recommender, newsroom: Newsroom) -> None:
    first = everything(short, "u1")
    for hours in (2000, 0, 3):
        moment = VIEWS[-1].moment + timedelta(hours=hours)
        everything(short, "nobody", new=[NewStory("goal", "topic2")], moment=moment, about={"device": "desktop"})
    assert everything(short, "u1") == first == everything(Recommender(newsroom.short_bundle, CPU), "u1")


def test_an_unknown_user_gets_counts_when_recorded(short: Recommender) -> None:
    stranger = everything(short, "stranger")
    assert everything(short, "another") == stranger
    short.record("stranger", STORIES[:5], STORIES[:2], moment=VIEWS[-1].moment, about={"subscriber": "yes"})
    short.record("third", STORIES[6:9], STORIES[7:9], moment=VIEWS[-1].moment + timedelta(minutes=1))
    assert [entry.news_id for entry in short.profile("stranger").clicked] == STORIES[:2]
    assert len({tuple(everything(short, user).values()) for user in ("stranger", "another", "third")}) == 3
    known = everything(short, "stranger", about={"subscriber": "yes"})
    assert everything(short, "stranger") == known  # said when it was recorded
    assert everything(short, "stranger", about={"subscriber": "no"}) != known


def test_an_added_story_is_ranked_as_a_new_one_until_it_has_counts(short: Recommender) -> None:
    story = NewStory("storm over the bank", "topic1", news_id="late", published=VIEWS[-1].moment)
    as_new = everything(short, "u1", new=[story])["late"]
    short.add([story])
    options: dict[str, Any] = {"candidates": ["late"], "moment": VIEWS[-1].moment + timedelta(hours=1)}
    asked = scores(short.recommend("u1", **options))["late"]
    assert asked == pytest.approx(as_new, abs=1e-5)
    for change in ({"title": "sunny"}, {"published": VIEWS[-1].moment - timedelta(days=5)}, {"category": ""}):
        facts = {"title": story.title, "category": story.category, "published": story.published} | change
        assert everything(short, "u1", new=[NewStory(news_id="x", **facts)])["x"] != pytest.approx(as_new, abs=1e-5)
    short.record("u2", ["late", "n11"], ["late"], moment=VIEWS[-1].moment)
    assert scores(short.recommend("u1", **options))["late"] != pytest.approx(asked, abs=1e-5)
    assert everything(short, "u1", new=[story])["late"] == pytest.approx(as_new, abs=5e-2)


def test_a_new_story_like_an_old_one_has_its_text_vector(short: Recommender, newsroom: Newsroom) -> None:
    context = short._counts  # the vectors themselves, which scores hardly show
    assert context is not None
    for row in (3, 17):
        story = NewStory(newsroom.short.titles[row], newsroom.short.category(row), newsroom.short.subcategory(row))
        described = context._describe([story])
        np.testing.assert_allclose(described.vectors[0], context._counts.stories.vectors[row], atol=1e-6)
        np.testing.assert_allclose(described.tastes[0], context._counts.stories.tastes[row], atol=1e-6)
        assert np.linalg.norm(described.vectors[0]) == pytest.approx(1, abs=1e-5)


def test_unknown_stories_are_recorded_and_may_be_added_later(short: Recommender) -> None:
    short.record("u1", ["unheard", "n11"], ["unheard"], moment=VIEWS[-1].moment, page="unheard-page")
    assert [entry.news_id for entry in short.profile("u1").clicked][-1] == "unheard"
    everything(short, "u1")  # the profile is read without it
    with pytest.raises(SettingsError, match=r"story 'unheard' is not in the catalogue"):
        short.recommend("u2", candidates=["unheard"])
    options: dict[str, Any] = {"moment": VIEWS[-1].moment + timedelta(hours=1)}
    fresh = NewStory("goal", "topic1", news_id="fresh")
    short.add([NewStory("goal", "topic1", news_id="unheard"), fresh])
    ranked = scores(short.recommend("u2", candidates=["unheard", "fresh"], **options))
    assert ranked["unheard"] != pytest.approx(ranked["fresh"], abs=1e-5)


def test_what_cannot_be_recorded_or_asked(short: Recommender) -> None:
    moment = VIEWS[-1].moment
    with pytest.raises(SettingsError, match=r"story 'n12' was clicked but is not in shown"):
        short.record("u1", ["n11"], ["n12"], moment=moment)
    with pytest.raises(SettingsError, match=r"user_id is empty"):
        short.record("", ["n11"], moment=moment)
    with pytest.raises(SettingsError, match=r"shown is 'n11'; it takes a list"):
        short.record("u1", "n11", moment=moment)
    with pytest.raises(SettingsError, match=r"the story of the page, 'n99', is not in the catalogue"):
        short.recommend("u1", page="n99")
    with pytest.raises(SettingsError, match=r"nothing of the income of its readers; .*: device, age, subscriber$"):
        short.recommend("u1", about={"income": "high"})
    with pytest.raises(SettingsError, match=r"nothing of the income"):
        short.record("stranger", ["n11"], moment=moment, about={"income": "high"})
    with pytest.raises(SettingsError, match=r"age is 'old'; it takes a number"):
        short.recommend("u1", about={"age": "old"})
    assert short.profile("stranger") == Profile()
    noted = short.recommend("u1", about={"device": "fridge"}).notes
    assert noted == ("no reader of the log has the device 'fridge'; it counts as unknown",)


def test_a_bundle_without_counts_says_what_to_do(tmp_path: Path, newsroom: Newsroom) -> None:
    folder = Path(shutil.copytree(newsroom.short_bundle.path, tmp_path / "bundle"))
    manifest = read_versioned(folder / "manifest.json", version=1, of="", error=RunError, remedy="", keys={})
    manifest["files"] = {name: sha for name, sha in manifest["files"].items() if not name.startswith("counts/")}
    write_versioned(folder / "manifest.json", manifest)
    with pytest.raises(RunError, match=r"without the counts .* prepare the logs again with the live protocol"):
        Recommender(Bundle.open(folder), CPU)


def test_other_models_ship_no_counts_but_learn_from_feedback(tmp_path: Path, newsroom: Newsroom) -> None:
    model = make_model(newsroom.whole, "drpn")
    folders = (make_bundle(tmp_path / data.path.parent.name, data, model, "drpn") for data in newsroom[:2])
    bundles = [Bundle.open(folder) for folder in folders]
    for bundle in bundles:
        assert not [name for name in bundle.manifest["files"] if name.startswith(("counts/", "names/"))]
    whole, short = (Recommender(bundle, CPU) for bundle in bundles)
    before = everything(short, "u4")
    record_last(short)
    assert everything(short, "u4") == pytest.approx(everything(whole, "u4"), abs=1e-5)
    assert everything(short, "u4") != pytest.approx(before, abs=1e-5)
    noted = short.recommend("u4", page="n11", about={"device": "phone"}).notes
    assert noted == ("this model reads no counts, so it ignores page and about",)


def test_counts_of_another_version_are_refused(newsroom: Newsroom) -> None:
    statistics = newsroom.short.statistics
    other = {**statistics, "live": {**statistics["live"], "pair": [*reversed(statistics["live"]["pair"])]}}
    changed = Dataset(newsroom.short.path, {**newsroom.short.manifest, "statistics": other}, newsroom.short.arrays)
    with pytest.raises(FolderError, match="has other counts than this version of drpn reads; prepare and train again"):
        data_shape(changed)

"""Rankings for users, histories and many users, over candidates and live stories."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from contract_cases import small_settings
from drpn.bundle import recommender as recommender_module
from drpn.bundle.files import Bundle, data_shape, write_bundle
from drpn.bundle.recommender import Recommender
from drpn.bundle.requests import Ranking
from drpn.bundle.stories import NewStory
from drpn.dataset.folder import Dataset
from drpn.errors import RunError, SettingsError
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.state.profile import Profile
from drpn.versioned import read_versioned, write_versioned
from writing import MindLine, write_mind

CPU = torch.device("cpu")
WORDS = ["goal", "market", "storm", "coach", "bank", "snow", "league", "profit", "sunny", "tariff"]
USERS = [f"U{number}" for number in range(1, 10)]
STORIES = 22


@pytest.fixture(autouse=True)
def _single_thread(one_thread: None) -> None:
    """Every test here uses one thread."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Three days, 22 stories with numbers as ids, 9 users.

    On each day user u reads at u o'clock; stories 21 and 22 are first shown on the last day, by U1 at 1 o'clock.
    """
    random = np.random.default_rng(2)
    stories = [f"{number}\ttopic{number % 3}\t\t{' '.join(random.choice(WORDS, 4))}" for number in range(1, 23)]
    lines = []
    for day in (9, 10, 11):
        for user in range(1, 10 if day == 11 else 9):
            shown = [str(story) for story in random.choice(np.arange(1, 21), 5, replace=False)]
            shown += ["21", "22"] if day == 11 else []
            labels = " ".join(f"{story}-{int(place < 2)}" for place, story in enumerate(shown))
            lines.append(MindLine(str(len(lines)), f"U{user}", f"11/{day}/2019 {user}:00:00 AM", labels))
    logs = write_mind(tmp_path_factory.mktemp("recommender") / "logs", lines, stories)
    return prepare(logs, logs.parent / "data", DataSettings(clicked=3, skipped=4))


def make_bundle(folder: Path, dataset: Dataset, name: str = "drpn") -> Bundle:
    settings = small_settings(name)
    torch.manual_seed(3)
    model = CATALOGUE[name].model(settings, data_shape(dataset))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    write_bundle(folder, model, name=name, settings=settings, dataset=dataset, facts={})
    return Bundle.open(folder)


@pytest.fixture(scope="module")
def bundle(dataset: Dataset) -> Bundle:
    return make_bundle(dataset.path.parent / "bundle", dataset)


@pytest.fixture
def recommender(bundle: Bundle) -> Recommender:
    return Recommender(bundle, CPU)


def ids(ranking: Ranking) -> list[str]:
    return [row.news_id for row in ranking.rows]


def same(first: Ranking, second: Ranking, *, user_id: bool = True) -> None:
    """The same stories in the same order with the same scores."""
    assert ids(first) == ids(second)
    assert [row.score for row in first.rows] == pytest.approx([row.score for row in second.rows], abs=1e-5)
    assert [row.title for row in first.rows] == [row.title for row in second.rows]
    assert (first.known, first.notes) == (second.known, second.notes)
    if user_id:
        assert first.user_id == second.user_id


@pytest.mark.parametrize("name", ["drpn", "drpn-p", "nrms", "dfn"])
def test_a_user_and_the_same_history_get_the_same_ranking(name: str, dataset: Dataset, tmp_path: Path) -> None:
    recommender = Recommender(make_bundle(tmp_path / "bundle", dataset, name), CPU)
    for user in USERS:
        profile = recommender.profile(user)
        everything = {"candidates": range(1, STORIES + 1), "top": 30}
        by_user, by_history = (
            recommender.recommend(user, **everything),
            recommender.recommend(history=profile, **everything),
        )
        same(by_user, by_history, user_id=False)
        assert (by_user.user_id, by_history.user_id) == (user, "")
        same(recommender.recommend("nobody", history=profile, **everything), by_history, user_id=False)
    assert len({tuple(ids(recommender.recommend(user, top=5))) for user in USERS}) > 3


def test_the_profile_of_a_user_is_that_of_the_end_of_the_log(recommender: Recommender, dataset: Dataset) -> None:
    row = list(dataset.user_ids).index("U3")
    profile = recommender.profile("U3")
    for name, side in (("clicked", profile.clicked), ("skipped", profile.skipped)):
        rows = dataset.arrays.array(f"latest/{name}")[row].tolist()
        assert [entry.news_id for entry in side] == [dataset.news_ids[story] for story in rows if story]
    assert profile.as_of == recommender.bundle.as_of == datetime(2019, 11, 11, 9, tzinfo=UTC)
    assert recommender.profile("nobody") == recommender.profile("") == Profile()


@pytest.mark.parametrize("name", ["drpn", "lstur", "npa", "naml"])
def test_a_history_replaces_the_profile_of_a_user(name: str, dataset: Dataset, tmp_path: Path) -> None:
    """The user id still counts, for models that have a vector for each user."""
    recommender = Recommender(make_bundle(tmp_path / "bundle", dataset, name), CPU)
    history = Profile(clicked=["7", "9"], skipped=["11"])
    given = recommender.recommend("U1", history=history, candidates=["1", "2", "21"])
    assert given.user_id == "U1"
    assert given.rows != recommender.recommend("U1", candidates=["1", "2", "21"]).rows
    alone = recommender.recommend(history=history, candidates=["1", "2", "21"])
    assert (given.rows != alone.rows) == (name in ("lstur", "npa"))


@pytest.mark.parametrize("users_at_once", [1, 2, 4, 256])
def test_many_users_get_the_rankings_of_one_call_each(
    recommender: Recommender, monkeypatch: pytest.MonkeyPatch, users_at_once: int
) -> None:
    monkeypatch.setattr("drpn.bundle.recommender._USERS_AT_ONCE", users_at_once)
    history = Profile(clicked=[3, "17", "unknown"])
    users: list[Any] = [*USERS, history, "nobody", "U1"]
    new = [NewStory("storm over the bank", "topic1"), NewStory("sunny league", "topic9")]
    options: dict[str, Any] = {"new": new, "exclude": ["21"], "top": 30}
    rankings = recommender.recommend_many(users, **options)
    assert len(rankings) == len(users)
    for user, ranking in zip(users, rankings, strict=True):
        known = {"history": user} if isinstance(user, Profile) else {"user_id": user}
        same(ranking, recommender.recommend(**known, **options))
    assert recommender.recommend_many([]) == []


def test_few_scores_at_once_give_the_same_rankings(recommender: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    rankings = recommender.recommend_many(USERS, top=30)
    monkeypatch.setitem(recommender_module._SCORES_AT_ONCE, "cpu", 1)
    for first, second in zip(recommender.recommend_many(USERS, top=30), rankings, strict=True):
        same(first, second)


def test_histories_of_many_users(recommender: Recommender) -> None:
    histories = [Profile(clicked=["7"]), None, Profile()]
    rankings = recommender.recommend_many(["U1", "U2", "U3"], histories=histories, top=30)
    same(rankings[0], recommender.recommend("U1", history=histories[0], top=30))
    same(rankings[1], recommender.recommend("U2", top=30))
    same(rankings[2], recommender.recommend("nobody", top=30), user_id=False)
    with pytest.raises(SettingsError, match=r"^there are 1 histories for 2 users; give one for each$"):
        recommender.recommend_many(["U1", "U2"], histories=[Profile()])
    with pytest.raises(SettingsError, match=r"^users holds a Profile; with histories, it takes user ids alone$"):
        recommender.recommend_many([Profile()], histories=[Profile()])


def test_given_candidates_are_ranked_even_if_they_are_in_the_profile(recommender: Recommender) -> None:
    clicked = recommender.profile("U1").clicked[0].news_id
    ranking = recommender.recommend("U1", candidates=[clicked, "1", "22"])
    assert set(ids(ranking)) == {clicked, "1", "22"}
    assert clicked not in ids(recommender.recommend("U1", top=30))
    everything = recommender.recommend("U1", candidates=range(1, STORIES + 1), top=30)
    order = [news_id for news_id in ids(everything) if news_id in ids(ranking)]
    assert ids(ranking) == order


def test_candidates_may_be_integers_and_repeated(recommender: Recommender) -> None:
    ranking = recommender.recommend("U1", candidates=[1, np.int64(22), "1", "22", 1])
    assert sorted(ids(ranking)) == ["1", "22"]
    same(ranking, recommender.recommend("U1", candidates=iter(["1", "22"])))
    assert recommender.recommend("U1", candidates=[]).rows == ()
    (only,) = recommender.recommend("U1", candidates=[], new=[NewStory("storm")]).rows
    assert only.title == "storm"


def test_users_may_be_integers(recommender: Recommender) -> None:
    recommender._users.rows["5"] = recommender.users["U5"]  # as if the log had numbers
    same(recommender.recommend(5), recommender.recommend("U5"), user_id=False)
    assert recommender.recommend(5).user_id == "5"


def test_an_unknown_candidate_is_an_error_that_names_it(recommender: Recommender) -> None:
    for options in ({}, {"max_age_hours": 5}):
        with pytest.raises(SettingsError) as raised:
            recommender.recommend("U1", candidates=["1", 99], **options)
        assert str(raised.value) == "story '99' is not in the catalogue; add it first, or leave it out"
    assert ids(recommender.recommend("U1", candidates=["1", 99], exclude=[99])) == ["1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is nobody to rank for; give a user id or a history"),
        ({"user_id": "U1", "top": -1}, "top is -1; it takes 0 or more"),
        ({"user_id": "U1", "max_age_hours": -2}, "max_age_hours is -2; it takes 0 or more"),
        ({"user_id": "U1", "max_age_hours": float("nan")}, "max_age_hours is nan; it takes 0 or more"),
        ({"user_id": "U1", "candidates": "21"}, "candidates is '21'; it takes a list, such as ['21']"),
        ({"user_id": "U1", "exclude": "21"}, "exclude is '21'; it takes a list, such as ['21']"),
        ({"user_id": "U1", "candidates": 21}, "candidates is 21; it takes a list, such as [21]"),
        ({"history": ["21"]}, "history is ['21']; it takes a Profile, such as Profile(clicked=['storm'])"),
    ],
)
def test_wrong_arguments_are_refused(recommender: Recommender, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        recommender.recommend(**options)
    assert str(raised.value) == message


def test_one_user_is_not_a_list_of_users(recommender: Recommender) -> None:
    with pytest.raises(SettingsError, match=r"^users is 'U1'; it takes a list, such as \['U1'\]$"):
        recommender.recommend_many("U1")
    with pytest.raises(SettingsError, match=r"^news_ids is '21'; "):
        recommender.remove("21")


def test_excluded_stories_are_left_out(recommender: Recommender) -> None:
    everything = ids(recommender.recommend("U1", top=30))
    assert {"21", "22"} < set(everything)
    rest = ids(recommender.recommend("U1", exclude=[21, "22", "unknown"], top=30))
    assert rest == [news_id for news_id in everything if news_id not in ("21", "22")]


def test_old_stories_are_left_out(recommender: Recommender, bundle: Bundle) -> None:
    """The log ends on 11 November at 9:00; 21 and 22 were first shown that day at 1:00, the others the day before."""
    assert bundle.as_of == datetime(2019, 11, 11, 9, tzinfo=UTC)
    everything = set(recommender.live)
    assert set(ids(recommender.recommend("nobody", max_age_hours=8, top=30))) == {"21", "22"}
    assert ids(recommender.recommend("nobody", max_age_hours=7.9, top=30)) == []
    assert set(ids(recommender.recommend("nobody", max_age_hours=48, top=30))) == everything
    ranking = recommender.recommend("nobody", candidates=["1", "21"], max_age_hours=8)
    assert ids(ranking) == ["21"]
    two_hours_later = datetime(2019, 11, 11, 11)  # UTC, because it has no time zone
    for moment in (two_hours_later, two_hours_later.replace(tzinfo=UTC).astimezone()):
        assert ids(recommender.recommend("nobody", max_age_hours=9.9, moment=moment)) == []
        assert len(ids(recommender.recommend("nobody", max_age_hours=10, moment=moment))) == 2


def test_added_stories_have_the_age_that_is_given(recommender: Recommender, bundle: Bundle) -> None:
    assert bundle.as_of is not None
    published = bundle.as_of - timedelta(hours=3)
    recommender.add([NewStory("storm", news_id="dated", published=published), NewStory("snow", news_id="undated")])
    assert set(ids(recommender.recommend("nobody", max_age_hours=3))) == {"dated", "undated"}
    assert set(ids(recommender.recommend("nobody", max_age_hours=2))) == {"undated"}


def test_top_zero_is_an_empty_ranking(recommender: Recommender) -> None:
    ranking = recommender.recommend("U1", top=0)
    assert (ranking.rows, ranking.known) == ((), True)


def test_unknown_stories_of_a_history_are_named(recommender: Recommender) -> None:
    ranking = recommender.recommend(history=Profile(clicked=["7", "x1", "9"], skipped=["x2", "x3", "x4"]), top=30)
    assert ranking.notes == (
        "stories of the history that are not in the catalogue are left out: x1, x2, x3 and 1 more",
    )
    same(
        recommender.recommend(history=Profile(clicked=["7", "9"]), top=30),
        Ranking("", True, ranking.rows),
    )
    nothing = recommender.recommend(history=Profile(clicked=["x1"]), top=30)
    assert not nothing.known
    assert nothing.rows == recommender.recommend("nobody", top=30).rows


def test_a_long_history_is_read_from_its_newest_stories(recommender: Recommender) -> None:
    """The dataset has 3 clicked and 4 skipped stories in a profile; all stories of a history are hidden, though."""
    clicked, skipped = [str(story) for story in range(1, 9)], [str(story) for story in range(9, 16)]
    candidates = ["16", "20", "21", "22"]
    newest = Profile(clicked[-3:], skipped[-4:])
    same(
        recommender.recommend(history=Profile(clicked, skipped), candidates=candidates),
        recommender.recommend(history=newest, candidates=candidates),
    )
    shorter = Profile(clicked[-2:], skipped[-4:])
    assert (
        recommender.recommend(history=newest, candidates=candidates).rows
        != recommender.recommend(history=shorter, candidates=candidates).rows
    )
    assert not {*clicked, *skipped} & set(ids(recommender.recommend(history=Profile(clicked, skipped), top=30)))


def test_unknown_stories_do_not_count_as_newest(recommender: Recommender) -> None:
    unknown = [f"x{number}" for number in range(5)]
    first = recommender.recommend(history=Profile(["5", "6", *unknown]), candidates=["21", "22"])
    assert first.rows == recommender.recommend(history=Profile(["5", "6"]), candidates=["21", "22"]).rows


def test_added_stories_are_live(recommender: Recommender) -> None:
    before = recommender.live
    story = NewStory("storm over the bank", "topic1", news_id=501)
    assert recommender.add([story]) == ()
    assert recommender.live == [*before, "501"]
    ranking = recommender.recommend("U1", top=30)
    (row,) = [row for row in ranking.rows if row.news_id == "501"]
    assert row.title == story.title
    as_new = recommender.recommend("U1", new=[story], candidates=["1"], top=30)
    assert row.score == pytest.approx(next(row.score for row in as_new.rows if row.news_id == "501"), abs=1e-6)
    history = Profile(clicked=[501])
    assert recommender.recommend(history=history).known
    assert "501" not in ids(recommender.recommend(history=history, top=30))
    assert recommender.add([]) == ()


def test_labels_that_no_story_has_are_reported_when_a_story_is_added(recommender: Recommender) -> None:
    (note,) = recommender.add([NewStory("storm", "topics1", news_id="a"), NewStory("snow", "topics1", news_id="b")])
    assert note.startswith("no story of the log has the category 'topics1'; the title is ranked without it; did you ")


@pytest.mark.parametrize("story", [NewStory("storm"), NewStory("storm", news_id="")])
def test_a_story_to_add_needs_an_id(recommender: Recommender, story: NewStory) -> None:
    with pytest.raises(SettingsError, match=r"^the story 'storm' has no news_id; give it one$"):
        recommender.add([NewStory("snow", news_id="a"), story])
    assert "a" not in recommender.live


def test_a_story_of_the_same_id_is_replaced(recommender: Recommender) -> None:
    before = next(row for row in recommender.recommend("nobody", top=30).rows if row.news_id == "21")
    count = len(recommender.live)
    recommender.add([NewStory("x", news_id="21"), NewStory("market profit goal", news_id="21")])
    assert len(recommender.live) == count
    after = next(row for row in recommender.recommend("nobody", top=30).rows if row.news_id == "21")
    assert after.title == "market profit goal"
    assert after.score != before.score


def test_removed_stories_are_not_ranked(recommender: Recommender) -> None:
    clicked = recommender.profile("U1").clicked[-1].news_id
    before = recommender.recommend("U1", candidates=["21", "22"])
    recommender.remove([clicked, 22])
    assert "22" not in recommender.live
    assert "22" not in ids(recommender.recommend("U1", top=30))
    with pytest.raises(SettingsError, match=r"^story '22' is not in the catalogue; "):
        recommender.recommend("U1", candidates=["22"])
    after = recommender.recommend("U1", candidates=["21"])
    assert after.notes == ()  # the note is about given histories
    assert after.rows[0].score != next(row.score for row in before.rows if row.news_id == "21")
    with pytest.raises(SettingsError, match=r"^story '22' is not in the catalogue; it cannot be removed$"):
        recommender.remove(["21", "22"])
    assert "21" in recommender.live
    recommender.add([NewStory("storm", news_id="22")])
    assert "22" in ids(recommender.recommend("U1", top=30))


def test_nothing_is_encoded_twice(recommender: Recommender) -> None:
    recommender.recommend_many(USERS, top=30)
    recommender.recommend("U1", candidates=range(1, STORIES + 1))
    assert recommender.stories.encodings == STORIES
    recommender.recommend_many([*USERS, Profile(clicked=["1", "22"])])
    recommender.recommend("nobody")
    assert recommender.stories.encodings == STORIES
    recommender.add([NewStory("storm", news_id="a")])
    for _ in range(3):
        recommender.recommend("U1", candidates=["a", "1"])
    assert recommender.stories.encodings == STORIES + 1


def test_new_stories_are_encoded_once_a_call(recommender: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.bundle.recommender._USERS_AT_ONCE", 2)
    recommender.recommend_many(USERS, candidates=range(1, STORIES + 1))
    before = recommender.stories.encodings
    recommender.recommend_many(USERS, new=[NewStory("storm"), NewStory("snow")])
    assert recommender.stories.encodings == before + 2
    assert len(recommender.stories) == STORIES


def as_written_before(bundle: Bundle, folder: Path) -> Path:
    """A copy of a bundle without the end of the log and the ages of stories."""
    shutil.copytree(bundle.path, folder)
    (folder / "news" / "first_seen.npy").unlink()
    manifest = read_versioned(folder / "manifest.json", version=1, of="a bundle", error=RunError, remedy="train again")
    del manifest["data"]["as_of"], manifest["files"]["news/first_seen.npy"]
    write_versioned(folder / "manifest.json", manifest)
    return folder


def test_a_bundle_written_before_still_ranks(bundle: Bundle, recommender: Recommender, tmp_path: Path) -> None:
    old = Bundle.open(as_written_before(bundle, tmp_path / "old"))
    assert old.as_of is None
    assert "as_of" not in json.loads((old.path / "manifest.json").read_text())["data"]
    previous = Recommender(old, CPU)
    for user in USERS:
        same(previous.recommend(user, top=30), recommender.recommend(user, top=30))
    for moment in (None, datetime(2019, 11, 11)):
        with pytest.raises(RunError, match=r"old was written without the ages of stories; train again to limit them$"):
            previous.recommend("U1", max_age_hours=24, moment=moment)

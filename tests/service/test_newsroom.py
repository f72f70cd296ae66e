"""Rankings and feedback of a running newsroom."""

import gc
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle
from drpn.bundle.recommender import Recommender
from drpn.errors import SettingsError
from drpn.evaluation.scoring import score_impressions
from drpn.progress import Silent
from drpn.service.requests import RankRequest
from drpn.service.users import KnownUser
from drpn.store.records import Click, Erased, Impression, Shown, Story
from live_newsroom import CPU, END, REPLAYED, STORIES, VIEWS, Made, Running, running, scores
from waiting import wait_until


def everything(room: Running, user: str | None, **options: Any) -> dict[str, float]:
    return scores(room.newsroom.rank(RankRequest(user, tuple(STORIES), count=99, **options)))


def test_a_replayed_log_has_the_scores_of_offline_evaluation(room: Running, made: Made) -> None:
    """The last page views of the log: each is ranked, then reported."""
    tables = Tables.from_dataset(made.model.limit(made.whole), CPU, needs=made.model.requirements)
    impressions = made.whole.impressions("test")
    expected = score_impressions(made.model, tables, impressions, Silent())
    offline = {}
    for number in range(len(impressions.users)):
        part = slice(int(impressions.offsets[number]), int(impressions.offsets[number + 1]))
        names = [made.whole.news_ids[row] for row in impressions.candidates[part].tolist()]
        offline[impressions.ids[number]] = dict(zip(names, expected[part].tolist(), strict=True))
    compared = 0
    for view in VIEWS[-REPLAYED:]:
        room.clock.now = view.moment
        request = RankRequest(
            view.user, view.shown, count=99, page=view.page or None, about=view.about, moment=view.moment
        )
        answer = room.newsroom.rank(request)
        room.newsroom.record(view.impression()).result()
        known = offline.get(f"i{view.number:04}")
        if known is None:
            continue
        for story in answer.stories:
            assert story.score == pytest.approx(known[story.news_id], abs=1e-5)
            compared += 1
    assert compared > 2 * REPLAYED


def test_a_ranking_has_the_scores_of_recommend(room: Running, plain: Running, made: Made) -> None:
    for running_room, path in ((room, made.bundle), (plain, made.plain_bundle)):
        recommender = Recommender(Bundle.open(path), CPU)
        for user in ("u1", "u4", "nobody"):
            asked = everything(running_room, user)
            ranking = recommender.recommend(user, candidates=STORIES, moment=running_room.clock.now, top=99)
            offline = {row.news_id: row.score for row in ranking.rows}
            assert asked == pytest.approx({story: offline[story] for story in asked}, abs=1e-5)
            assert len(asked) > 5


def test_a_skip_counts_on_the_next_request(plain: Running, room: Running) -> None:
    for one in (plain, room):
        before = everything(one, "newcomer")
        one.show("newcomer", STORIES[:3])
        after = everything(one, "newcomer", moment=one.clock.now)
        assert after != pytest.approx(before, abs=1e-6)
        profile = one.newsroom.user("newcomer").profile
        assert [entry.news_id for entry in profile.skipped] == STORIES[:3]
        assert set(after) == set(STORIES)  # skipped stories may come back


def test_clicked_stories_never_come_back(plain: Running) -> None:
    everywhere = {story.news_id for story in plain.newsroom.rank(RankRequest("new", count=99)).stories}
    chosen = sorted(everywhere)[:4]
    impression = plain.show("new", chosen, (chosen[0],))
    plain.newsroom.click(Click(impression.impression_id, "new", chosen[1], plain.clock.now)).result()
    for candidates in (None, tuple(STORIES)):
        listed = scores(plain.newsroom.rank(RankRequest("new", candidates, count=99)))
        assert not {chosen[0], chosen[1]} & set(listed)
        assert {chosen[2], chosen[3]} <= set(listed)
    assert set(chosen) <= set(scores(plain.newsroom.rank(RankRequest("other", count=99))))


def test_excluded_taken_down_and_expired_stories_are_not_listed(plain: Running) -> None:
    late = Story("late", "goal storm", "topic1", expires=plain.clock.now + timedelta(hours=2))
    plain.newsroom.put_news([late]).result()
    plain.newsroom.take_down(["n12"]).result()
    for candidates in (None, (*STORIES, "late")):
        request = RankRequest("u1", candidates, ("n11",), 99)
        listed = scores(plain.newsroom.rank(request))
        assert "late" in listed
        assert not {"n11", "n12"} & set(listed)
    plain.clock.now += timedelta(hours=3)
    for candidates in (None, (*STORIES, "late")):
        assert "late" not in scores(plain.newsroom.rank(RankRequest("u1", candidates, count=99)))
    plain.newsroom.put_news([Story("n12", "snow", "topic2")]).result()
    assert "n12" in scores(plain.newsroom.rank(RankRequest("nobody", count=99)))


def test_a_new_story_is_ranked_by_its_text(plain: Running, made: Made) -> None:
    row = next(row for row, name in enumerate(made.short.news_ids) if name == "n20")
    twin = Story("twin", made.short.titles[row], made.short.category(row), published=END)
    other = Story("other", "tariff tariff tariff", "topic0", published=END)
    plain.newsroom.put_news([twin, other]).result()
    recommender = Recommender(Bundle.open(made.plain_bundle), CPU)
    asked = scores(plain.newsroom.rank(RankRequest("u3", ("twin", "other"), count=9)))
    from drpn.bundle.stories import NewStory

    new = [NewStory(story.title, story.category or "", news_id=story.news_id) for story in (twin, other)]
    offline = recommender.recommend("u3", candidates=[], new=new)
    assert asked == pytest.approx({row.news_id: row.score for row in offline.rows}, abs=1e-5)
    assert asked["twin"] != pytest.approx(asked["other"], abs=1e-4)


def test_a_request_without_profile_uses_and_stores_nothing(room: Running) -> None:
    before = room.store.last_sequence()
    answer = room.newsroom.rank(RankRequest("u1", tuple(STORIES), count=99, personalize=False))
    assert scores(answer) == pytest.approx(everything(room, "nobody"), abs=1e-6)
    assert answer.impression_id is None
    assert answer.user_id is None
    assert room.store.last_sequence() == before
    assert len(scores(answer)) == len(STORIES)  # clicked stories are not hidden: nothing is known


def test_unknown_candidates_and_facts_are_noted(room: Running) -> None:
    request = RankRequest("u1", ("n11", "ghost"), about={"income": 3.0}, page="ghost-page")
    answer = room.newsroom.rank(request)
    assert "ghost" not in scores(answer)
    assert any("not in the catalogue are left out: ghost" in note for note in answer.notes)
    assert any("income" in note for note in answer.notes)
    with pytest.raises(SettingsError, match=r"age is 'old'"):
        room.newsroom.rank(RankRequest("u1", ("n11",), about={"age": "old"}))


@pytest.mark.parametrize("which", ["bundle", "plain_bundle"])
def test_a_restart_gives_the_same_scores(tmp_path: Path, made: Made, which: str) -> None:
    path = getattr(made, which)
    with running(tmp_path / "store", path) as first:
        first.newsroom.put_news([Story("late", "storm bank", "topic1", published=END)]).result()
        for view in VIEWS[-REPLAYED:-20]:
            first.clock.now = view.moment
            first.newsroom.record(view.impression()).result()
        first.show("u1", ["n11", "late", "n12"], ("late",))
        first.newsroom.take_down(["n13"]).result()
        now = first.clock.now
        expected = {user: everything(first, user, moment=now) for user in ("u1", "u4", "stranger")}
    with running(tmp_path / "store", path, now=now) as second:
        for user, known in expected.items():
            assert everything(second, user, moment=now) == pytest.approx(known, abs=1e-5)
        assert second.newsroom.figures().last_sequence == second.store.last_sequence()


def test_two_newsrooms_share_a_store(tmp_path: Path, made: Made) -> None:
    with running(tmp_path / "store", made.bundle) as one, running(tmp_path / "store", made.bundle) as other:
        before = everything(other, "u2", moment=one.clock.now)
        one.show("u2", STORIES[:4], (STORIES[0],))
        one.newsroom.put_news([Story("late", "storm", "topic1")]).result()
        now = other.clock.now = one.clock.now
        assert "late" in scores(other.newsroom.rank(RankRequest("u2", ("late",))))
        after = everything(other, "u2", moment=now)
        assert after != pytest.approx({story: before[story] for story in after}, abs=1e-5)
        assert after == pytest.approx(everything(one, "u2", moment=now), abs=1e-5)


@pytest.mark.parametrize("which", ["bundle", "plain_bundle"])
def test_nothing_of_an_erased_user_stays_in_memory(tmp_path: Path, made: Made, which: str) -> None:
    """Neither an open impression nor a profile; those of others stay."""

    def in_memory(user: str) -> set[type]:
        return {
            type(one)
            for one in gc.get_objects()
            if (type(one) is Impression and one.user_id == user)
            or (type(one) is KnownUser and one.profile.clicked and one.profile.clicked[-1].news_id == f"by-{user}")
        }

    with running(tmp_path / "store", getattr(made, which)) as room:
        for user in ("visitor", "other"):
            room.newsroom.put_news([Story(f"by-{user}", "storm", "topic1")]).result()
            room.newsroom.record(Impression(f"first-{user}", user, (Shown(f"by-{user}", True),))).result()
            everything(room, user)
            room.newsroom.record(Impression(f"second-{user}", user, (Shown(STORIES[0]), Shown(STORIES[1])))).result()
            room.newsroom.catch_up()
        room.newsroom.erase("visitor").result()
        room.newsroom.catch_up()
        gc.collect()
        assert in_memory("visitor") == set()
        assert Impression in in_memory("other")


@pytest.mark.parametrize("which", ["bundle", "plain_bundle"])
def test_an_erased_user_is_a_stranger(tmp_path: Path, made: Made, which: str) -> None:
    """Also what the bundle knows of the user is not used any more."""
    with running(tmp_path / "store", getattr(made, which)) as room:
        room.show("u1", STORIES[:3])
        assert everything(room, "u1") != pytest.approx(everything(room, "nobody"), abs=1e-4)
        room.newsroom.erase("u1").result()
        now = room.clock.now
        assert everything(room, "u1") == pytest.approx(everything(room, "nobody"), abs=1e-6)
        assert set(everything(room, "u1")) == set(STORIES)
        assert room.newsroom.user("u1").erased
        assert not list(room.newsroom.export_user("u1"))
        assert isinstance(room.store.events_after(0)[-1].what, Erased)
        room.show("stranger", STORIES[:3], (STORIES[1],))
        assert everything(room, "stranger") != pytest.approx(everything(room, "nobody"), abs=1e-4)
        room.newsroom.erase("stranger").result()
        now = room.clock.now
        assert everything(room, "stranger") == pytest.approx(everything(room, "nobody"), abs=1e-6)
    with running(tmp_path / "store", getattr(made, which), now=now) as room:
        assert everything(room, "u1") == pytest.approx(everything(room, "nobody"), abs=1e-6)
        room.show("u1", STORIES[:3])
        back = everything(room, "u1", moment=room.clock.now)
        room.show("fresh", STORIES[:3])
        assert back != pytest.approx(everything(room, "nobody"), abs=1e-4)


def test_a_user_can_take_away_everything(room: Running) -> None:
    room.show("u1", STORIES[:3], (STORIES[1],))
    events = list(room.newsroom.export_user("u1"))
    assert [type(event.what).__name__ for event in events] == ["Impression"]


def test_rankings_are_logged(room: Running) -> None:
    answer = room.newsroom.rank(RankRequest("u1", tuple(STORIES), count=5, diversity=0.5))
    assert answer.impression_id is not None
    room.newsroom.rank(RankRequest("u2", tuple(STORIES)))
    name, ids = answer.impression_id, tuple(story.news_id for story in answer.stories)
    wait_until(lambda: bool(room.store.rankings([name])))
    logged = room.store.rankings([name])
    assert logged[name].news_ids == ids
    assert logged[name].scores == pytest.approx(tuple(story.score for story in answer.stories))
    assert (logged[name].bundle, logged[name].variant, logged[name].user_id) == ("counts", "a", "u1")


def test_the_whole_catalogue_is_ranked_in_parts(plain: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads and stretches of the tables give the scores of single candidates."""
    whole = everything(plain, "u5")
    monkeypatch.setattr("drpn.bundle.fast_fusion._AT_ONCE", 4)
    monkeypatch.setattr("drpn.bundle.scoring._MANY", 8)
    assert everything(plain, "u5") == pytest.approx(whole, abs=1e-6)
    monkeypatch.setattr("drpn.bundle.scoring._DENSE", 2.0)
    assert everything(plain, "u5") == pytest.approx(whole, abs=1e-6)
    for story in whole:
        alone = scores(plain.newsroom.rank(RankRequest("u5", (story,))))
        assert alone[story] == pytest.approx(whole[story], abs=1e-6)

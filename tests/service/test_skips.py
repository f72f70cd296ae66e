"""Stories that a user was shown and skipped go down: by the model if it reads counts, else by a rule."""

import random
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from drpn.bundle.files import Bundle
from drpn.service.requests import Answer, ListedStory, RankRequest, Rules
from drpn.service.settings import NewsroomSettings
from live_newsroom import END, STORIES, Made, Running, running, scores
from trained_site import TrainedSite, make_trained_site

ALL = tuple(STORIES)
HOUR = timedelta(hours=1)


def ranking(room: Running, user: str = "anna", **options: object) -> Answer:
    return room.newsroom.rank(RankRequest(user, ALL, count=99, **options))  # type: ignore[arg-type]


def story(answer: Answer, news_id: str) -> ListedStory:
    return next(one for one in answer.stories if one.news_id == news_id)


def places(answer: Answer) -> list[str]:
    return [one.news_id for one in answer.stories]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> TrainedSite:
    return make_trained_site(tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("which", ["live", "plain"])
def test_a_skipped_story_goes_down(site: TrainedSite, tmp_path: Path, which: str) -> None:
    """For 200 readers, a random story of the first five; by the counts of the live model, by the rule for the other."""
    bundle = Bundle.open(getattr(site, which) / "bundle")
    assert bundle.as_of is not None
    chance, lost = random.Random(1), []
    with running(tmp_path / "store", bundle.path, now=bundle.as_of + HOUR) as room:
        for user in chance.sample(list(bundle.data.user_ids)[1:], 200):
            request = RankRequest(count=1000)
            skipped = room.newsroom.try_out(user, request=request)[chance.randrange(5)].news_id
            after = room.newsroom.try_out(user, skipped=[skipped], request=request)
            lost += [one.rank_after - one.rank_before for one in after if one.news_id == skipped]
            assert any(one.lowered for one in after) == (which == "plain")
    assert len(lost) == 200
    assert np.mean(np.array(lost) > 0) >= 0.9
    assert np.mean(lost) >= 3
    assert np.mean(np.array(lost) < 0) <= 0.01


def test_without_the_rule_a_plain_model_does_not_lower_it(site: TrainedSite, tmp_path: Path) -> None:
    """The rule is needed: this model raises many stories that were skipped."""
    bundle = Bundle.open(site.plain / "bundle")
    assert bundle.as_of is not None
    off = NewsroomSettings(seconds=30, skip_discount=0)
    down = []
    with running(tmp_path / "store", bundle.path, now=bundle.as_of + HOUR, settings=off) as room:
        for user in list(bundle.data.user_ids)[1:51]:
            first = room.newsroom.try_out(user)[2].news_id
            after = room.newsroom.try_out(user, skipped=[first], request=RankRequest(count=1000))
            down += [one.rank_after > one.rank_before for one in after if one.news_id == first]
    assert np.mean(down) < 0.5


def test_the_rule_changes_the_order_and_not_the_scores(plain: Running, made: Made, tmp_path: Path) -> None:
    off = NewsroomSettings(seconds=30, skip_discount=0)
    with running(tmp_path / "off", made.plain_bundle, settings=off) as other:
        first = places(ranking(plain))[0]
        for room in (plain, other):
            for _ in range(2):
                room.show("anna", [first], complete=True)
        lowered, by_model = ranking(plain), ranking(other)
    assert scores(lowered) == pytest.approx(scores(by_model), abs=1e-6)
    assert {one.news_id: one.plain_rank for one in lowered.stories} == {
        one.news_id: one.plain_rank for one in by_model.stories
    }
    assert places(lowered).index(first) > places(by_model).index(first)
    assert [name for name in places(lowered) if name != first] == [name for name in places(by_model) if name != first]
    assert story(lowered, first).rules == ("shown and skipped 2 times, lowered",)
    assert not any(one.rules for one in lowered.stories if one.news_id != first)
    assert not any(one.rules for one in by_model.stories)
    shown = plain.newsroom.explain("anna", ALL)
    rules = {one.news_id: one.rules for one in shown.candidates if one.rules}
    assert rules == {first: ("shown and skipped 2 times, lowered",)}


def test_the_amount_grows_with_skips_and_fades(plain: Running) -> None:
    """score - 1.5 · times · 2^(-hours / 24) · standard deviation gives the order."""
    skipped = places(ranking(plain))[:3]
    for number, news_id in enumerate(skipped, 1):
        for _ in range(number):
            plain.show("anna", [news_id], complete=True)
    shown = {entry.news_id: entry.moment for entry in plain.newsroom.user("anna").profile.skipped}
    for hours in (0, 24, 60, 200):
        now = plain.clock.now + hours * HOUR
        answer = ranking(plain, moment=now)
        by_model = scores(answer)
        spread = float(np.std(np.array(list(by_model.values()), np.float32)))
        expected = dict(by_model)
        for number, news_id in enumerate(skipped, 1):
            faded = 0.5 ** ((now - shown[news_id]).total_seconds() / 3600 / 24)  # type: ignore[operator]
            if faded >= 0.05:
                expected[news_id] -= 1.5 * number * faded * spread
        assert places(answer) == sorted(expected, key=lambda name: -expected[name])
        words = [one for name in skipped for one in story(answer, name).rules]
        times = ["once", "2 times", "3 times"]
        assert words == ([] if hours == 200 else [f"shown and skipped {many}, lowered" for many in times])


def test_skips_beyond_the_profile_count(plain: Running) -> None:
    first = places(ranking(plain))[0]
    plain.show("anna", [first], complete=True)
    plain.show("anna", [f"other{number}" for number in range(70)], complete=True)
    profile = plain.newsroom.user("anna").profile
    assert first not in {entry.news_id for entry in profile.skipped}
    assert story(ranking(plain), first).rules == ("shown and skipped once, lowered",)


def test_the_rule_holds_with_other_rules_and_mixing(plain: Running) -> None:
    first, second = places(ranking(plain))[:2]
    plain.show("anna", [first, second], complete=True)
    pinned = ranking(plain, rules=Rules(pin=(first,)))
    assert places(pinned)[0] == first
    assert story(pinned, first).rules == ("an editor pinned it to place 1",)
    assert story(pinned, second).rules == ("shown and skipped once, lowered",)
    mixed = ranking(plain, diversity=0.2)
    assert places(mixed).index(first) > 0
    assert "shown and skipped once, lowered" in story(mixed, first).rules


def test_who_is_not_lowered_for(plain: Running, room: Running, made: Made) -> None:
    first = places(ranking(plain))[0]
    plain.show("anna", [first], complete=True)
    assert not any(one.rules for one in ranking(plain, "ben").stories)  # another reader
    assert not any(one.rules for one in ranking(plain, personalize=False).stories)
    assert not any(one.rules for one in ranking(plain, "u1").stories)  # skips of the bundle have no time
    assert Bundle.open(made.plain_bundle).as_of == END
    room.show("anna", [first], complete=True)
    assert not any(one.rules for one in ranking(room).stories)  # the model reads counts
    plain.newsroom.erase("anna").result()
    assert not any(one.rules for one in ranking(plain).stories)


@pytest.mark.parametrize("settings", [{"skip_discount": -1}, {"skip_half_life_hours": 0}])
def test_settings_that_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"skip_\w+ is .*; it takes"):
        NewsroomSettings(**settings)  # type: ignore[arg-type]

"""Rules of editors, exploration, explanations, and what happens when something is too slow, too much or wrong."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from drpn.errors import ImpressionIdError, OverloadError, RunError, SettingsError
from drpn.service import ranker
from drpn.service.desk import Desk
from drpn.service.fallback import Fallback
from drpn.service.newsroom import Newsroom
from drpn.service.rates import wilson
from drpn.service.requests import RankRequest, Rules
from drpn.service.settings import NewsroomSettings
from drpn.service.signing import PREFIX, load_key
from drpn.service.variants import Variant
from drpn.store.records import Click, Impression, Shown, Story
from live_newsroom import STORIES, Made, Running, running, scores
from waiting import ENOUGH

ALL = tuple(STORIES)


def names(room: Running, rules: Rules, **options: Any) -> list[str]:
    request = RankRequest("nobody", ALL, **({"count": 99} | options), rules=rules)
    return [story.news_id for story in room.newsroom.rank(request).stories]


def test_editors_rules(plain: Running) -> None:
    normal = names(plain, Rules())
    pinned = names(plain, Rules(pin=(normal[-1], normal[5])))
    assert pinned == [normal[-1], normal[5], *(story for story in normal[:-1] if story != normal[5])]
    buried = names(plain, Rules(bury=(normal[0], normal[2])))
    assert buried == [normal[1], *normal[3:], normal[0], normal[2]]
    answer = plain.newsroom.rank(RankRequest("nobody", ALL, count=99, rules=Rules(pin=(normal[3],), bury=(normal[0],))))
    first, last = answer.stories[0], answer.stories[-1]
    assert (first.why, first.plain_rank, last.why, last.plain_rank) == ("pinned", 4, "buried", 1)
    assert first.rules == ("an editor pinned it to place 1",)
    assert last.rules == ("an editor put it after all others",)
    assert names(plain, Rules(bury=(normal[0],)), count=3) == normal[1:4]


def test_rules_about_categories_and_age(plain: Running) -> None:
    answer = plain.newsroom.rank(RankRequest("nobody", ALL, count=99, rules=Rules(only_categories=("topic1",))))
    assert {story.category for story in answer.stories} == {"topic1"}
    assert answer.notes == ("20 stories left out: not in topic1",)
    without = plain.newsroom.rank(RankRequest("nobody", ALL, count=99, rules=Rules(without_categories=("topic1",))))
    assert {story.category for story in without.stories} == {"topic0", "topic2"}
    capped = plain.newsroom.rank(RankRequest("nobody", ALL, count=10, rules=Rules(category_share=0.34)))
    by_category = [story.category for story in capped.stories]
    assert {name: by_category.count(name) for name in set(by_category)} == {"topic0": 3, "topic1": 3, "topic2": 3}
    assert any(story.rules for story in capped.stories)
    assert all("has its share of the list" in note for note in capped.notes)
    now = plain.clock.now
    stories = [Story("old", "snow", "topic0", published=now - timedelta(hours=30)), Story("young", "snow", "topic0")]
    plain.newsroom.put_news(stories).result()
    request = RankRequest("nobody", ("old", "young"), rules=Rules(max_age_hours=24))
    assert set(scores(plain.newsroom.rank(request))) == {"young"}
    kept = RankRequest("nobody", ("old", "young"), rules=Rules(max_age_hours=24, pin=("old",)))
    assert set(scores(plain.newsroom.rank(kept))) == {"old", "young"}


def test_rules_bring_nothing_back(plain: Running) -> None:
    plain.show("reader", STORIES[:2], (STORIES[0],))
    plain.newsroom.take_down([STORIES[1]]).result()
    rules = Rules(pin=(STORIES[0], STORIES[1], STORIES[2], "ghost"))
    for candidates in (None, ALL):
        request = RankRequest("reader", candidates, (STORIES[2],), rules=rules)
        assert not {*STORIES[:3], "ghost"} & set(scores(plain.newsroom.rank(request)))


def test_mixing_is_that_of_recommend(plain: Running, made: Made) -> None:
    from drpn.bundle.files import Bundle
    from drpn.bundle.recommender import Recommender

    recommender = Recommender(Bundle.open(made.plain_bundle))
    for options in ({"diversity": 0.6}, {"diversity": 0.4, "diversity_method": "calibrated"}, {"fresh": 0.4}):
        asked = plain.newsroom.rank(RankRequest("nobody", ALL, **options))  # type: ignore[arg-type]
        offline = recommender.recommend("nobody", candidates=ALL, **options)  # type: ignore[arg-type]
        assert [(one.news_id, one.why) for one in asked.stories] == [(row.news_id, row.reason) for row in offline.rows]
        assert all(story.propensity == 1.0 for story in asked.stories)


def test_exploration_says_how_likely_it_was(plain: Running) -> None:
    plainly = names(plain, Rules(), count=5)
    shown: dict[str, int] = {}
    for _ in range(300):
        answer = plain.newsroom.rank(RankRequest("nobody", ALL, count=5, explore=0.5))
        first = answer.stories[0]
        shown[first.news_id] = shown.get(first.news_id, 0) + 1
        expected = 0.5 / len(ALL) + 0.5 * (first.news_id == plainly[0])
        assert first.propensity == pytest.approx(expected)
        assert (first.why == "explored") == (first.news_id != plainly[0])
        assert len({story.news_id for story in answer.stories}) == 5
    assert shown[plainly[0]] / 300 == pytest.approx(0.5 + 0.5 / len(ALL), abs=0.12)
    assert len(shown) > 15


def test_an_impression_id_is_for_its_user_and_a_while(tmp_path: Path, made: Made) -> None:
    key = load_key(tmp_path / "key")
    assert key == load_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with running(tmp_path / "store", made.plain_bundle, key=key) as room:
        answer = room.newsroom.rank(RankRequest("u1", ALL, count=3))
        assert answer.impression_id is not None
        shown = tuple(Shown(story.news_id) for story in answer.stories)
        name = answer.impression_id
        room.newsroom.record(Impression(name, "u1", shown)).result()
        stored = room.store.impression(name)
        assert stored is not None
        assert (stored.impression.bundle, stored.impression.variant) == ("plain", "a")
        forged = [
            (name, "u2"),
            (name[:-1] + ("A" if name[-1] != "A" else "B"), "u1"),
            (f"{PREFIX}x.y", "u1"),
            (PREFIX, "u1"),
            (name.replace(name.split(".")[2], "ffffffff"), "u1"),
        ]
        for wrong, user in forged:
            with pytest.raises(ImpressionIdError, match=r"not one that this user was given"):
                room.newsroom.record(Impression(wrong, user, shown))
            with pytest.raises(ImpressionIdError):
                room.newsroom.click(Click(wrong, user, shown[0].news_id))
        late = room.newsroom.rank(RankRequest("u1", ALL, count=3)).impression_id
        assert late is not None
        room.clock.now += timedelta(hours=25)
        with pytest.raises(ImpressionIdError, match=r"expired at"):
            room.newsroom.record(Impression(late, "u1", shown))
        room.newsroom.click(Click(name, "u1", shown[0].news_id)).result()  # clicks may come later


def test_a_sites_own_ids_carry_no_variant(plain: Running) -> None:
    plain.show("u1", STORIES[:3], impression_id="mine", bundle="other", variant="z")
    stored = plain.store.impression("mine")
    assert stored is not None
    assert stored.impression.bundle is None
    assert plain.newsroom.rates() == []


def test_click_rates_have_intervals(plain: Running) -> None:
    answer = plain.newsroom.rank(RankRequest("u1", ALL, count=4))
    assert answer.impression_id is not None
    shown = tuple(Shown(story.news_id, place == 0) for place, story in enumerate(answer.stories))
    plain.newsroom.record(Impression(answer.impression_id, "u1", shown)).result()
    (rate,) = plain.newsroom.rates()
    assert (rate.bundle, rate.variant, rate.shown, rate.clicked, rate.rate) == ("plain", "a", 4, 1, 0.25)
    assert rate.low < 0.25 < rate.high
    assert wilson(10, 100) == pytest.approx((0.0552, 0.1744), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_users_are_split_by_their_ids(tmp_path: Path, made: Made) -> None:
    with running(tmp_path / "store", made.plain_bundle, made.bundle, shares=(0.3, 0.7)) as room:
        users = [f"user{number}" for number in range(2000)]
        variants = [room.newsroom.variant_of(user) for user in users]
        assert variants == [room.newsroom.variant_of(user) for user in users]
        assert variants.count("a") / len(users) == pytest.approx(0.3, abs=0.04)
        for user, variant in zip(users[:8], variants, strict=False):
            answer = room.newsroom.rank(RankRequest(user, ALL))
            assert (answer.variant, answer.bundle) == (variant, {"a": "plain", "b": "counts"}[variant])
    with (
        running(tmp_path / "other", made.plain_bundle) as room,
        pytest.raises(SettingsError, match=r"shares of the variants"),
    ):
        Newsroom([Variant("a", made.bundle, 0.5)], room.store)


def test_a_slow_model_is_replaced_by_popular_stories(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "store", made.plain_bundle, settings=NewsroomSettings(seconds=0.2)) as room:
        for reader in range(5):
            room.show(f"r{reader}", STORIES[:6], (STORIES[4],))
        room.show("me", STORIES[:6], (STORIES[2],))
        room.newsroom.rank(RankRequest("me", ALL))
        before = room.newsroom.figures().fallbacks  # a busy machine may have needed one already
        compute, hold = Desk.scores, threading.Event()

        def slow(desk: Desk, *arguments: Any, **options: Any) -> Any:
            hold.wait(30)
            return compute(desk, *arguments, **options)

        monkeypatch.setattr(Desk, "scores", slow)
        began = time.perf_counter()
        answer = room.newsroom.rank(RankRequest("me", ALL, ("n10",), 5, diversity=0.5))
        assert time.perf_counter() - began < 15
        assert answer.fallback
        assert answer.stories[0].news_id == STORIES[4]
        assert not {STORIES[2], "n10"} & set(scores(answer))
        assert room.newsroom.rank(RankRequest("me", None, count=5)).fallback
        assert room.newsroom.figures().fallbacks == before + 2
        hold.set()
        monkeypatch.undo()
        for _ in range(50):
            if not (answer := room.newsroom.rank(RankRequest("me", ALL))).fallback:
                break
        assert not answer.fallback


def test_too_many_requests_are_refused(tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = NewsroomSettings(seconds=30, waiting=3)
    with running(tmp_path / "store", made.plain_bundle, settings=settings) as room:
        compute, hold = Desk.scores, threading.Event()

        def slow(desk: Desk, *arguments: Any, **options: Any) -> Any:
            hold.wait(ENOUGH)
            return compute(desk, *arguments, **options)

        monkeypatch.setattr(Desk, "scores", slow)
        waiting = [room.newsroom.submit(RankRequest("u1", ALL)) for _ in range(3)]
        with pytest.raises(OverloadError, match=r"3 requests wait already") as refused:
            room.newsroom.submit(RankRequest("u1", ALL))
        assert refused.value.retry_after > 0
        hold.set()
        assert all(future.result(ENOUGH).stories for future in waiting)
        assert room.newsroom.rank(RankRequest("u1", ALL)).stories
        assert room.newsroom.figures().refused == 1


def test_a_batch_has_the_scores_of_single_requests(room: Running, plain: Running) -> None:
    users = [*(f"u{number}" for number in range(9)), "nobody", "u1"]
    for one in (room, plain):
        alone = [scores(one.newsroom.rank(RankRequest(user, ALL, count=99))) for user in users]
        one.newsroom._desks["a"]._read.clear()
        batches = one.newsroom.figures().batches
        with one.newsroom._lock:  # all wait until the batch can begin
            futures = [one.newsroom.submit(RankRequest(user, ALL, count=99)) for user in users]
        together = [scores(future.result()) for future in futures]
        assert one.newsroom.figures().batches - batches < len(users) - 3
        for single, joint in zip(alone, together, strict=True):
            assert joint == pytest.approx(single, abs=1e-5)


def test_a_fault_in_one_answer_does_not_lose_the_others_of_its_batch(
    plain: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the request whose answer fails gets the error."""
    listing, asked = ranker.answer, []

    def faulty(prepared: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(prepared.request.user_id)
        if prepared.request.user_id == "u2":
            raise ZeroDivisionError
        return listing(prepared, *arguments, **options)

    monkeypatch.setattr(ranker, "answer", faulty)
    with plain.newsroom._lock:
        futures = [plain.newsroom.submit(RankRequest(user, ALL)) for user in ("u0", "u1", "u2", "u3")]
    for future in (*futures[:2], futures[3]):
        assert future.result().stories
        assert not future.result().fallback
    assert asked[-2:] == ["u2", "u3"]
    with pytest.raises(ZeroDivisionError):
        futures[2].result()


def test_a_fault_in_one_fallback_does_not_lose_the_others(plain: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model fails, and so do the popular stories of one reader."""
    popular = Fallback.prepare

    def no_scores(*_: Any, **__: Any) -> Any:
        raise ArithmeticError

    def faulty(fallback: Fallback, request: RankRequest, *arguments: Any) -> Any:
        if request.user_id == "u1":
            raise ZeroDivisionError
        return popular(fallback, request, *arguments)

    monkeypatch.setattr(Desk, "scores", no_scores)
    monkeypatch.setattr(Fallback, "prepare", faulty)
    with plain.newsroom._lock:
        futures = [plain.newsroom.submit(RankRequest(user, ALL)) for user in ("u0", "u1", "u2")]
    assert futures[0].result().fallback
    assert futures[2].result().fallback
    with pytest.raises(ZeroDivisionError):
        futures[1].result()


def test_a_new_bundle_replaces_the_old_one_under_load(tmp_path: Path, made: Made) -> None:
    with running(tmp_path / "store", made.plain_bundle) as room, ThreadPoolExecutor(4) as pool:
        stop = threading.Event()

        def ask(number: int) -> list[str]:
            seen = []
            while not stop.is_set() or not seen:
                seen.append(room.newsroom.rank(RankRequest(f"u{number}", ALL)).bundle)
            return seen

        asking = [pool.submit(ask, number) for number in range(4)]
        for path in (made.bundle, made.plain_bundle, made.bundle):
            room.newsroom.reload(path)
            assert room.newsroom.bundles == {"a": path}
        stop.set()
        seen = [name for future in asking for name in future.result(60)]
        assert set(seen) >= {"plain", "counts"}
        assert room.newsroom.rank(RankRequest("u1", ALL)).bundle == "counts"


def test_a_new_bundle_knows_what_happened_since(tmp_path: Path, made: Made) -> None:
    with running(tmp_path / "store", made.bundle) as room:
        room.newsroom.put_news([Story("late", "storm", "topic1")]).result()
        room.show("u1", [*STORIES[:3], "late"], ("late",))
        before = scores(room.newsroom.rank(RankRequest("u1", ALL, count=99)))
        room.newsroom.reload(made.bundle)
        assert scores(room.newsroom.rank(RankRequest("u1", ALL, count=99))) == pytest.approx(before, abs=1e-5)


def test_a_broken_bundle_is_refused(tmp_path: Path, made: Made, plain: Running) -> None:
    before = scores(plain.newsroom.rank(RankRequest("u1", ALL, count=99)))

    def copy(name: str) -> Path:
        return Path(copytree(made.bundle, tmp_path / name))

    changed, missing, newer = copy("changed"), copy("missing"), copy("newer")
    weights = bytearray((changed / "model.safetensors").read_bytes())
    weights[-5] ^= 1
    (changed / "model.safetensors").write_bytes(weights)
    (missing / "news" / "category.npy").unlink()
    manifest = (newer / "manifest.json").read_text()
    (newer / "manifest.json").write_text(manifest.replace('"format": 1', '"format": 99'))
    for path in (changed, missing, newer, tmp_path / "nowhere"):
        with pytest.raises(RunError):
            plain.newsroom.reload(path)
        assert plain.newsroom.bundles == {"a": made.plain_bundle}
    assert scores(plain.newsroom.rank(RankRequest("u1", ALL, count=99))) == before
    with pytest.raises(SettingsError, match=r"there is no variant 'z'"):
        plain.newsroom.reload(made.bundle, "z")


def test_an_explanation_names_weights_and_influences(plain: Running) -> None:
    explanation = plain.newsroom.explain("u1", ALL[:6])
    assert explanation.aggregator == "semantic denoise"
    for side in (explanation.clicked, explanation.skipped):
        assert side
        sums = np.sum([list(story.weights.values()) for story in side], axis=0)
        np.testing.assert_allclose(sums, 1, atol=1e-5)
    profile = plain.newsroom.user("u1").profile
    assert [story.news_id for story in explanation.clicked] == [entry.news_id for entry in reversed(profile.clicked)]
    shown = [candidate.score for candidate in explanation.candidates]
    assert shown == sorted(shown, reverse=True)
    best = explanation.candidates[0]
    changes = [abs(influence.change) for influence in best.influences]
    assert 0 < len(changes) <= 5
    assert changes == sorted(changes, reverse=True)
    first = plain.newsroom.explain("u1", count=3)
    listed = plain.newsroom.rank(RankRequest("u1", count=3))
    assert [one.news_id for one in first.candidates] == [story.news_id for story in listed.stories]


def test_an_influence_is_the_score_less_that_without_the_story(plain: Running) -> None:
    plain.show("two", ["n11", "n12"], ("n11", "n12"))
    plain.show("one", ["n11"], ("n11",))
    candidates = ("n20", "n21")
    with_it, without = (scores(plain.newsroom.rank(RankRequest(user, candidates))) for user in ("two", "one"))
    for candidate in plain.newsroom.explain("two", candidates).candidates:
        changes = {influence.news_id: influence.change for influence in candidate.influences}
        expected = with_it[candidate.news_id] - without[candidate.news_id]
        assert changes["n12"] == pytest.approx(expected, abs=1e-5)


def test_feedback_can_be_tried_without_storing_it(plain: Running) -> None:
    user, last = "u2", plain.store.last_sequence()
    moved = plain.newsroom.try_out(user, skipped=["n15"], request=RankRequest(candidates=ALL, count=99))
    before = scores(plain.newsroom.rank(RankRequest(user, ALL, count=99)))
    assert {one.news_id: one.score_before for one in moved} == pytest.approx(before, abs=1e-6)
    assert [one.rank_after for one in moved] == list(range(1, len(moved) + 1))
    assert plain.store.last_sequence() == last
    plain.show(user, ["n15"], complete=True)
    after = scores(plain.newsroom.rank(RankRequest(user, ALL, count=99)))
    assert {one.news_id: one.score_after for one in moved} == pytest.approx(after, abs=1e-5)
    clicked = plain.newsroom.try_out(user, clicked=["n20"], request=RankRequest(candidates=ALL, count=99))
    assert "n20" not in {one.news_id for one in clicked}
    with pytest.raises(SettingsError, match=r"story 'ghost' is not in the catalogue"):
        plain.newsroom.try_out(user, clicked=["ghost"])


def test_what_cannot_be_asked(plain: Running) -> None:
    with pytest.raises(SettingsError, match=r"count is 5,000"):
        plain.newsroom.rank(RankRequest("u1", count=5000))
    with pytest.raises(SettingsError, match=r"explore is 2"):
        RankRequest("u1", explore=2)
    with pytest.raises(SettingsError, match=r"category_share is 3"):
        Rules(category_share=3)
    with pytest.raises(SettingsError, match=r"diversity is -1"):
        RankRequest("u1", diversity=-1)


def test_stale_impressions_are_closed(plain: Running) -> None:
    plain.show("u1", STORIES[:3])
    assert plain.newsroom.close_stale(1.0) == 0
    plain.clock.now += timedelta(hours=2)
    assert plain.newsroom.close_stale(1.0) == 1
    assert not plain.store.open_impressions("u1")


def test_a_model_that_fails_is_replaced_by_popular_stories(
    plain: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: Any, **_options: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(Desk, "scores", broken)
    answer = plain.newsroom.rank(RankRequest("u1", ALL))
    assert answer.fallback
    assert len(answer.stories) == 10
    (line,) = [record.getMessage() for record in caplog.records if record.name == "drpn.service.ranker"]
    assert "RuntimeError in broken:" in line
    assert "out of order" not in line  # the message of an error may quote a client
    monkeypatch.undo()
    assert not plain.newsroom.rank(RankRequest("u1", ALL)).fallback

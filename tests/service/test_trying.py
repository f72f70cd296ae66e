"""Feedback that is tried gives what feedback that is stored gives."""

from datetime import timedelta

import pytest

from drpn.service.requests import RankRequest
from drpn.store.records import Click, Impression, Shown
from live_newsroom import STORIES, Running, scores

ALL = tuple(STORIES)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize("page", [None, "n30"])
@pytest.mark.parametrize("user", ["u1", "u4", "newcomer", "erased"])
def test_what_is_tried_is_what_happens(room: Running, plain: Running, user: str, page: str | None) -> None:
    for one in (room, plain):
        if user == "erased":
            one.newsroom.erase("erased").result()
        one.show("u1", STORIES[5:9], (STORIES[6],), complete=True)
        one.show("u4", STORIES[3:8])  # open: the next request closes it
        late = one.show("u4", STORIES[7:12], device="phone")
        one.newsroom.click(Click(late.impression_id, "u4", STORIES[9], one.clock.now)).result()
        now, events = one.clock.now, one.store.last_sequence()
        for clicked, skipped in (((), ("n15",)), (("n20", "n17"), ("n15", "n22")), (("n16",), ())):
            request = RankRequest(candidates=ALL, count=99, moment=now, page=page)
            moved = one.newsroom.try_out(user, clicked=clicked, skipped=skipped, request=request)
            assert one.store.last_sequence() == events
            again = one.newsroom.try_out(user, clicked=clicked, skipped=skipped, request=request)
            assert again == moved  # nothing is left of the first
            # really: the page view, then the request
            one.clock.now = now
            shown = tuple(Shown(story, story in clicked) for story in (*clicked, *skipped))
            one.newsroom.record(Impression(f"real-{now}", user, shown, now - SECOND, page=page)).result()
            answer = one.newsroom.rank(RankRequest(user, ALL, count=99, moment=now, page=page))
            real = scores(answer)
            assert {story.news_id: story.score_after for story in moved} == pytest.approx(real, abs=1e-5)
            assert [story.news_id for story in moved] == [story.news_id for story in answer.stories]
            if one is room:  # counts change at any rate; a profile may have the stories already
                assert {story.news_id: story.score_before for story in moved} != pytest.approx(real, abs=1e-4)
            now += timedelta(minutes=30)
            one.clock.now = now
            events = one.store.last_sequence()


def test_nothing_tried_is_the_next_ranking(room: Running, plain: Running) -> None:
    for one in (room, plain):
        one.show("u2", STORIES[3:8])
        request = RankRequest("u2", ALL, count=99, moment=one.clock.now)
        moved = one.newsroom.try_out("u2", request=request)
        real = scores(one.newsroom.rank(request))
        for score in ("score_before", "score_after"):
            assert {story.news_id: getattr(story, score) for story in moved} == pytest.approx(real, abs=1e-5)


def test_a_skip_of_a_clicked_story_changes_no_profile(plain: Running) -> None:
    plain.show("u2", ["n15"], ("n15",), complete=True)
    request = RankRequest("u2", ALL, count=99, moment=plain.clock.now)
    for story in plain.newsroom.try_out("u2", skipped=["n15"], request=request):
        assert story.score_after == pytest.approx(story.score_before, abs=1e-6)

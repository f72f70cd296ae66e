"""The page over real newsrooms: models with and without counts, denoising and weights."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from drpn.bundle.card import card
from drpn.bundle.files import Bundle
from drpn.service.app import create_app
from drpn.service.http.settings import HttpSettings
from drpn.service.requests import RankRequest
from drpn.store.records import Story
from live_newsroom import Made, Running, make_bundle, make_model, running
from service.page.test_states import front, send


@contextmanager
def visiting(room: Running) -> Iterator[TestClient]:
    with TestClient(create_app(room.newsroom, room.store, HttpSettings(allowed_hosts=("testserver",)))) as visitor:
        yield visitor


def ids(text: str) -> list[str]:
    """The ids of the front page, in order."""
    return re.findall(r'<bdi class="id">(.*?)</bdi>', text)


def _scores(text: str) -> list[str]:
    return re.findall(r"score (\S+) ", text)


@pytest.mark.parametrize("name", ["room", "plain"])
def test_front_page_is_the_ranking(request: pytest.FixtureRequest, name: str) -> None:
    room: Running = request.getfixturevalue(name)
    room.newsroom.put_news([Story("fresh", "storm snow sunny", "topic1")]).result()
    with visiting(room) as visitor:
        text = visitor.get("/?user=u1").text
        assert "Semantic <br>Denoising" in text
        assert "Semantic <br>Content-based" in text
        assert len(set(re.findall(r'class="shade-(\d)"', text))) > 1
        assert re.search(r'class="change">[+−]\d', text)
        events = room.store.last_sequence()
        changed = send(visitor, "u1", add="skip:fresh")
        assert "With 1 change tried" in changed
        assert "In the profile already" not in changed
        assert _scores(text) != _scores(changed)
        assert "pinned; place" in send(visitor, "u1", add=f"pin:{ids(text)[4]}")
        assert len(front(text)) == 10
        assert room.store.last_sequence() == events
        assert room.newsroom.figures().rankings == 0
        assert ids(text) == [story.news_id for story in room.newsroom.rank(RankRequest("u1")).stories]


@pytest.mark.parametrize("kind", ["click", "skip"])
def test_a_trial_moves_the_list_like_real_feedback(plain: Running, kind: str) -> None:
    plain.newsroom.put_news([Story("fresh", "storm snow sunny", "topic1")]).result()
    with visiting(plain) as visitor:
        before = visitor.get("/?user=u2").text
        tried = send(visitor, "u2", add=f"{kind}:fresh")
        plain.show("u2", ["fresh"], ("fresh",) if kind == "click" else (), complete=True)
        after = visitor.get("/?user=u2").text
        assert _scores(after) == _scores(tried) != _scores(before)
        assert ids(after) == ids(tried)
        assert "In the profile already" in send(visitor, "u2", add=f"{kind}:fresh")


def test_a_skip_is_seen_to_lower_a_story(plain: Running, room: Running) -> None:
    """By the rule the page names it, on the front page and off it; a model that reads counts needs none."""
    with visiting(plain) as visitor:
        first = ids(visitor.get("/?user=new").text)[0]
        tried = send(visitor, "new", add=f"skip:{first}")
        words = "shown and skipped once, lowered"
        if first in ids(tried):
            assert f"Rule: {words}" in tried
            assert ids(tried).index(first) > 0
        else:
            assert re.search(rf"was place 1, now place \d+, rule: {words}", tried)
        plain.show("new", [first], complete=True)
        plain.show("new", [first], complete=True)
        plain.clock.now += timedelta(hours=80)  # faded, so that it is on the front page again
        assert "Rule: shown and skipped 2 times, lowered" in visitor.get("/?user=new").text
    with visiting(room) as visitor:
        first = ids(visitor.get("/?user=new").text)[0]
        assert "lowered" not in send(visitor, "new", add=f"skip:{first}")


def test_readers_to_choose_from(plain: Running) -> None:
    def listed(visitor: TestClient) -> list[str]:
        return re.findall(r'<a href="/\?user=(\w+)"', visitor.get("/").text)

    with visiting(plain) as visitor:
        before = listed(visitor)
        assert sorted(before) == [f"u{number}" for number in range(9)]  # those of the bundle
        plain.show(before[5], ["n10"], complete=True)
        assert listed(visitor)[0] == before[5]
        plain.newsroom.erase(before[0]).result()
        assert before[0] not in listed(visitor)


def test_new_reader_and_card(room: Running) -> None:
    with visiting(room) as visitor:
        text = visitor.get("/?user=somebody-new").text
    assert "Nothing yet." in text
    assert len(front(text)) == 10
    assert "Ranked for a reader nobody knows" in text
    assert "<bdi>drpn-live</bdi>" in text
    assert "The bundle has no metrics." in text
    assert "Trained at a time that is not known · bundle written <time" in text


def test_the_card_says_when_the_model_was_trained(run_path: Path, tmp_path: Path) -> None:
    bundle = Bundle.open(run_path / "bundle")
    moment = datetime.fromisoformat(bundle.manifest["trained"])
    assert moment.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - moment) < timedelta(hours=2)
    words = f"{moment:%Y-%m-%d %H:%M} UTC"
    assert f"Trained: {words}." in (run_path / "bundle" / "README.md").read_text()
    assert card(bundle.manifest | {"trained": None}).endswith("Trained: not known.\n")
    with running(tmp_path / "trained", run_path / "bundle") as room, visiting(room) as visitor:
        text = visitor.get("/").text
    assert f'Trained <time datetime="{moment.isoformat()}">' in text
    assert f"Trained: {words}." in text


def test_models_without_denoising_or_weights(made: Made, tmp_path: Path) -> None:
    for name, message in (
        ("drpn-d", "This model has no denoising weights"),
        ("nrms", "This model does not weigh the stories of a profile"),
    ):
        bundle = make_bundle(tmp_path / name, made.short, make_model(made.short, name), name)
        with running(tmp_path / f"store-{name}", bundle) as room, visiting(room) as visitor:
            answer = visitor.get("/?user=u1")
            assert answer.status_code == 200
            assert message in answer.text
            assert len(front(answer.text)) == 10


def test_two_variants_have_two_cards(made: Made, tmp_path: Path) -> None:
    with running(tmp_path / "two", made.bundle, made.plain_bundle) as room, visiting(room) as visitor:
        text = visitor.get("/").text
    assert "Variant <bdi>a</bdi>: <bdi>drpn-live</bdi>" in text
    assert "Variant <bdi>b</bdi>: <bdi>drpn</bdi>" in text

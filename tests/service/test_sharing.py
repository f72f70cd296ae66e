"""Newsrooms that share a folder: they rank as one of its own does, and encode users and stories once."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from drpn.service.newsroom import Newsroom
from drpn.service.requests import RankRequest
from drpn.service.variants import Variant
from drpn.store.opening import open_store
from drpn.store.records import Story
from live_newsroom import END, PATIENT, Made

USERS = [f"u{number}" for number in range(9)]


@pytest.fixture(params=["drpn", "drpn-live"])
def newsrooms(request: pytest.FixtureRequest, made: Made, tmp_path: Path) -> Iterator[tuple[Newsroom, ...]]:
    """One that shares nothing, then two that share a folder; all on one store."""
    bundle = made.plain_bundle if request.param == "drpn" else made.bundle
    (tmp_path / "shared").mkdir()
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(f"sqlite:///{tmp_path}/store.db", clock=lambda: END)))
        yield tuple(
            stack.enter_context(
                closing(Newsroom([Variant("A", bundle)], store, PATIENT, clock=lambda: END, shared=shared))
            )
            for shared in (None, tmp_path / "shared", tmp_path / "shared")
        )


def scores(newsroom: Newsroom, user: str) -> dict[str, float]:
    answer = newsroom.rank(RankRequest(user, count=30))
    assert not answer.fallback
    return {story.news_id: story.score for story in answer.stories}


def no_reading(newsroom: Newsroom, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk,) = newsroom._desks.values()
    read = desk.scorer.read

    def only_nobody(users: Any) -> Any:
        assert not users, "a user was encoded again"
        return read(users)

    monkeypatch.setattr(desk.scorer, "read", only_nobody)


def test_scores_are_those_of_a_newsroom_alone(newsrooms: tuple[Newsroom, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    alone, first, second = newsrooms
    for user in USERS:
        expected = scores(alone, user)
        assert scores(first, user) == pytest.approx(expected, abs=1e-5)
    scores(second, USERS[0])  # the first user tells it the shapes
    no_reading(second, monkeypatch)
    for user in USERS[1:]:
        assert scores(second, user) == pytest.approx(scores(alone, user), abs=1e-5)


def test_a_changed_title_is_known_to_all(newsrooms: tuple[Newsroom, ...]) -> None:
    alone, first, second = newsrooms
    for user in USERS:
        scores(first, user)
        scores(second, user)
    titles = [Story(f"n{number}", "storm storm snow bank", "topic1") for number in range(10, 40, 2)]
    alone.put_news(titles).result()
    for user in USERS:
        expected = scores(alone, user)
        assert scores(first, user) == pytest.approx(expected, abs=1e-5)
        assert scores(second, user) == pytest.approx(expected, abs=1e-5)

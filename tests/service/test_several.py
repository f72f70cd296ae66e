"""Several services on one store in PostgreSQL, as on several machines, and several workers of one service."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from postgres_server import PostgresServer
from service.server import FOUR, Client, Server, serving

pytestmark = pytest.mark.real


Caller = Server | Client


@pytest.fixture(scope="module", params=["services", "workers", "workers on SQLite"])
def servers(
    run_path: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Caller, Caller]]:
    """Two services, or connections to two workers of one."""
    with ExitStack() as stack:
        if request.param == "services":
            url = request.getfixturevalue("postgres").database()
            first, second = (stack.enter_context(serving(run_path, url)) for _ in range(2))
            yield first, second
        elif request.param == "workers":
            url = request.getfixturevalue("postgres").database()
            yield some_clients(stack.enter_context(serving(run_path, url, *FOUR)))
        else:
            file = tmp_path_factory.mktemp("several") / "store.db"
            yield some_clients(stack.enter_context(serving(run_path, file, "--workers", 2)))


def some_clients(server: Server) -> tuple[Client, Client]:
    first, *_, last = server.clients()
    return first, last


def test_feedback_through_one_counts_in_the_next_request_through_another(servers: tuple[Caller, Caller]) -> None:
    first, second = servers
    for number in range(5):
        status, ranking = first.call("POST", "/v1/rank", {"user_id": "anna", "count": 5})
        assert status == 200
        clicked = ranking["stories"][0]["news_id"]
        page = {
            "impression_id": ranking["impression_id"],  # signed by the first, and checked by the second
            "user_id": "anna",
            "shown": [{"news_id": row["news_id"], "clicked": row["news_id"] == clicked} for row in ranking["stories"]],
        }
        status, answer = second.call("POST", "/v1/impressions", page, Idempotency_Key=f"k{number}")
        assert (status, answer["repeated"]) == (200, False)
        status, answer = first.call("POST", "/v1/impressions", page, Idempotency_Key=f"k{number}")
        assert (status, answer["repeated"]) == (200, True)
        status, again = first.call("POST", "/v1/rank", {"user_id": "anna", "count": 1000})
        assert clicked not in [row["news_id"] for row in again["stories"]]
        profiles = [server.call("GET", "/v1/users/anna")[1] for server in servers]
        assert profiles[0] == profiles[1]
        assert clicked in [entry["news_id"] for entry in profiles[0]["clicked"]]


def test_stories_and_takedowns_reach_every_service(servers: tuple[Caller, Caller]) -> None:
    first, second = servers
    story = {"news_id": "flash", "title": "Storm closes the harbours", "category": "weather"}

    def ranked(server: Caller) -> bool:
        _, ranking = server.call("POST", "/v1/rank", {"user_id": "ben", "count": 1000})
        return "flash" in [row["news_id"] for row in ranking["stories"]]

    assert first.call("PUT", "/v1/news", {"stories": [story]})[0] == 200
    assert ranked(first)
    assert ranked(second)
    assert second.call("DELETE", "/v1/news/flash")[0] == 200
    assert not ranked(second)
    assert not ranked(first)


def test_an_erased_user_is_gone_everywhere(servers: tuple[Caller, Caller]) -> None:
    first, second = servers
    story = first.call("POST", "/v1/rank", {"user_id": "emil", "count": 1})[1]["stories"][0]["news_id"]
    page = {"impression_id": "e1", "user_id": "emil", "shown": [{"news_id": story, "clicked": True}]}
    assert first.call("POST", "/v1/impressions", page)[0] == 200
    assert second.call("GET", "/v1/users/emil")[0] == 200
    assert is_known(second, "emil")
    assert first.call("DELETE", "/v1/users/emil")[0] == 200
    for server in servers:
        assert not is_known(server, "emil")
        assert not server.call("GET", "/v1/users/emil")[1].get("clicked")


def is_known(server: Caller, user: str) -> bool:
    """Whether the model knows a user; a busy machine may answer with popular stories, which do not say it."""
    for _ in range(50):
        answer = server.call("POST", "/v1/rank", {"user_id": user, "count": 3})[1]
        if not answer["fallback"]:
            return bool(answer["known"])
    raise AssertionError("the model never answered in time")


def test_the_password_is_not_printed(run_path: Path, postgres: PostgresServer) -> None:
    url = postgres.database().replace("drpn@", "drpn:topsecret@")
    with serving(run_path, url) as server:
        server.call("GET", "/healthz")
        assert "store: postgresql://drpn:***@" in "".join(server.lines)
        assert "topsecret" not in "".join(server.lines)

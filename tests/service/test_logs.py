"""Log lines say what happened, and nothing about anybody."""

import logging
import re

import pytest
from starlette.testclient import TestClient

from drpn.store.base import Store
from drpn.store.keys import SCOPES, create_key
from service.conftest import Connect
from service.stand_in import StandIn
from service.test_access import NOW, bearer

SECRETS = ["reader-4711", "story-0815", "page-2342", "Secret title", "idem-99", "agent-x", "evil.example"]
LINE = re.compile(r"(GET|PUT|POST|DELETE|OTHER) (\S+) (\d{3}) \d+\.\d ms [0-9a-f]{16}")


def use(client: TestClient, headers: dict[str, str]) -> None:
    """Call every route, with success and without."""
    headers = headers | {"Idempotency-Key": "idem-99", "User-Agent": "agent-x"}
    story = {"news_id": "story-0815", "title": "Secret title"}
    page = {"impression_id": "page-2342", "user_id": "reader-4711", "shown": [{"news_id": "story-0815"}]}
    for secret in (headers, {}):
        client.put("/v1/news", json={"stories": [story]}, headers=secret)
        client.post("/v1/impressions", json=page | {"complete": True}, headers=secret | {"Idempotency-Key": "idem-2"})
        click = {"impression_id": "page-2342", "user_id": "reader-4711", "news_id": "story-0815"}
        client.post("/v1/clicks", json=click, headers=secret)
        client.post("/v1/rank", json={"user_id": "reader-4711", "candidates": ["story-0815"]}, headers=secret)
        client.post("/v1/rank", content='{"reader-4711"', headers=secret | {"Content-Type": "application/json"})
        client.post("/v1/rank?user=reader-4711", json={"reader-4711": 1}, headers=secret)
        for path in ("", "/explanation", "/export"):
            client.get(f"/v1/users/reader-4711{path}", headers=secret)
        client.get("/v1/reader-4711", headers=secret)
        client.get("/metrics", headers=secret | {"Host": "evil.example"})
        client.delete("/v1/news/story-0815", headers=secret)
        client.delete("/v1/users/reader-4711", headers=secret)
        client.request("READER-4711", "/v1/rank", headers=secret)


def test_no_log_line_holds_what_a_client_sent(
    connect: Connect, store: Store, stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key, _ = create_key(store, "website", SCOPES, NOW)
    client = connect()
    use(client, bearer(key))
    stand_in.fails = KeyError("reader-4711")
    client.post("/v1/rank", json={"user_id": "reader-4711"}, headers=bearer(key))
    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore", "asyncio"))]
    text = "\n".join(logging.Formatter().format(record) for record in ours)
    for secret in (*SECRETS, key, key.rsplit("_", 1)[1]):
        assert secret.lower() not in text.lower(), secret
    lines = [record.getMessage() for record in ours if record.levelno == logging.INFO]
    assert len(lines) == 2 * 14 + 1
    matched = [LINE.fullmatch(line) for line in lines]
    assert all(matched), lines
    routes = {match[2] for match in matched if match}
    assert {"/v1/users/{user_id}", "/v1/users/{user_id}/export", "/v1/news/{news_id}", "/v1/rank", "-"} <= routes
    assert {match[3] for match in matched if match} >= {"200", "400", "401", "404", "405", "409", "422", "500"}


def test_an_unexpected_error_leaves_its_place_and_request_id(
    client: TestClient, stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in.fails = ZeroDivisionError("private words")
    answer = client.post("/v1/rank", json={"user_id": "anna"})
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "ZeroDivisionError in submit:" in errors[0]
    assert answer.headers["x-request-id"] in errors[0]
    assert "private words" not in errors[0]

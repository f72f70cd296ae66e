"""What clients may not send: every refusal is a clear 4xx or 503 in one JSON shape."""

import asyncio
import json
import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from starlette.testclient import TestClient

from drpn.errors import (
    EventTimeError,
    ExplainError,
    ImpressionIdError,
    NotShownError,
    OutputError,
    OverloadError,
    RefusedError,
    RepeatedKeyError,
    RunError,
    SettingsError,
    StoreBusyError,
    StoreError,
    UnknownImpressionError,
)
from service.conftest import Connect
from service.stand_in import StandIn
from service.test_routes import PAGE

JSON = {"Content-Type": "application/json"}


def refused(answer: Any, status: int, code: str, field: str | None = None) -> dict[str, str]:
    """The error of an answer, which has the one shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    error: dict[str, str] = answer.json()["error"]
    assert {"code", "message"} <= set(error) <= {"code", "message", "field", "remedy"}
    assert (error["code"], error.get("field")) == (code, field)
    assert len(answer.content) < 2000
    return error


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "EOF"),
        (b"{", "EOF"),
        (b"[1,]", "trailing comma"),
        (b'{"user_id": "a"} x', "trailing characters"),
        (b'{"user_id": "\xff"}', "unicode"),
        (b'{"user_id": "\\ud800"}', "surrogate"),
        (b'{"user_id": "a\x01"}', "control character"),
        (b"[" * 100_000, "recursion limit"),
        (b'{"about":' * 100_000, "recursion limit"),
        (b'{"count": ' + b"9" * 10_000 + b"}", "number out of range"),
    ],
)
def test_bodies_that_are_not_json(client: TestClient, body: bytes, message: str) -> None:
    error = refused(client.post("/v1/rank", content=body, headers=JSON), 400, "bad_json")
    assert message.lower() in error["message"].lower() or message == "surrogate"


@pytest.mark.parametrize(
    ("path", "change", "field"),
    [
        ("/v1/rank", {"user_id": ""}, "user_id"),
        ("/v1/rank", {"user_id": "  "}, "user_id"),
        ("/v1/rank", {"user_id": "a\u0000b"}, "user_id"),
        ("/v1/rank", {"user_id": "a\nb"}, "user_id"),
        ("/v1/rank", {"user_id": "a\u0085b"}, "user_id"),
        ("/v1/rank", {"user_id": "x" * 257}, "user_id"),
        ("/v1/rank", {"user_id": 3}, "user_id"),
        ("/v1/rank", {"user_id": True}, "user_id"),
        ("/v1/rank", {"count": 0}, "count"),
        ("/v1/rank", {"count": 10.5}, "count"),
        ("/v1/rank", {"count": "10"}, "count"),
        ("/v1/rank", {"count": 10**30}, "count"),
        ("/v1/rank", {"diversity": 1.1}, "diversity"),
        ("/v1/rank", {"diversity": float("nan")}, "diversity"),
        ("/v1/rank", {"diversity": float("inf")}, "diversity"),
        ("/v1/rank", {"fresh": -0.1}, "fresh"),
        ("/v1/rank", {"diversity_method": "best"}, "diversity_method"),
        ("/v1/rank", {"candidates": "chess"}, "candidates"),
        ("/v1/rank", {"candidates": ["chess", 1]}, "candidates.1"),
        ("/v1/rank", {"about": {"device": "x\u001b[31m"}}, "about.device"),
        ("/v1/rank", {"about": {"age": float("-inf")}}, "about.age"),
        ("/v1/rank", {"rules": {"pin": [""]}}, "rules.pin.0"),
        ("/v1/rank", {"usr_id": "anna"}, "usr_id"),
        ("/v1/rank", {"nan": float("nan")}, "nan"),
        ("/v1/rank", {"\u202e\n": 1}, "\\u202e\\n"),
        ("/v1/impressions", {"shown": []}, "shown"),
        ("/v1/impressions", {"shown": [{"news_id": "x", "score": float("nan")}]}, "shown.0.score"),
        ("/v1/impressions", {"shown": [{"news_id": str(number)} for number in range(1001)]}, "shown"),
        ("/v1/impressions", {"time": "yesterday"}, "time"),
        ("/v1/impressions", {"time": 12}, "time"),
        ("/v1/impressions", {"time": "0001-01-01T00:00:00+14:00"}, "time"),
        ("/v1/impressions", {"time": "9999-12-31T23:59:59-14:00"}, "time"),
        ("/v1/clicks", {"news_id": None}, "news_id"),
        ("/v1/reload", {"bundle": "../x"}, "bundle"),
    ],
)
def test_fields_out_of_their_limits(client: TestClient, path: str, change: dict[str, Any], field: str) -> None:
    whole = {
        "/v1/rank": {"user_id": "anna"},
        "/v1/impressions": PAGE,
        "/v1/clicks": {"impression_id": "page-1", "user_id": "anna", "news_id": "storm"},
        "/v1/reload": {},
    }[path]
    refused(client.post(path, content=json.dumps(whole | change), headers=JSON), 422, "invalid", field)


def test_a_missing_field_is_named(client: TestClient) -> None:
    error = refused(client.post("/v1/clicks", json={"user_id": "a"}), 422, "invalid", "impression_id")
    assert "required" in error["message"]
    assert "1 more" in error["message"]


def test_titles_of_a_million_letters(client: TestClient) -> None:
    story = {"news_id": "long", "title": "x" * 1_000_000}
    error = refused(client.put("/v1/news", json={"stories": [story]}), 422, "invalid", "stories.0.title")
    assert "1000 characters" in error["message"]


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_the_limit_is_refused_while_it_is_read(connect: Connect, announced: bool) -> None:
    client, sent = connect(body_bytes=100_000), 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 5_000_000:
            sent += 10_000
            yield b" " * 10_000

    content = b" " * 100_001 if announced else endless()
    answer = client.post("/v1/rank", content=content, headers=JSON)
    refused(answer, 413, "too_large")
    assert answer.headers["connection"] == "close"
    assert client.post("/v1/rank", content=b'{"user_id":"a"}' + b" " * 99_000, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "a/b"]
)
def test_bodies_that_are_not_marked_as_json(client: TestClient, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.post("/v1/rank", content=b'{"user_id":"a"}', headers=headers)
    refused(answer, 415, "not_json", "Content-Type")
    marked = client.post(
        "/v1/rank", content=b'{"user_id":"a"}', headers={"Content-Type": "application/json; charset=utf-8"}
    )
    assert marked.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "no_route"),
        ("GET", "/v1/users", 404, "no_route"),
        ("GET", "/v1/users/", 404, "no_route"),
        ("GET", "/v1/rank/", 404, "no_route"),
        ("GET", "//evil.example/%2e%2e", 404, "no_route"),
        ("GET", "/v1/../../etc/passwd", 404, "no_route"),
        ("GET", "/v1/rank", 405, "no_method"),
        ("POST", "/v1/users/anna", 405, "no_method"),
        ("PATCH", "/v1/news", 405, "no_method"),
        ("TRACE", "/v1/news", 405, "no_method"),
        ("GET", "/v1/users/%ff", 400, "bad_path"),
        ("GET", "/v1/users/nobody", 404, "unknown_user"),
        ("GET", "/v1/users/nobody/explanation", 404, "unknown_user"),
        ("GET", "/v1/users/nobody/export", 404, "unknown_user"),
    ],
)
def test_paths(client: TestClient, method: str, path: str, status: int, code: str) -> None:
    answer = client.request(method, f"http://testserver{path}")
    refused(answer, status, code, "user_id" if code == "bad_path" else None)
    assert "location" not in answer.headers


@pytest.mark.parametrize("bad", ["%00", "%0a", "%1b", "%20", "%c2%85", "x" * 257])
def test_ids_in_paths(client: TestClient, bad: str) -> None:
    for path, name in ((f"/v1/users/{bad}", "user_id"), (f"/v1/users/{bad}/export", "user_id")):
        refused(client.get(path), 422, "invalid", name)
    refused(client.delete(f"/v1/news/{bad}"), 422, "invalid", "news_id")
    refused(client.delete(f"/v1/users/{bad}"), 422, "invalid", "user_id")


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "k\u00e9"])
def test_idempotency_keys(client: TestClient, key: str) -> None:
    answer = client.post("/v1/impressions", json=PAGE, headers={"Idempotency-Key": key.encode("latin-1")})  # type: ignore[dict-item]
    refused(answer, 422, "invalid", "Idempotency-Key")
    twice = client.post("/v1/impressions", json=PAGE, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])  # type: ignore[arg-type]
    refused(twice, 422, "invalid", "Idempotency-Key")


def test_events_that_break_a_rule(client: TestClient) -> None:
    client.post("/v1/impressions", json=PAGE).raise_for_status()
    click = {"impression_id": "page-1", "user_id": "anna", "news_id": "storm"}
    refused(client.post("/v1/clicks", json=click | {"impression_id": "page-9"}), 404, "unknown_impression")
    refused(client.post("/v1/clicks", json=click | {"user_id": "ben"}), 404, "unknown_impression")
    refused(client.post("/v1/clicks", json=click | {"news_id": "vote"}), 422, "not_shown")
    refused(client.post("/v1/impressions", json=PAGE | {"user_id": "ben"}), 409, "repeated_key")
    twice = PAGE | {"impression_id": "page-2", "shown": [{"news_id": "x"}, {"news_id": "x"}]}
    refused(client.post("/v1/impressions", json=twice), 422, "refused")
    refused(
        client.post("/v1/impressions", json=PAGE | {"impression_id": "2", "time": "2190-01-01"}), 422, "invalid", "time"
    )
    future = PAGE | {"impression_id": "2", "time": "2190-01-01T00:00:00Z"}
    refused(client.post("/v1/impressions", json=future), 422, "refused")
    wide = PAGE | {"impression_id": "é" * 200}
    refused(client.post("/v1/impressions", json=wide), 422, "refused")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RepeatedKeyError("x"), 409, "repeated_key"),
        (UnknownImpressionError("x"), 404, "unknown_impression"),
        (NotShownError("x"), 422, "not_shown"),
        (ImpressionIdError("x"), 422, "bad_impression_id"),
        (EventTimeError("x"), 422, "refused"),
        (RefusedError("x"), 422, "refused"),
        (ExplainError("x"), 422, "not_explainable"),
        (RunError("x"), 422, "bad_bundle"),
        (SettingsError("x"), 422, "refused"),
        (StoreBusyError("x"), 503, "store_busy"),
        (StoreError("x"), 503, "store_unavailable"),
        (OverloadError("x", retry_after=2.5), 503, "overloaded"),
        (OutputError("secret"), 500, "internal"),
        (KeyError("secret"), 500, "internal"),
    ],
)
def test_errors_of_the_layers_below(
    client: TestClient, stand_in: StandIn, error: Exception, status: int, code: str
) -> None:
    stand_in.fails = error
    answer = client.post("/v1/rank", json={"user_id": "anna"})
    refused(answer, status, code)
    assert "secret" not in answer.text
    if status == 503:
        assert int(answer.headers["retry-after"]) >= (3 if code == "overloaded" else 1)


def test_a_ranking_that_never_ends(connect: Connect, stand_in: StandIn) -> None:
    client = connect(answer_seconds=0.05)
    stand_in.never = True
    started = time.monotonic()
    answer = client.post("/v1/rank", json={"user_id": "anna"})
    refused(answer, 503, "timeout")
    assert answer.headers["retry-after"] == "1"
    assert time.monotonic() - started < 30


def test_a_slow_body(connect: Connect) -> None:
    client = connect(body_seconds=0.05)

    async def slow_app() -> Any:
        sent = []

        async def receive() -> Any:
            await asyncio.sleep(60)

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/rank", "raw_path": b"/v1/rank", "headers": headers}
        await client.app(scope | {"query_string": b"", "root_path": ""}, receive, send)  # type: ignore[arg-type]
        return sent

    start, body = asyncio.run(slow_app())
    assert start["status"] == 408
    assert json.loads(body["body"])["error"]["code"] == "slow_body"


def test_too_many_requests_at_once(connect: Connect) -> None:
    client = connect(running=0)
    answer = client.post("/v1/rank", json={"user_id": "anna"})
    refused(answer, 503, "overloaded")
    assert answer.headers["retry-after"] == "1"
    assert client.get("/healthz").status_code == 200, "probes are answered under any load"
    assert HTTPStatus(client.get("/readyz").status_code) == HTTPStatus.OK

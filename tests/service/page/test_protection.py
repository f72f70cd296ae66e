"""Headers, login, sessions and form tokens of the page."""

import re
from datetime import UTC, datetime

import pytest
from httpx import Response
from starlette.testclient import TestClient

from drpn.service.http.settings import HttpSettings
from drpn.service.page.login import Keys, digest
from drpn.service.page.sessions import COOKIE, Session, Sessions
from drpn.store.base import Store
from drpn.store.keys import create_key, revoke_key
from service.page.conftest import Open
from service.page.page_newsroom import fill

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "k" * 40
PRIVATE = ["/", "/?user=anna", "/figures"]


def token_of(text: str) -> str:
    token = re.search(r'name="token" value="(\w+)"', text)
    assert token
    return token[1]


def log_in(visitor: TestClient, key: str) -> Response:
    token = token_of(visitor.get("/login").text)
    return visitor.post("/login", data={"token": token, "key": key}, follow_redirects=False)


@pytest.mark.parametrize("path", ["/", "/?user=anna", "/?user=nobody", "/figures", "/login", "/page/style.css"])
def test_headers(visitor: TestClient, path: str) -> None:
    headers = visitor.get(path, follow_redirects=False).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert path.startswith("/page/") or headers["cache-control"] == "no-store"


def test_errors_have_the_headers_too(visitor: TestClient) -> None:
    answer = visitor.post("/try", data={"token": "wrong", "user": "anna"})
    assert answer.status_code == 403
    assert "default-src 'none'; style-src 'self'" in answer.headers["content-security-policy"]


def test_other_hosts_are_refused(visitor: TestClient) -> None:
    assert visitor.get("/", headers={"Host": "evil.example"}).status_code == 400


def test_without_keys_there_is_no_login(visitor: TestClient) -> None:
    assert visitor.get("/login", follow_redirects=False).headers["location"] == "/"
    assert "Log out" not in visitor.get("/").text


@pytest.mark.parametrize("path", PRIVATE)
def test_with_a_key_the_page_asks_for_it(open_page: Open, store: Store, path: str) -> None:
    fill(store)
    visitor = open_page(keys=(KEY,))
    answer = visitor.get(path, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert "anna" not in answer.text
    assert log_in(visitor, KEY).headers["location"] == "/"
    assert visitor.get(path, follow_redirects=False).status_code == 200
    assert "Log out" in visitor.get("/").text


def test_cookie_is_hidden_from_scripts_and_other_sites(open_page: Open) -> None:
    answer = log_in(open_page(keys=(KEY,)), KEY)
    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/", "max-age="))
    assert "secure" not in cookie
    assert KEY not in cookie


@pytest.mark.parametrize("header", ["https", "https,http"])
def test_cookie_is_secure_behind_https(open_page: Open, header: str) -> None:
    answer = open_page().get("/", headers={"X-Forwarded-Proto": header})
    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("key", ["", "wrong", KEY + "k", "ключ", "<script>alert(1)</script>"])
def test_wrong_keys(open_page: Open, key: str) -> None:
    visitor = open_page(keys=(KEY,))
    answer = log_in(visitor, key)
    assert answer.status_code == 401
    assert "This key is not known or was revoked." in answer.text
    assert "<script>alert" not in answer.text
    assert visitor.get("/", follow_redirects=False).status_code == 303


def test_key_needs_the_scope(open_page: Open, store: Store) -> None:
    key, _ = create_key(store, "ranker", ["rank"], NOW)
    visitor = open_page()
    answer = log_in(visitor, key)
    assert answer.status_code == 401
    assert "may not read profiles" in answer.text
    assert visitor.get("/", follow_redirects=False).status_code == 303


def test_revoked_key_ends_its_sessions(open_page: Open, store: Store) -> None:
    create_key(store, "other", ["profiles"], NOW)
    key, record = create_key(store, "editor", ["profiles"], NOW)
    visitor = open_page()
    log_in(visitor, key)
    assert visitor.get("/", follow_redirects=False).status_code == 200
    revoke_key(store, record.key_id, NOW)
    assert visitor.get("/", follow_redirects=False).status_code == 303


def test_logout(open_page: Open) -> None:
    visitor = open_page(keys=(KEY,))
    log_in(visitor, KEY)
    assert visitor.post("/logout", data={"token": "wrong"}).status_code == 403
    assert visitor.get("/", follow_redirects=False).status_code == 200
    visitor.post("/logout", data={"token": token_of(visitor.get("/").text)})
    assert visitor.get("/", follow_redirects=False).status_code == 303


def test_session_changes_at_login(open_page: Open) -> None:
    visitor = open_page(keys=(KEY,))
    visitor.get("/login")
    before = visitor.cookies[COOKIE]
    token = token_of(visitor.get("/login").text)
    log_in(visitor, KEY)
    assert visitor.cookies[COOKIE] != before
    assert visitor.post("/try", data={"token": token, "user": "anna"}).status_code == 403  # of the session before


@pytest.mark.parametrize("path", ["/try", "/login", "/logout"])
@pytest.mark.parametrize("token", [None, "", "0" * 64, "é"])
def test_forms_need_a_token(visitor: TestClient, path: str, token: str | None) -> None:
    visitor.get("/")
    data = {"user": "anna", "key": KEY} | ({} if token is None else {"token": token})
    answer = visitor.post(path, data=data)
    assert answer.status_code == 403
    assert "load the page again" in answer.text


def test_token_of_another_visitor_does_not_fit(visitor: TestClient) -> None:
    token = token_of(visitor.get("/?user=anna").text)
    visitor.cookies.clear()
    visitor.get("/")
    assert visitor.post("/try", data={"token": token, "user": "anna"}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_forms_of_other_sites_are_refused(visitor: TestClient, site: str) -> None:
    data = {"token": token_of(visitor.get("/?user=anna").text), "user": "anna"}
    assert visitor.post("/try", data=data, headers={"Sec-Fetch-Site": site}).status_code == 403
    assert visitor.post("/try", data=data, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"a=" + b"x" * 70_000, "application/x-www-form-urlencoded", 413),
        (b"&".join([b"a=1"] * 500), "application/x-www-form-urlencoded", 400),
        (b"user=%ff", "application/x-www-form-urlencoded", 400),
        (b"\xff=1", "application/x-www-form-urlencoded", 400),
    ],
)
def test_bodies_that_are_no_forms(visitor: TestClient, body: bytes, kind: str, status: int) -> None:
    answer = visitor.post("/try", content=body, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert "That did not work" in answer.text


def test_cookies_are_signed_and_expire() -> None:
    now = [1000.0]
    sessions = Sessions(lambda: now[0])
    session = sessions.new("editor")
    cookie = sessions.cookie(session, b"digest")

    def read(text: str | None, digest: bytes | None = b"digest") -> Session | None:
        return sessions.read(text, lambda _: digest)

    assert read(cookie) == session
    assert read(cookie, b"another key") is None
    assert read(cookie, None) is None
    assert Sessions(lambda: now[0]).read(cookie, lambda _: b"digest") is None  # of another process
    number, _, expires, sign = cookie.split(".")
    for forged in (
        None,
        "",
        "....",
        f"{number}.admin.{expires}.{sign}",
        f"{number}.editor.{int(expires) + 1}.{sign}",
        f"x{cookie}",
        f"{number}.editor.٣.{sign}",
        cookie[:-1] + "é",
    ):
        assert read(forged) is None
    now[0] += 8 * 3600
    assert read(cookie) is None


def test_anonymous_session_does_not_open_the_page(open_page: Open) -> None:
    visitor = open_page(keys_required=True)
    visitor.get("/login")
    assert visitor.get("/", follow_redirects=False).status_code == 303


def test_only_keys_that_read_profiles_sign_sessions(store: Store) -> None:
    editor, ranker = (create_key(store, scope, [scope], NOW)[1] for scope in ("profiles", "rank"))
    records = Keys(store, HttpSettings()).records()
    assert digest(records, editor.key_id) == editor.digest
    assert digest(records, ranker.key_id) is None
    assert digest(records, "unknown") is None

"""Keys, scopes, host names and headers."""

from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from drpn.errors import SettingsError
from drpn.service.http.access import host_allowed
from drpn.service.running import KEY_VARIABLE, Address, check_keys, own_keys
from drpn.store.base import Store
from drpn.store.keys import SCOPES, create_key, revoke_key
from service.conftest import Connect
from service.test_refused import refused
from service.test_routes import PAGE

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CALLS = {
    ("PUT", "/v1/news"): "events",
    ("DELETE", "/v1/news/storm"): "events",
    ("POST", "/v1/impressions"): "events",
    ("POST", "/v1/clicks"): "events",
    ("POST", "/v1/rank"): "rank",
    ("GET", "/v1/users/anna"): "profiles",
    ("GET", "/v1/users/anna/explanation"): "profiles",
    ("GET", "/v1/users/anna/export"): "profiles",
    ("DELETE", "/v1/users/anna"): "admin",
    ("POST", "/v1/reload"): "admin",
}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(("call", "scope"), CALLS.items())
def test_every_route_needs_its_scope(connect: Connect, store: Store, call: tuple[str, str], scope: str) -> None:
    keys = {name: create_key(store, name, [name], NOW)[0] for name in SCOPES}
    client = connect()
    refused(client.request(*call, json={}), 401, "no_key")
    for name, key in keys.items():
        answer = client.request(*call, json={}, headers=bearer(key))
        if name == scope:
            assert answer.status_code not in (401, 403)
        else:
            assert scope in refused(answer, 403, "no_scope")["message"]


def test_the_list_of_scopes_is_complete(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    scopes = {
        (method.upper(), path.replace("{user_id}", "anna").replace("{news_id}", "storm")): operation.get("x-scope")
        for path, methods in paths.items()
        for method, operation in methods.items()
    }
    others = {("GET", "/healthz"): None, ("GET", "/readyz"): None, ("GET", "/metrics"): "any key"}
    assert scopes == CALLS | others


def test_metrics_need_any_key_and_probes_none(connect: Connect, store: Store) -> None:
    key, _ = create_key(store, "prometheus", ["rank"], NOW)
    client = connect()
    refused(client.get("/metrics"), 401, "no_key")
    assert client.get("/metrics", headers=bearer(key)).status_code == 200
    for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
        assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic {key}",
        "{key}",
        "Bearer {key}x",
        "Bearer x{key}",
        "Bearer {key},{key}",
        "Bearer é",
    ],
)
def test_keys_that_are_wrong(connect: Connect, store: Store, header: str) -> None:
    key, _ = create_key(store, "website", SCOPES, NOW)
    answer = connect().post(
        "/v1/rank",
        json={},
        headers={"Authorization": header.format(key=key).encode("latin-1")},  # type: ignore[dict-item]
    )
    refused(answer, 401, "no_key")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert key not in answer.text


def test_two_authorization_headers_are_refused(connect: Connect, store: Store) -> None:
    key, _ = create_key(store, "website", SCOPES, NOW)
    headers = [("Authorization", f"Bearer {key}"), ("Authorization", "Bearer other")]
    refused(connect().post("/v1/rank", json={}, headers=headers), 401, "no_key")  # type: ignore[arg-type]


def test_a_revoked_key_stops_working_and_the_service_stays_closed(connect: Connect, store: Store) -> None:
    key, record = create_key(store, "website", ["rank"], NOW)
    client = connect(keys_seconds=0, keys_required=True)
    assert client.post("/v1/rank", json={}, headers=bearer(key)).status_code == 200
    revoke_key(store, record.key_id, NOW)
    refused(client.post("/v1/rank", json={}, headers=bearer(key)), 401, "no_key")
    refused(client.post("/v1/rank", json={}), 401, "no_key")


def test_a_new_key_closes_an_open_service(connect: Connect, store: Store) -> None:
    client = connect(keys_seconds=0)
    assert client.post("/v1/rank", json={}).status_code == 200
    create_key(store, "website", ["rank"], NOW)
    refused(client.post("/v1/rank", json={}), 401, "no_key")


def test_a_key_of_the_settings_may_do_everything(connect: Connect) -> None:
    key = "k" * 40
    client = connect(keys=(key,))
    refused(client.post("/v1/impressions", json=PAGE), 401, "no_key")
    assert client.post("/v1/impressions", json=PAGE, headers=bearer(key)).status_code == 200
    assert client.get("/v1/users/anna", headers=bearer(key)).status_code == 200
    assert client.delete("/v1/users/anna", headers=bearer(key)).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "testserver.evil.example", "evil.example:80", "[::1", "", "testserver@evil", "a, testserver"],
)
def test_other_hosts_are_refused(client: TestClient, host: str) -> None:
    refused(client.post("/v1/rank", json={}, headers={"Host": host}), 400, "bad_host", "Host")
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["testserver", "TestServer", "testserver:8000"])
def test_the_own_host_is_allowed(client: TestClient, host: str) -> None:
    assert client.post("/v1/rank", json={}, headers={"Host": host}).status_code == 200


def test_hosts_with_ports_and_brackets() -> None:
    assert host_allowed("[::1]:8000", ["::1"])
    assert host_allowed("[::1]", ["::1"])
    assert host_allowed("127.0.0.1:1", ["127.0.0.1"])
    assert host_allowed("anything", ["*"])
    assert not host_allowed("[::2]:8000", ["::1"])
    assert not host_allowed("::1:8000", ["8000"])


def test_other_sites_get_no_permission(client: TestClient) -> None:
    asked = client.options(
        "/v1/rank", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    )
    assert asked.status_code == 405
    answer = client.post("/v1/rank", json={}, headers={"Origin": "https://evil.example"})
    for answered in (asked, answer):
        assert not [name for name in answered.headers if name.startswith("access-control")]


def test_headers_of_every_answer(client: TestClient) -> None:
    for answer in (client.get("/healthz"), client.get("/nothing"), client.post("/v1/rank", json={})):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert len(answer.headers["x-request-id"]) == 16
        assert "server" not in answer.headers
    assert client.post("/v1/rank", json={}).headers["cache-control"] == "no-store"
    injected = client.get("/healthz", headers={"X-Request-ID": "abc", "X-Forwarded-Host": "evil.example"})
    assert "abc" not in injected.headers["x-request-id"]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("192.0.2.1", False), ("x", False)],
)
def test_addresses_that_other_machines_reach_need_a_key(store: Store, host: str, loopback: bool) -> None:
    address = Address(host=host)
    assert address.is_loopback == loopback
    if loopback:
        check_keys(address, store, ())
        return
    with pytest.raises(SettingsError, match="no key protects the service") as raised:
        check_keys(address, store, ())
    assert "drpn keys add" in raised.value.hint
    check_keys(address, store, ["k" * 40])
    _, record = create_key(store, "website", ["rank"], NOW)
    check_keys(address, store, ())
    revoke_key(store, record.key_id, NOW)
    with pytest.raises(SettingsError):
        check_keys(address, store, ())


def test_a_wildcard_address_needs_names() -> None:
    with pytest.raises(SettingsError, match="every address"):
        _ = Address(host="0.0.0.0").names
    assert "news.example" in Address(host="::", allow_hosts=("News.example",)).names
    assert Address(host="192.0.2.1").names == ("192.0.2.1", "192.0.2.1")


def test_key_files(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    file = tmp_path / "key"
    with pytest.raises(SettingsError, match="cannot be read"):
        own_keys(file)
    file.write_text("\n")
    with pytest.raises(SettingsError, match="is empty"):
        own_keys(file)
    file.write_text("short\n")
    with pytest.raises(SettingsError, match="could be guessed") as raised:
        own_keys(file)
    assert "short\n" not in str(raised.value)
    file.write_text("a" * 32 + "\n" + "b" * 32 + "\n")
    monkeypatch.setenv(KEY_VARIABLE, "c" * 32)
    assert own_keys(file) == ("c" * 32, "a" * 32, "b" * 32)
    assert own_keys(None) == ("c" * 32,)

"""Each route does its work."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from drpn.service.messages.ranking import ListedStoryAnswer, RankAnswer
from drpn.service.messages.users import ExplanationAnswer
from drpn.service.requests import Answer, Explanation, ListedStory
from drpn.store.base import Store
from service.conftest import Connect
from service.stand_in import StandIn

PAGE = {
    "impression_id": "page-1",
    "user_id": "anna",
    "shown": [{"news_id": "chess", "clicked": True}, {"news_id": "storm"}],
}


def ranked(client: TestClient, **body: object) -> list[str]:
    answer = client.post("/v1/rank", json={"user_id": "anna", **body})
    assert answer.status_code == 200, answer.text
    return [story["news_id"] for story in answer.json()["stories"]]


def test_news_are_put_ranked_and_taken_down(client: TestClient) -> None:
    assert ranked(client) == ["chess", "storm", "vote"]
    gone = client.delete("/v1/news/storm")
    assert (gone.status_code, gone.json()["repeated"]) == (200, False)
    assert ranked(client) == ["chess", "vote"]
    again = {"news_id": "storm", "title": "Storm again", "expires": (datetime.now(UTC) - timedelta(1)).isoformat()}
    assert client.put("/v1/news", json={"stories": [again]}).status_code == 200
    assert ranked(client) == ["chess", "vote"], "an expired story is not ranked"


def test_an_id_may_hold_a_slash(client: TestClient, store: Store) -> None:
    client.put("/v1/news", json={"stories": [{"news_id": "a/b?c%2F", "title": "Odd"}]}).raise_for_status()
    client.delete("/v1/news/a%2Fb%3Fc%252F").raise_for_status()
    assert [story.taken_down for story in store.stories(["a/b?c%2F"])] == [True]
    page = PAGE | {"user_id": "../x/export"}
    client.post("/v1/impressions", json=page).raise_for_status()
    assert client.get("/v1/users/..%2Fx%2Fexport").json()["user_id"] == "../x/export"


def test_feedback_changes_the_next_ranking(client: TestClient) -> None:
    assert client.post("/v1/impressions", json=PAGE).json()["repeated"] is False
    assert ranked(client) == ["storm", "vote"], "a clicked story is not ranked again"
    late = {"impression_id": "page-1", "user_id": "anna", "news_id": "storm"}
    assert client.post("/v1/clicks", json=late).status_code == 200
    assert ranked(client) == ["vote"]


def test_profile_holds_clicks_and_skips(client: TestClient) -> None:
    client.post("/v1/impressions", json=PAGE | {"complete": True})
    profile = client.get("/v1/users/anna").json()
    assert [entry["news_id"] for entry in profile["clicked"]] == ["chess"]
    assert [entry["news_id"] for entry in profile["skipped"]] == ["storm"]
    assert profile["clicked_ever"] == 1
    assert datetime.fromisoformat(profile["clicked"][0]["time"])


def test_ranking_options_reach_the_newsroom(client: TestClient) -> None:
    assert ranked(client, candidates=["vote", "chess", "nothing"]) == ["chess", "vote"]
    assert ranked(client, exclude=["chess"], count=1) == ["storm"]
    anonymous = client.post("/v1/rank", json={"personalize": False, "user_id": "anna"}).json()
    assert "impression_id" not in anonymous
    full = {
        "user_id": "anna",
        "about": {"device": "phone", "age": 30},
        "page": "vote",
        "session": "s1",
        "surface": "front",
        "diversity": 0.5,
        "diversity_method": "calibrated",
        "fresh": 0.1,
        "popular": 0.1,
        "explore": 0.1,
        "rules": {"pin": ["vote"], "bury": ["chess"], "without_categories": ["war"], "max_age_hours": 5},
    }
    assert client.post("/v1/rank", json=full).status_code == 200


def test_answers_have_the_fields_of_the_newsroom() -> None:
    pairs = [(RankAnswer, Answer), (ListedStoryAnswer, ListedStory), (ExplanationAnswer, Explanation)]
    for model, data in pairs:
        assert list(model.model_fields) == list(data.__dataclass_fields__)


def test_explanation(client: TestClient) -> None:
    client.post("/v1/impressions", json=PAGE | {"complete": True})
    explained = client.get("/v1/users/anna/explanation").json()
    assert explained["clicked"][0]["weights"] == {"semantic": 1.0}
    assert explained["candidates"][0]["influences"][0]["side"] == "clicked"
    ExplanationAnswer.model_validate(explained)


def test_export_and_erasure(client: TestClient, store: Store) -> None:
    client.post("/v1/impressions", json=PAGE | {"complete": True})
    exported = client.get("/v1/users/anna/export").json()
    assert [event["kind"] for event in exported["events"]] == ["impression", "closed"]
    assert exported["events"][0]["content"]["shown"][0]["news_id"] == "chess"
    assert exported["clicked_ever"] == ["chess"]
    assert client.delete("/v1/users/anna").status_code == 200
    assert client.get("/v1/users/anna").status_code == 404
    assert client.get("/v1/users/anna/export").status_code == 404
    assert store.is_erased("anna")
    assert client.delete("/v1/users/never-seen").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/news", {"stories": [{"news_id": "new", "title": "New"}]}),
        ("DELETE", "/v1/news/vote", None),
        ("POST", "/v1/impressions", PAGE | {"impression_id": "page-2"}),
        ("POST", "/v1/clicks", {"impression_id": "page-1", "user_id": "anna", "news_id": "storm"}),
    ],
)
def test_a_repeated_key_changes_nothing(client: TestClient, store: Store, method: str, path: str, body: object) -> None:
    client.post("/v1/impressions", json=PAGE).raise_for_status()
    headers = {"Idempotency-Key": "k-1"}
    first = client.request(method, path, json=body, headers=headers)
    events = store.last_sequence()
    second = client.request(method, path, json=body, headers=headers)
    assert (first.status_code, first.json()["repeated"]) == (200, False)
    assert (second.status_code, second.json()) == (200, first.json() | {"repeated": True})
    assert store.last_sequence() == events
    other = client.put("/v1/news", json={"stories": [{"news_id": "x", "title": "Other"}]}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "repeated_key")


def test_health_and_readiness(client: TestClient, store: Store) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}
    store.close()
    assert client.get("/healthz").status_code == 200
    refused = client.get("/readyz")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


def test_metrics(client: TestClient) -> None:
    ranked(client)
    client.get("/v1/users/somebody-secret")
    text = client.get("/metrics").text
    assert 'drpn_requests_total{method="POST",route="/v1/rank",status="200"} 1.0' in text
    assert 'drpn_requests_total{method="GET",route="/v1/users/{user_id}",status="404"} 1.0' in text
    assert "drpn_request_seconds_bucket" in text
    assert "drpn_rankings_total 1.0" in text
    assert 'drpn_click_rate{bound="low",bundle="fi\\"rst\\n",variant="A"} 0.02' in text
    assert "drpn_store_last_sequence" in text
    assert "secret" not in text


def test_reload_by_name(connect: Connect, stand_in: StandIn, tmp_path: Path) -> None:
    bundles = tmp_path / "bundles"
    for folder in ("plain", "run/bundle", "broken"):
        (bundles / folder).mkdir(parents=True)
    for folder in ("plain", "run/bundle"):
        (bundles / folder / "manifest.json").touch()
    client = connect(bundles=bundles)
    assert client.post("/v1/reload", json={"bundle": "plain"}).json() == {"bundle": "plain", "variants": ["A"]}
    assert stand_in.bundles["A"] == bundles / "plain"
    assert client.post("/v1/reload", json={"bundle": "run"}).status_code == 200
    assert stand_in.bundles["A"] == bundles / "run" / "bundle"
    broken = client.post("/v1/reload", json={"bundle": "broken"})
    assert (broken.status_code, broken.json()["error"]["code"]) == (422, "bad_bundle")
    wrong = client.post("/v1/reload", json={"bundle": "plain", "variant": "Z"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (404, "unknown_variant")
    assert stand_in.bundles["A"] == bundles / "run" / "bundle", "the old bundle stays"


@pytest.mark.parametrize("name", ["..", ".", "../secret", "/etc", "plain/../../secret", "", "a\0b", ".hidden", "link"])
def test_reload_stays_in_its_folder(connect: Connect, stand_in: StandIn, tmp_path: Path, name: str) -> None:
    (tmp_path / "bundles" / "plain").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "manifest.json").touch()
    (tmp_path / "bundles" / "link").symlink_to(tmp_path / "secret")
    client = connect(bundles=tmp_path / "bundles")
    answer = client.post("/v1/reload", json={"bundle": name})
    assert answer.status_code in (404, 422)
    assert stand_in.bundles["A"] == Path("first")


def test_reload_without_a_folder(client: TestClient) -> None:
    answer = client.post("/v1/reload", json={"bundle": "plain"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no_bundles")


def test_docs_load_nothing_from_outside(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    assert "script" not in page.text.lower()
    assert "http" not in page.text.lower().replace("the http interface", "")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"{method.upper()} {path}" in page.text


def test_every_body_and_answer_has_an_example(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    for methods in document["paths"].values():
        for operation in methods.values():
            holders = [answer for status, answer in operation["responses"].items()]
            holders += [operation["requestBody"]] if "requestBody" in operation else []
            for holder in holders:
                content = holder["content"].get("application/json")
                if content is not None:
                    name = content["schema"]["$ref"].rsplit("/", 1)[1]
                    assert "example" in content or schemas[name]["examples"], operation["operationId"]


def test_examples_of_bodies_are_accepted(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation and path != "/v1/reload":
                name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
                for example in document["components"]["schemas"][name]["examples"]:
                    answer = client.request(method, path, json=example)
                    assert answer.status_code == 200, (path, json.dumps(example), answer.text)

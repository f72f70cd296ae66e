"""Every state of the page: readers known and unknown, models with and without weights, trials, errors."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from drpn.errors import OverloadError, StoreError
from drpn.store.base import Store
from drpn.store.records import Impression, Story, shown_stories
from service.page.conftest import Open
from service.page.page_newsroom import HOSTILE, LONG, OVERRIDE, RIGHT_TO_LEFT, PageNewsroom, fill


def front(text: str) -> list[str]:
    """The titles of the front page, in order."""
    return [unescape(title) for title in re.findall(r'<p class="title"><bdi dir="auto">(.*?)</bdi>', text)]


def send(visitor: TestClient, user: str = "anna", **fields: str | list[str]) -> str:
    """Press a button of the try-out; returns the page."""
    page = visitor.get("/", params={"user": user}).text
    token = re.search(r'name="token" value="(\w+)"', page)
    assert token
    answer = visitor.post("/try", data={"token": token[1], "user": user, **fields})
    assert answer.status_code == 200
    return answer.text


def test_home_lists_active_readers_figures_and_card(visitor: TestClient) -> None:
    text = visitor.get("/").text
    assert '<a href="/?user=anna">' in text
    assert '<option value="anna">' in text
    assert "auc: 0.6812" in text
    assert "10.90 to 13.20 %" in text
    assert 'id="profile"' not in text


def test_home_of_an_empty_newsroom(open_page: Open, page_room: PageNewsroom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_room, "rates", list)
    visitor = open_page()
    text = visitor.get("/").text
    assert "No reader is known yet" in text
    assert "No ranking of this service has feedback yet" in text
    assert "No story is left to rank" in visitor.get("/?user=nobody").text


def test_profile_has_two_columns_with_shades_and_numbers(visitor: TestClient) -> None:
    text = visitor.get("/?user=anna").text
    clicked, skipped = text.split('id="front"')[0].split('<div class="column"')[1:]
    assert "3 stories, newest first" in clicked
    assert "4 stories, newest first" in skipped
    # the newest clicked story has the weights 1/6, 2/6, 3/6 and 1/6
    newest = clicked.split("<tr ")[2]
    assert "Museum returns paintings" in newest
    assert re.findall(r'shade-(\d)">.*?([\d.]+)</td>', newest.split("</th>")[1]) == [
        ("0", "16.7"),  # half an equal share
        ("5", "33.3"),
        ("7", "50.0"),
        ("0", "16.7"),
    ]
    assert 'scope="row" class="shade-0"' in newest  # shaded by the weight that counts as trust
    heads = re.findall(r'class="number">(.*?)</th>', clicked)
    assert [head.split("</th>")[0].replace(" <br>", " ") for head in heads[:4]] == [
        "Semantic Denoising",
        "Semantic Content-based",
        "Collaborative Denoising",
        "Collaborative Content-based",
    ]


def test_long_profiles_fold(store: Store, visitor: TestClient) -> None:
    assert "<summary>Show" not in visitor.get("/?user=anna").text.split('id="front"')[0]
    store.add_impression(_page("i9", [f"more{number}" for number in range(9)])).result()
    store.put_news([_story(f"more{number}") for number in range(9)]).result()
    assert "<summary>Show 7 older</summary>" in visitor.get("/?user=anna").text


def test_why_names_the_stories_that_moved_each_story(visitor: TestClient) -> None:
    text = visitor.get("/?user=anna").text
    item = next(part for part in text.split('\n<li class="same')[1:] if "A quiet film" in part)
    assert "+0.100" in item
    assert "Museum returns paintings to their owners" in item
    assert "clicked" in item
    item = next(part for part in text.split('\n<li class="same')[1:] if "Mayor wants fewer cars" in part)
    assert "−0.100" in item
    assert "Parliament votes on the budget" in item
    item = next(part for part in text.split('\n<li class="same')[1:] if "Comet will be visible" in part)
    assert "No single story of the profile moves it." in item


def test_unknown_reader_gets_the_ranking_for_new_readers(visitor: TestClient) -> None:
    text = visitor.get("/?user=nobody").text
    assert "Nothing yet." in text
    assert "the ranking that the model learned for new readers" in text
    assert front(text)[0] == "Underdogs reach the cup final after a late goal"


def test_erased_reader(store: Store, visitor: TestClient) -> None:
    store.erase("anna").result()
    assert "This reader was erased" in visitor.get("/?user=anna").text


def test_model_without_denoising_says_so(page_room: PageNewsroom, visitor: TestClient) -> None:
    assert "no denoising weights" not in visitor.get("/?user=anna").text
    page_room.weights, page_room.aggregator = ("semantic content",), "semantic content"
    text = visitor.get("/?user=anna").text
    assert "This model has no denoising weights" in text
    assert "Semantic · Content-based" in text


def test_model_without_weights_says_so(page_room: PageNewsroom, visitor: TestClient) -> None:
    page_room.weights, page_room.aggregator = (), None
    text = visitor.get("/?user=anna").text
    assert "This model does not weigh the stories of a profile" in text
    assert "Museum returns paintings" in text


def test_skip_changes_the_ranking_and_stores_nothing(store: Store, visitor: TestClient) -> None:
    before, events, profile = front(visitor.get("/?user=anna").text), store.last_sequence(), store.user("anna").profile
    text = send(visitor, add="skip:film")
    after = front(text)
    assert before.index("A quiet film wins the festival") < after.index("A quiet film wins the festival")
    assert "With 1 change tried. Nothing is stored." in text
    assert 'name="skip" value="film"' in text  # the next press keeps it
    assert "score 0.390 (before 0.490)" in text
    assert store.last_sequence() == events
    assert store.user("anna").profile == profile


def test_clicked_story_leaves_the_front_page(visitor: TestClient) -> None:
    text = send(visitor, add="click:film")
    assert "A quiet film wins the festival" not in front(text)
    assert "clicked: readers do not get a story again" in text
    assert front(text)[0] == "Opera house opens its doors after ten years"  # culture gained 0.1


def test_changes_add_up_replace_each_other_and_go(visitor: TestClient) -> None:
    text = send(visitor, skip=["film", "mayor"], add="click:film")
    assert 'name="click" value="film"' in text
    assert 'name="skip" value="mayor"' in text
    assert 'name="skip" value="film"' not in text
    text = send(visitor, click="film", skip="mayor", remove="skip:mayor")
    assert 'name="skip" value="mayor"' not in text
    assert "With 1 change tried" in send(visitor, click="film")
    assert "What this reader gets now" in send(visitor, click="film", reset="1")


def test_rules_are_shown_as_what_they_are(visitor: TestClient) -> None:
    text = send(visitor, add="pin:comet")
    assert front(text)[0] == "Comet will be visible to the naked eye next week"
    assert "Rule: pinned; place 9 without the rules" in text
    assert "Rule: moved to place 2 by the rules; place 1 without them" in text
    text = send(visitor, add="bury:film")
    assert "A quiet film wins the festival" not in front(text)
    assert "was place 3, now place 12" in text
    text = send(visitor, without="culture, sports", apply="1")
    assert not {"A quiet film wins the festival", "Coach resigns three days before the derby"} & set(front(text))
    assert "filters set" in text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"add": "skip:no-such"}, "story &#39;no-such&#39; is not in the catalogue"),
        ({"story": "no-such", "kind": "click", "apply": "1"}, "story &#39;no-such&#39; is not in the catalogue"),
        ({"age": "soon", "apply": "1"}, "the age is “soon”; it takes a number"),
        ({"age": "nan", "apply": "1"}, "max_age_hours is nan"),
        ({"share": "700", "apply": "1"}, "category_share"),
        ({"add": "skip:" + "x" * 300}, "it takes at most 256"),
        ({"add": "skip:\0"}, "cannot be stored"),
    ],
)
def test_wrong_changes_are_named_and_the_others_stay(visitor: TestClient, fields: dict[str, str], message: str) -> None:
    text = send(visitor, click="film", **fields)
    assert message in text
    assert "With 1 change tried" in text


def test_at_most_thirty_changes(visitor: TestClient) -> None:
    many = [f"story{number}" for number in range(31)]
    assert "30 changes can be tried at once" in send(visitor, pin=many)


@pytest.mark.parametrize("user", ["x" * 257, "a\0b"])
def test_unusable_ids_of_readers(visitor: TestClient, user: str) -> None:
    answer = visitor.get("/", params={"user": user})
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert 'id="figures"' in answer.text


@pytest.mark.parametrize(
    ("error", "status"),
    [(OverloadError("full", retry_after=3.0), 503), (StoreError("gone"), 503), (ValueError("secret"), 500)],
)
def test_errors_have_a_face(page_room: PageNewsroom, visitor: TestClient, error: Exception, status: int) -> None:
    page_room.fails = error
    answer = visitor.get("/?user=anna")
    assert answer.status_code == status
    assert "That did not work" in answer.text
    assert "secret" not in answer.text
    assert answer.headers["content-type"].startswith("text/html")
    assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize("user", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&b=c#d/e?f", "שלום"])
def test_ids_are_escaped(visitor: TestClient, store: Store, user: str) -> None:
    store.add_impression(_page("i7", ["film"], user)).result()
    text = visitor.get("/", params={"user": user}).text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert re.findall(r'name="user" value="(.*?)"', text)  # typed and hidden fields
    assert all(unescape(value) == user for value in re.findall(r'name="user"[^>]*value="(.*?)"', text))
    link = unescape(re.findall(r'<a href="(/\?user=[^"]*)"', text)[0])
    assert visitor.get(link).text.count("<h1") == 1
    assert unescape(re.findall(r"Reader <bdi>(.*?)</bdi>", visitor.get(link).text)[0]) == user


def test_titles_are_escaped_isolated_and_cut(store: Store, visitor: TestClient) -> None:
    fill(store, {"film": HOSTILE, "opera": RIGHT_TO_LEFT, "chess": LONG, "museum": HOSTILE, "trains": OVERRIDE})
    for text in (visitor.get("/?user=anna").text, send(visitor, add="skip:film")):
        assert "<script>alert" not in text
        assert "<b " not in text
        assert HOSTILE in front(text)
        assert RIGHT_TO_LEFT in front(text)
        assert "\u202e" not in text
        assert LONG not in text
        assert LONG[:159] + "…" in text


def test_no_address_outside(visitor: TestClient) -> None:
    pages = ["/", "/?user=anna", "/?user=nobody", "/figures", "/page/style.css", "/page/script.js", "/page/icon.svg"]
    texts = [visitor.get(path).text for path in pages] + [send(visitor, add="skip:film")]
    for text in texts:
        addresses = re.findall(r"(?:https?:)?//[\w.]+[^\s\"'<)]*", text.replace("http://www.w3.org/2000/svg", ""))
        assert [one for one in addresses if urlsplit(one).netloc] == []
        assert "@import" not in text
        assert "url(" not in text


def test_figures_count_requests_and_times(visitor: TestClient) -> None:
    assert "<dt>Ranking time, p50</dt><dd>–</dd>" in visitor.get("/figures").text
    for _ in range(3):
        visitor.post("/v1/rank", json={"user_id": "anna"}).raise_for_status()
    text = visitor.get("/figures").text
    assert "<dt>Requests</dt><dd>3</dd>" in text
    assert re.search(r"<dt>Ranking time, p99</dt><dd>[\d.]+ ms</dd>", text)
    assert text.lstrip().startswith("<section")


def test_reading_the_page_stores_nothing(visitor: TestClient, store: Store) -> None:
    store.add_impression(_page("open", ["film"], complete=False)).result()
    before = store.last_sequence()
    visitor.get("/?user=anna")
    send(visitor, add="click:film")
    assert store.last_sequence() == before
    assert len(store.open_impressions("anna")) == 1  # an editor's visit is no visit of the reader


def test_templates_have_no_inline_script_or_style() -> None:
    folder = Path(__file__).parents[3] / "src/drpn/service/page/templates"
    for file in folder.glob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|\|\s*safe", text), file.name
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), file.name
        for form in re.findall(r'<form method="post".*?</form>', text, re.DOTALL):
            assert 'name="token" value="{{ token }}"' in form, file.name


def _page(name: str, stories: list[str], user: str = "anna", *, complete: bool = True) -> Impression:
    return Impression(name, user, shown_stories(stories), complete=complete)


def _story(news_id: str) -> Story:
    return Story(news_id, f"Title of {news_id}", "more")

"""The page in Chromium: read, try, by mouse and by keyboard, wide and narrow. Screenshots are kept."""

import os
from pathlib import Path
from typing import Any

import pytest

from drpn.store.base import Store
from service.page.page_newsroom import HOSTILE, LONG, RIGHT_TO_LEFT, fill

pytestmark = pytest.mark.browser
WIDTHS = {"desktop": 1280, "phone": 390}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder of the screenshots: that in DRPN_PICTURES, or a temporary one."""
    folder = Path(os.environ.get("DRPN_PICTURES", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def titles(tab: Any) -> list[str]:
    """The front page from the first place on."""
    texts: list[str] = tab.locator(".front .title").all_inner_texts()
    return texts


def test_choose_a_reader_read_the_history_and_add_a_skip(tab: Any, store: Store) -> None:
    tab.goto("/")
    tab.get_by_label("Reader’s id").fill("anna")
    tab.get_by_role("button", name="Show").click()
    clicked = tab.locator("#clicked tbody tr")
    assert clicked.count() == 3
    assert tab.locator("#skipped tbody tr").count() == 4
    assert clicked.locator("th.shade-7").all_inner_texts()[0].startswith("Underdogs reach the cup final")  # 1.5 / 3
    colours = [row.evaluate("one => getComputedStyle(one).backgroundColor") for row in clicked.locator("th").all()]
    assert len(set(colours)) == 3  # each has another weight, so another shade

    before, events = titles(tab), store.last_sequence()
    film = "A quiet film wins the festival"
    assert before.index(film) == 2
    tab.get_by_role("button", name="Try: skip A quiet film").click()
    tab.get_by_text("With 1 change tried").wait_for()
    after = titles(tab)
    assert after.index(film) == 3  # its category lost 0.1
    assert "down" in tab.locator(".front > li.down .moved").first.inner_text()
    assert tab.url.endswith("/?user=anna")  # the script did not leave the page
    assert store.last_sequence() == events
    tab.get_by_role("button", name="Start again").click()
    tab.get_by_text("What this reader gets now").wait_for()
    assert titles(tab) == before


def test_keyboard_alone(tab: Any) -> None:
    tab.goto("/")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip-link"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "user"
    tab.keyboard.type("anna")
    tab.keyboard.press("Enter")
    tab.locator("#front").wait_for()
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.value") == "skip:film":
            break
    assert tab.evaluate("document.activeElement.value") == "skip:film"
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.keyboard.press("Enter")
    tab.get_by_text("With 1 change tried").wait_for()
    tab.locator("button[value='skip:film']:focus").wait_for()


def test_a_story_typed_into_the_form_is_tried_and_a_wrong_one_named(tab: Any) -> None:
    tab.goto("/?user=anna")
    tab.get_by_text("Any story by its id").click()
    tab.get_by_label("Story id").fill("opera")
    tab.get_by_label("Change", exact=True).select_option("bury")
    tab.get_by_role("button", name="Apply").click()
    tab.get_by_text("With 1 change tried").wait_for()
    assert "Opera house opens its doors after ten years" not in titles(tab)
    tab.get_by_label("Story id").fill("no-such-story")
    tab.get_by_role("button", name="Apply").click()
    tab.get_by_role("alert").wait_for()
    assert "story 'no-such-story' is not in the catalogue" in tab.get_by_role("alert").inner_text()
    assert tab.get_by_text("With 1 change tried").count() == 1


def test_without_the_script(chromium: Any, address: str) -> None:
    context = chromium.new_context(java_script_enabled=False, base_url=address)
    tab = context.new_page()
    tab.goto("/?user=anna")
    before = titles(tab)
    tab.get_by_role("button", name="Try: skip A quiet film").click()
    assert tab.url.endswith("/try")
    assert titles(tab) != before
    context.close()


def test_log_in_try_and_log_out(chromium: Any, locked_address: str) -> None:
    context = chromium.new_context(base_url=locked_address)
    tab = context.new_page()
    tab.goto("/?user=anna")
    assert tab.url.endswith("/login")
    tab.get_by_label("Key").fill("k" * 40)
    tab.keyboard.press("Enter")
    tab.get_by_label("Reader’s id").fill("anna")
    tab.keyboard.press("Enter")
    tab.get_by_role("button", name="Try: skip A quiet film").click()
    tab.get_by_text("With 1 change tried").wait_for()
    assert tab.evaluate("document.cookie") == ""  # hidden from scripts
    tab.get_by_role("button", name="Log out").click()
    assert tab.url.endswith("/login")
    tab.goto("/")
    assert tab.url.endswith("/login")
    context.close()


def test_figures_refresh(tab: Any) -> None:
    tab.goto("/")
    requests = tab.locator("#figures dd").first
    assert requests.inner_text() == "0"
    assert tab.request.post("/v1/rank", data={"user_id": "anna"}).ok
    tab.locator("#figures dd").first.filter(has_text="1").wait_for()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(tab: Any, store: Store, width: int, scheme: str, pictures: Path) -> None:
    fill(store, {"film": HOSTILE, "opera": RIGHT_TO_LEFT, "bank": LONG, "chess": LONG})
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    for name, path in {"home": "/", "reader": "/?user=anna", "unknown": "/?user=nobody"}.items():
        tab.goto(path)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.screenshot(path=pictures / f"hostile-{name}-{width}-{scheme}.png", full_page=True)


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_screenshots(tab: Any, width: int, pictures: Path) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto("/?user=anna")
    tab.screenshot(path=pictures / f"reader-{width}.png", full_page=True)
    tab.get_by_role("button", name="Try: skip A quiet film").click()
    tab.get_by_text("With 1 change tried").wait_for()
    tab.evaluate("scrollTo(0, 0)")
    tab.screenshot(path=pictures / f"tried-{width}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_on_every_shade_can_be_read(tab: Any, scheme: str) -> None:
    tab.emulate_media(color_scheme=scheme)
    tab.goto("/?user=anna")
    contrasts = tab.evaluate(_CONTRASTS)
    assert len(contrasts) == 20
    assert min(contrasts) >= 4.5


_CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((one) => {
      const value = one / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrasts = [];
  for (const side of ["clicked", "skipped"]) {
    const cell = document.querySelector(`#${side} tbody th`);
    for (let step = 0; step < 10; step++) {
      cell.className = `shade-${step}`;
      const style = getComputedStyle(cell);
      const [high, low] = [light(style.color), light(style.backgroundColor)].sort((a, b) => b - a);
      contrasts.push((high + 0.05) / (low + 0.05));
    }
  }
  return contrasts;
}"""

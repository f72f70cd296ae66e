"""A page over a newsroom whose scores can be computed by hand."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from starlette.testclient import TestClient

from drpn.service.app import create_app
from drpn.service.http.settings import HttpSettings
from drpn.store.base import Store
from service.page.browsing import MISSING, find_browser, serving
from service.page.page_newsroom import PageNewsroom, fill
from service.stand_in import as_newsroom

Open = Callable[..., TestClient]


@pytest.fixture
def page_room(store: Store) -> PageNewsroom:
    return PageNewsroom(store)


@pytest.fixture
def open_page(store: Store, page_room: PageNewsroom) -> Iterator[Open]:
    """A function that starts the service with some settings and returns a visitor of it."""
    with ExitStack() as stack:

        def start(**settings: object) -> TestClient:
            names = {"allowed_hosts": ("testserver",), **settings}
            app = create_app(as_newsroom(page_room), store, HttpSettings(**names))  # type: ignore[arg-type]
            return stack.enter_context(TestClient(app))

        yield start


@pytest.fixture
def visitor(store: Store, open_page: Open) -> TestClient:
    """A visitor of a service without keys; the reader "anna" has a profile."""
    fill(store)
    return open_page()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A browser test that skips although there is a browser fails."""
    report = yield
    if item.get_closest_marker("browser") and report.skipped and find_browser():
        report.outcome, report.longrepr = "failed", f"skipped although {find_browser()} is installed: {report.longrepr}"
    return report


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium without a window; while it runs, so does an event loop in this thread, and others cannot start."""
    path = find_browser()
    if path is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright  # where there is a browser, a missing package is a failure

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def address(store: Store, page_room: PageNewsroom) -> Iterator[str]:
    """The address of a service without keys; the reader "anna" has a profile."""
    fill(store)
    app = create_app(as_newsroom(page_room), store, HttpSettings(allowed_hosts=("127.0.0.1",)))
    with serving(app) as url:
        yield url


@pytest.fixture
def tab(chromium: Any, address: str) -> Iterator[Any]:
    """A browser tab; the test fails if the page writes an error to the console or asks another server for anything."""
    with closing(chromium.new_context(viewport={"width": 1280, "height": 900}, base_url=address)) as context:
        page = context.new_page()
        page.set_default_timeout(20_000)
        problems: list[str] = []
        page.on("console", lambda line: problems.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(address) else problems.append(asked.url))
        yield page
        assert problems == []


@pytest.fixture
def locked_address(store: Store, page_room: PageNewsroom) -> Iterator[str]:
    """The address of a service with a key."""
    fill(store)
    app = create_app(as_newsroom(page_room), store, HttpSettings(allowed_hosts=("127.0.0.1",), keys=("k" * 40,)))
    with serving(app) as url:
        yield url

"""Bundles for the tests of a running newsroom, and a service without a model, called within this process."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from drpn.service.app import create_app
from drpn.service.http.settings import HttpSettings
from drpn.store.base import Store
from drpn.store.opening import open_store
from explained_newsroom import newsroom, run_path
from live_newsroom import Made, Running, make, running
from service.stand_in import StandIn, as_newsroom

__all__ = ["newsroom", "run_path"]
Connect = Callable[..., TestClient]
STORIES = [
    {"news_id": "chess", "title": "Chess champion loses to a newcomer", "category": "sports"},
    {"news_id": "storm", "title": "Storm closes the harbours", "category": "weather"},
    {"news_id": "vote", "title": "Parliament votes on Friday", "category": "politics"},
]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Datasets and bundles."""
    return make(tmp_path_factory.mktemp("newsroom"))


@pytest.fixture
def room(tmp_path: Path, made: Made) -> Iterator[Running]:
    """A newsroom with a model that reads counts."""
    with running(tmp_path / "store", made.bundle) as room:
        yield room


@pytest.fixture
def plain(tmp_path: Path, made: Made) -> Iterator[Running]:
    """A newsroom with a DRPN that reads no counts."""
    with running(tmp_path / "plain", made.plain_bundle) as room:
        yield room


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


@pytest.fixture
def stand_in(store: Store) -> StandIn:
    return StandIn(store)


@pytest.fixture
def connect(store: Store, stand_in: StandIn) -> Iterator[Connect]:
    """A function that starts the service with some settings and returns a client of it."""
    with ExitStack() as stack:

        def start(**settings: object) -> TestClient:
            names = {"allowed_hosts": ("testserver",), **settings}
            app = create_app(as_newsroom(stand_in), store, HttpSettings(**names))  # type: ignore[arg-type]
            return stack.enter_context(TestClient(app))

        yield start


@pytest.fixture
def client(connect: Connect) -> TestClient:
    """A service with three stories and without keys."""
    connected = connect()
    connected.put("/v1/news", json={"stories": STORIES}).raise_for_status()
    return connected

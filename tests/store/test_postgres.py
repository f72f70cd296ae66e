"""The store in a PostgreSQL database."""

from collections.abc import Iterator

import pytest

from drpn.store.base import Store
from drpn.store.opening import open_store
from drpn.store.settings import StoreSettings
from postgres_server import PostgresServer
from store.conformance import Clock, Opener, StoreConformance

pytestmark = pytest.mark.real


class TestPostgres(StoreConformance):
    """PostgreSQL follows the rules."""

    @pytest.fixture
    def opener(self, postgres: PostgresServer, clock: Clock) -> Iterator[Opener]:
        stores: list[Store] = []
        url = postgres.database()

        def opened(settings: StoreSettings = StoreSettings()) -> Store:
            stores.append(open_store(url, settings, clock=clock))
            return stores[-1]

        yield opened
        for store in stores:
            store.close()

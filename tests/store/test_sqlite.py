"""The store in a SQLite file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drpn.store.base import Store
from drpn.store.opening import open_store
from drpn.store.settings import StoreSettings
from store.conformance import Clock, Opener, StoreConformance


class TestSqlite(StoreConformance):
    """SQLite follows the rules."""

    @pytest.fixture
    def opener(self, tmp_path: Path, clock: Clock) -> Iterator[Opener]:
        stores: list[Store] = []

        def opened(settings: StoreSettings = StoreSettings()) -> Store:
            stores.append(open_store(f"sqlite:///{tmp_path}/store.db", settings, clock=clock))
            return stores[-1]

        yield opened
        for store in stores:
            store.close()

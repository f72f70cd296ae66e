"""Bundles for the tests of a running newsroom."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from live_newsroom import Made, Running, make, running


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

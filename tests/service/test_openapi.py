"""Schemathesis calls every route of the OpenAPI document with valid and invalid data, and follows its links."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from drpn.service.app import create_app
from drpn.service.http.settings import HttpSettings
from drpn.service.newsroom import Newsroom
from drpn.service.settings import NewsroomSettings
from drpn.service.variants import Variant
from drpn.store.opening import open_store
from drpn.store.records import Story
from postgres_server import PostgresServer
from service.server import FOUR, Server, serving

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


def options(examples: int, **more: Any) -> settings:
    quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
    return settings(max_examples=examples, **quiet, **more)


class Services:
    """An ASGI application that can be replaced by a new one, with an empty store."""

    def __init__(self, folder: Path, run: Path) -> None:
        self._folder, self._run, self._number = folder, run, 0
        self._open = ExitStack()
        self.renew()

    def renew(self) -> None:
        """Start a service of a trained model with a new store."""
        self.close()
        self._number += 1
        store = self._open.enter_context(closing(open_store(f"sqlite:///{self._folder}/store-{self._number}.db")))
        variants = [Variant("A", self._run / "bundle")]
        newsroom = self._open.enter_context(closing(Newsroom(variants, store, NewsroomSettings(seconds=30))))
        newsroom.put_news([Story("storm", "Storm closes the harbours"), Story("chess", "Chess")]).result()
        settings = HttpSettings(allowed_hosts=("testserver",), answer_seconds=60, bundles=self._run.parent)
        self._app = create_app(newsroom, store, settings)

    def close(self) -> None:
        self._open.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


class Workers:
    """A service of four workers on a store in PostgreSQL."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def renew(self) -> None:
        """Keep what is stored: an empty store would take a new service."""


@pytest.fixture(scope="module")
def workers(run_path: Path, postgres: PostgresServer) -> Iterator[Workers]:
    url = postgres.database()
    with serving(run_path, url, "--bundles", run_path.parent, *FOUR) as server:
        stories = [{"news_id": "storm", "title": "Storm closes the harbours"}, {"news_id": "chess", "title": "Chess"}]
        assert server.call("PUT", "/v1/news", {"stories": stories})[0] == 200
        yield Workers(server)
        assert len(server.workers()) == 4
        assert "another one is started" not in "".join(server.lines)


@pytest.fixture(params=["one", pytest.param("postgresql-4", marks=pytest.mark.real)])
def services(tmp_path: Path, run_path: Path, request: pytest.FixtureRequest) -> Iterator[Services | Workers]:
    if request.param == "one":
        with closing(Services(tmp_path, run_path)) as services:
            yield services
    else:
        yield request.getfixturevalue("workers")


@pytest.fixture
def schema(services: Services | Workers) -> Any:
    """The document of a service with a trained model."""
    if isinstance(services, Workers):
        return schemathesis.openapi.from_url(f"{services.server.url}/openapi.json")
    return schemathesis.openapi.from_asgi("/openapi.json", services)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("examples", [10, pytest.param(400, marks=pytest.mark.slow)])
def test_every_route_answers_as_documented(schema: Any, examples: int, mode: GenerationMode) -> None:
    tested = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode is GenerationMode.POSITIVE or list(operation.iter_parameters()) or operation.body:
            tested += 1

            @options(examples)
            @given(operation.as_strategy(generation_mode=mode))
            def call(case: Any) -> None:
                case.call_and_validate(checks=CHECKS)

            call()
    assert tested >= 10


@pytest.mark.parametrize(("examples", "steps"), [(5, 6), pytest.param(200, 12, marks=pytest.mark.slow)])
def test_links_between_routes(schema: Any, services: Services | Workers, examples: int, steps: int) -> None:
    started = 0

    class Machine(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            nonlocal started
            started += 1
            services.renew()  # what happens depends on the calls of one example alone

        def validate_response(self, response: Any, case: Any, *_: Any, **__: Any) -> None:
            case.validate_response(response, checks=CHECKS)

    while started < examples:
        try:
            Machine.run(settings=options(examples - started, stateful_step_count=steps))
        except FlakyStrategyDefinition:  # the same calls had other answers
            if isinstance(services, Services):
                raise  # workers keep what is stored from one example to the next

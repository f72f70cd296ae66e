"""The application: all routes behind the same edge."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from drpn.errors import DrpnError
from drpn.service.housekeeping import housekeeping
from drpn.service.http.access import Access
from drpn.service.http.edge import Edge
from drpn.service.http.endpoints import add_endpoint
from drpn.service.http.errors import HttpError, http_error_of, unexpected
from drpn.service.http.metrics import Metrics
from drpn.service.http.settings import HttpSettings
from drpn.service.newsroom import Newsroom
from drpn.service.page.routes import add_page
from drpn.service.routes.documentation import add_documentation, openapi_document
from drpn.service.routes.events import event_routes
from drpn.service.routes.news import news_routes
from drpn.service.routes.operations import Reload, operation_routes
from drpn.service.routes.ranking import rank_routes
from drpn.service.routes.users import user_routes
from drpn.store.base import Store
from drpn.version import VERSION

_DIRECT = ("/v1/rank", "/v1/impressions", "/v1/clicks")
"""Called most: these do not pass through the layers of the framework."""
_HTTP = {
    HTTPStatus.NOT_FOUND: ("no_route", "there is nothing at this path", "see /docs"),
    HTTPStatus.METHOD_NOT_ALLOWED: ("no_method", "the path does not take this method", "see /docs"),
}


def create_app(
    newsroom: Newsroom,
    store: Store,
    settings: HttpSettings | None = None,
    *,
    reload_all: Reload | None = None,
    metrics_folder: Path | None = None,
) -> ASGIApp:
    """The HTTP interface of a newsroom and its store, which the caller closes after the application has stopped.

    One of several workers gives a function that loads a bundle in all of them, and the folder of their metrics.
    """
    settings = settings or HttpSettings()
    metrics, access = Metrics(metrics_folder), Access(store, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with housekeeping(newsroom, store):
            yield

    app = FastAPI(
        title="drpn",
        version=VERSION,
        summary="Ranks news by what readers clicked and skipped.",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=_HANDLERS,
    )
    endpoints = [
        *news_routes(newsroom),
        *event_routes(newsroom),
        *rank_routes(newsroom),
        *user_routes(newsroom),
        *operation_routes(newsroom, store, settings, metrics, reload_all=reload_all),
    ]
    direct = {}
    for endpoint in endpoints:
        answer = add_endpoint(app, endpoint, access, settings)
        if endpoint.path in _DIRECT:
            direct[endpoint.path] = endpoint, answer
    document = openapi_document(app, [endpoint.body for endpoint in endpoints if endpoint.body is not None])
    add_documentation(app, document)
    add_page(app, newsroom, store, settings, metrics)
    return Edge(app, settings, metrics, direct)


async def _http_error(_: Request, error: HttpError) -> Response:
    return error.answer()


async def _drpn_error(_: Request, error: Any) -> Response:
    return http_error_of(error).answer()


async def _framework_error(_: Request, error: Any) -> Response:
    """Errors of the framework itself: no such path or method."""
    status = HTTPStatus(error.status_code)
    code, message, remedy = _HTTP.get(status, ("refused", status.phrase, "see /docs"))
    return HttpError(status, code, message, remedy=remedy, headers=dict(error.headers or {})).answer()


async def _unexpected_error(_: Request, __: Exception) -> Response:
    return unexpected().answer()


_HANDLERS: dict[int | type[Exception], Any] = {
    HttpError: _http_error,
    DrpnError: _drpn_error,
    HTTPException: _framework_error,
    Exception: _unexpected_error,
}

"""The outermost layer: host check, limit of running requests, one log line and metrics for each request."""

import logging
import random
import secrets
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from drpn.errors import DrpnError
from drpn.service.faults import place_of
from drpn.service.http.access import host_allowed
from drpn.service.http.endpoints import Answering, Endpoint
from drpn.service.http.errors import HttpError, busy, http_error_of, unexpected
from drpn.service.http.metrics import Metrics
from drpn.service.http.settings import HttpSettings

LOG = logging.getLogger("drpn.service.requests")
"""One line for each request: method, route, status, milliseconds and request id; nothing that a client sent."""
_PROBES = ("/healthz", "/readyz")
"""Answered under any name and any load: they say nothing about users."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Set on every answer that does not set them itself."""
_SAFE = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]
_REQUEST_ID = b"x-request-id"
_NO_DIRECT = (None, None)


class Edge:
    """Wraps the application."""

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        metrics: Metrics,
        direct: Mapping[str, tuple[Endpoint[Any], Answering]],
    ) -> None:
        """Requests to the paths of `direct` are answered without the application."""
        self._app, self._settings, self._metrics, self._direct = app, settings, metrics, direct
        self._running = 0
        self._random = random.Random(secrets.randbits(256))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:  # no WebSockets
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, request_id, status = time.perf_counter(), self._random.randbytes(8).hex(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, headers = message["status"], message["headers"]
                present = {name for name, _ in headers}
                own = (_REQUEST_ID, request_id.encode()), *_SAFE
                message["headers"] = [*headers, *(pair for pair in own if pair[0] not in present)]
            await send(message)

        # ids stay encoded until a route reads them, so that a slash in an id is no separator
        scope["path"] = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        self._running += 1
        self._metrics.running.set(self._running)
        try:
            failure = await self._run(scope, receive, send_with_headers, request_id)
            if failure is not None and not status:
                await failure.answer()(scope, receive, send_with_headers)
        finally:
            self._running -= 1
            self._metrics.running.set(self._running)
            spent = time.perf_counter() - started
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = getattr(scope.get("route"), "path", "-")
            self._metrics.observe(method, route, status, spent)
            LOG.info("%s %s %d %.1f ms %s", method, route, status, 1000 * spent, request_id)

    async def _run(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> HttpError | None:
        """Run the application; returns what went wrong."""
        try:
            if scope["path"] not in _PROBES:
                self._admit(scope)
            endpoint, answer = self._direct.get(scope["path"], _NO_DIRECT)
            if endpoint is None or answer is None or scope["method"] != endpoint.method:
                await self._app(scope, receive, send)
            else:
                scope["route"] = endpoint
                response = await answer(Request(scope, receive))
                await response(scope, receive, send)
        except HttpError as failure:
            return failure
        except DrpnError as error:
            return http_error_of(error)
        except Exception as error:  # whatever it is, the client gets the same shape, and the log no data
            LOG.error("failed %s %s", request_id, place_of(error))
            return unexpected()
        return None

    def _admit(self, scope: Scope) -> None:
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1 or not host_allowed(hosts[0], self._settings.allowed_hosts):
            raise HttpError(
                HTTPStatus.BAD_REQUEST,
                "bad_host",
                "the service is not known under this name",
                field="Host",
                remedy="use the address that the service was started with",
            )
        if self._running > self._settings.running:
            self._metrics.refused.inc()
            raise busy("overloaded", "too many requests are running")

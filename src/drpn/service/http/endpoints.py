"""How a route is declared: its scope, body, answer and errors in one place, for the code and for the documentation."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from drpn.service.http.access import ANY, Access
from drpn.service.http.bodies import read_body
from drpn.service.http.errors import ErrorAnswer, busy
from drpn.service.http.settings import HttpSettings

MEANINGS = {
    HTTPStatus.BAD_REQUEST: "The body is not JSON or too deep, or the Host header or path is wrong.",
    HTTPStatus.UNAUTHORIZED: "The request has no key, or one that is not known.",
    HTTPStatus.FORBIDDEN: "The key does not have the scope.",
    HTTPStatus.NOT_FOUND: "There is no such thing.",
    HTTPStatus.REQUEST_TIMEOUT: "The body arrived too slowly.",
    HTTPStatus.CONFLICT: "The idempotency key or impression id was used for other content.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not marked as JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A field is wrong, or the content breaks a rule.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The service failed.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The service is overloaded or not ready; try again after `Retry-After` seconds.",
}
_EXAMPLES = {
    HTTPStatus.BAD_REQUEST: ("bad_json", "EOF while parsing a value at line 1 column 0"),
    HTTPStatus.UNAUTHORIZED: ("no_key", "the request has no key"),
    HTTPStatus.FORBIDDEN: ("no_scope", "the key does not have the scope 'admin'"),
    HTTPStatus.NOT_FOUND: ("unknown", "there is no such thing"),
    HTTPStatus.REQUEST_TIMEOUT: ("slow_body", "the body did not arrive within 10 s"),
    HTTPStatus.CONFLICT: ("repeated_key", "the idempotency key was used for other content"),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("too_large", "the body is larger than 1,048,576 bytes"),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: ("not_json", "the body is not marked as JSON"),
    HTTPStatus.UNPROCESSABLE_ENTITY: ("invalid", "Field required"),
    HTTPStatus.INTERNAL_SERVER_ERROR: ("internal", "the service failed"),
    HTTPStatus.SERVICE_UNAVAILABLE: ("overloaded", "too many requests are running"),
}
_ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)
_WITH_KEY = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_WITH_BODY = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)

REFERENCE = "#/components/schemas/{model}"
Body = TypeVar("Body", bound=BaseModel)
Handler = Callable[[Request, Any], Awaitable[BaseModel | Response]]
Answering = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Endpoint(Generic[Body]):
    """One route."""

    method: str
    path: str
    summary: str
    text: str = ""
    """More about the route, as Markdown."""
    subject: str
    """The heading in the documentation."""
    scope: str | None
    """The scope that a key must have; None for routes without keys."""
    body: type[Body] | None = None
    """The model of the body, which has examples; None for routes without a body."""
    answer: type[BaseModel] | None
    """The model of a successful answer, which has examples; None for plain text."""
    status: HTTPStatus = HTTPStatus.OK
    errors: Sequence[HTTPStatus] = ()
    """Statuses beyond those that every route has."""
    idempotent: bool = False
    """Whether the route reads the Idempotency-Key header."""
    parameters: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """Parameters of the path with their JSON schemas."""
    seconds: float | None = None
    """Time for the answer if it may take longer than others."""
    links: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """OpenAPI links from the answer to routes that can follow."""
    handler: Handler

    @property
    def name(self) -> str:
        """The operation id, such as `put_news`."""
        return getattr(self.handler, "__name__", "route")


class DirectRoute(APIRoute):
    """A documented route that calls its function at once.

    Bodies and answers are read and written here, so what FastAPI does for them would only take time.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function itself, which takes a request and returns a response."""
        return self.endpoint


def add_endpoint(app: FastAPI, endpoint: Endpoint[Any], access: Access, settings: HttpSettings) -> Answering:
    """Add a route to the application; returns the function that answers."""

    limit = endpoint.seconds or settings.answer_seconds

    async def answer(request: Request) -> Response:
        if endpoint.scope is not None:
            await access.check(request, endpoint.scope)
        body = None if endpoint.body is None else await read_body(request, endpoint.body, settings)
        try:
            async with asyncio.timeout(limit):
                result = await endpoint.handler(request, body)
        except TimeoutError as error:
            raise busy("timeout", f"there was no answer within {limit:g} s") from error
        if isinstance(result, Response):
            return result
        return Response(
            result.__pydantic_serializer__.to_json(result, exclude_none=True),
            status_code=endpoint.status,
            media_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    app.router.add_api_route(
        endpoint.path,
        answer,
        methods=[endpoint.method],
        operation_id=endpoint.name,
        summary=endpoint.summary,
        description=endpoint.text or None,
        tags=[endpoint.subject],
        status_code=endpoint.status,
        response_model=None,
        response_class=PlainTextResponse if endpoint.answer is None else JSONResponse,
        responses=_responses(endpoint),
        openapi_extra=_extra(endpoint),
        route_class_override=DirectRoute,
    )
    return answer


def schema_of(model: type[BaseModel]) -> dict[str, str]:
    """A reference to the model in the OpenAPI document."""
    return {"$ref": REFERENCE.format(model=model.__name__)}


def _responses(endpoint: Endpoint[Any]) -> dict[int | str, dict[str, Any]]:
    success: dict[str, Any] = {"description": "Done."}
    if endpoint.answer is not None:
        success["model"] = endpoint.answer
    if endpoint.links:
        success["links"] = dict(endpoint.links)
    responses: dict[int | str, dict[str, Any]] = {int(endpoint.status): success}
    statuses = [*_ALWAYS, *endpoint.errors]
    statuses += _WITH_KEY if endpoint.scope is not None else ()
    statuses += _WITH_BODY if endpoint.body is not None else ()
    if endpoint.parameters or endpoint.idempotent:
        statuses.append(HTTPStatus.UNPROCESSABLE_ENTITY)
    for status in sorted(set(statuses)):
        code, message = _EXAMPLES[status]
        responses[int(status)] = {
            "description": MEANINGS[status],
            "content": {
                "application/json": {
                    "schema": schema_of(ErrorAnswer),
                    "example": {"error": {"code": code, "message": message}},
                }
            },
        }
    responses[int(HTTPStatus.SERVICE_UNAVAILABLE)]["headers"] = {
        "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}
    }
    return responses


def _extra(endpoint: Endpoint[Any]) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema} for name, schema in endpoint.parameters.items()
    ]
    if endpoint.idempotent:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "A text of your own for this change: sent again with the same body, it changes nothing.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]+$"},
            }
        )
    extra: dict[str, Any] = {"parameters": parameters} if parameters else {}
    if endpoint.body is not None:
        content = {"application/json": {"schema": schema_of(endpoint.body)}}
        extra["requestBody"] = {"required": True, "content": content}
    if endpoint.scope is not None:
        extra["security"] = [{"key": []}, {}]  # a service without keys takes requests without one
        extra["x-scope"] = "any key" if endpoint.scope == ANY else endpoint.scope
    return extra

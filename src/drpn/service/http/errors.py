"""Errors as answers: one JSON shape for all."""

import math
from http import HTTPStatus
from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from drpn.errors import (
    DrpnError,
    ExplainError,
    ImpressionIdError,
    NotShownError,
    OverloadError,
    RefusedError,
    RepeatedKeyError,
    RunError,
    SettingsError,
    StoreBusyError,
    StoreError,
    UnknownImpressionError,
)
from drpn.escape import terminal

_LONGEST = 500
"""Letters of a message; some quote what the client sent."""


class ErrorDetail(BaseModel):
    """One error."""

    model_config = ConfigDict(json_schema_extra={"required": ["code", "message"]})

    code: str = Field(description="The kind of error, for programs.", examples=["invalid"])
    message: str = Field(description="The error in words.", examples=["Field required"])
    field: str | None = Field(None, description="The field or header that is wrong.", examples=["user_id"])
    remedy: str | None = Field(None, description="The way out.", examples=["send the field"])


class ErrorAnswer(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class HttpError(Exception):
    """An error that becomes an answer."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        message: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, _short(message)
        self.field, self.remedy = field and _short(field), remedy
        self.headers = headers or {}

    def answer(self) -> Response:
        """The answer, without fields that are not set."""
        detail: dict[str, Any] = {"code": self.code, "message": self.message}
        detail |= {name: value for name in ("field", "remedy") if (value := getattr(self, name))}
        return Response(
            to_json({"error": detail}),
            status_code=self.status,
            media_type="application/json",
            headers=self.headers | {"Cache-Control": "no-store"},
        )


def busy(code: str, message: str, *, seconds: int = 1) -> HttpError:
    """The service cannot answer now; the client can try again."""
    headers = {"Retry-After": str(seconds)}
    return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, code, message, remedy=f"try again in {seconds} s", headers=headers)


_KINDS: list[tuple[type[DrpnError], HTTPStatus, str]] = [
    (RepeatedKeyError, HTTPStatus.CONFLICT, "repeated_key"),
    (UnknownImpressionError, HTTPStatus.NOT_FOUND, "unknown_impression"),
    (NotShownError, HTTPStatus.UNPROCESSABLE_ENTITY, "not_shown"),
    (ImpressionIdError, HTTPStatus.UNPROCESSABLE_ENTITY, "bad_impression_id"),
    (RefusedError, HTTPStatus.UNPROCESSABLE_ENTITY, "refused"),
    (ExplainError, HTTPStatus.UNPROCESSABLE_ENTITY, "not_explainable"),
    (RunError, HTTPStatus.UNPROCESSABLE_ENTITY, "bad_bundle"),
    (SettingsError, HTTPStatus.UNPROCESSABLE_ENTITY, "refused"),
]
"""The first kind that fits decides."""


def http_error_of(error: DrpnError) -> HttpError:
    """The answer to an error of the layers below."""
    if isinstance(error, OverloadError):
        return busy("overloaded", "too many requests wait", seconds=max(1, math.ceil(error.retry_after)))
    if isinstance(error, StoreBusyError):
        return busy("store_busy", "too many changes wait to be written")
    if isinstance(error, StoreError):
        return busy("store_unavailable", "the store cannot be used now", seconds=5)
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            return HttpError(status, code, str(error))
    return unexpected()


def unexpected() -> HttpError:
    """The answer to an error in the service itself."""
    message = "the service failed; its log names the place under the X-Request-ID of this answer"
    return HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", message)


def invalid_body(error: ValidationError) -> HttpError:
    """The answer to a body that does not fit its model: names the first field that is wrong."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    first = errors[0]
    if first["type"] == "json_invalid":
        return HttpError(
            HTTPStatus.BAD_REQUEST, "bad_json", first["msg"], remedy="send one JSON document in UTF-8, not too deep"
        )
    more = f" ({len(errors) - 1} more fields are wrong)" if len(errors) > 1 else ""
    field = ".".join(map(str, first["loc"])) or "body"
    return HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", first["msg"] + more, field=field)


def _short(text: str) -> str:
    shown = terminal(text)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"

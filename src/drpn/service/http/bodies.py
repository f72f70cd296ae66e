"""Read what clients send: bodies, ids in paths, idempotency keys."""

import asyncio
import re
from email.message import Message
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import Request
from pydantic import BaseModel, ValidationError

from drpn.errors import RefusedError
from drpn.service.http.errors import HttpError, invalid_body
from drpn.service.http.settings import HttpSettings
from drpn.service.messages.fields import CONTROL
from drpn.store.records import check_id

Body = TypeVar("Body", bound=BaseModel)
_JSON = "application/json"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_CONTROL = re.compile(f"[{CONTROL}]")


async def read_body(request: Request, model: type[Body], settings: HttpSettings) -> Body:
    """The body as its model; refuses what is not JSON, too large or too slow."""
    if not _is_json(request.headers.get("content-type", "")):
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the body is not marked as JSON",
            field="Content-Type",
            remedy="send Content-Type: application/json",
        )
    try:
        async with asyncio.timeout(settings.body_seconds):
            data = await _read(request, settings.body_bytes)
    except TimeoutError as error:
        raise HttpError(
            HTTPStatus.REQUEST_TIMEOUT,
            "slow_body",
            f"the body did not arrive within {settings.body_seconds:g} s",
            headers={"Connection": "close"},
        ) from error
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise invalid_body(error) from error


def _is_json(content_type: str) -> bool:
    if content_type == _JSON:
        return True
    kind = Message()
    kind["content-type"] = content_type
    return kind.get_content_type() == _JSON


async def _read(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 19 and int(announced) > limit:
        raise _too_large(limit)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


def _too_large(limit: int) -> HttpError:
    return HttpError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"the body is larger than {limit:,} bytes",
        remedy="send less at once",
        headers={"Connection": "close"},
    )


def path_id(request: Request, name: str) -> str:
    """An id of the path, which may hold any letter: a slash is sent as %2F."""
    try:
        value = unquote_to_bytes(request.path_params[name]).decode()
    except UnicodeDecodeError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_path", "the path is not UTF-8", field=name) from error
    try:
        check_id(name, value)
    except RefusedError as error:
        raise HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", str(error), field=name) from error
    if _CONTROL.search(value):
        raise HttpError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"{name} has a control character; remove it", field=name
        )
    return value


def idempotency_key(request: Request) -> str | None:
    """The Idempotency-Key header; None if there is none."""
    keys = request.headers.getlist("idempotency-key")
    if not keys:
        return None
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        raise HttpError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "invalid",
            "an idempotency key has 1 to 255 visible ASCII characters, and a request has one key",
            field="Idempotency-Key",
        )
    return keys[0]

"""Read the forms of the page."""

import asyncio
from http import HTTPStatus
from urllib.parse import parse_qsl

from fastapi import Request

from drpn.service.http.errors import HttpError
from drpn.service.http.settings import HttpSettings

_BYTES = 64 * 1024
_FIELDS = 400

Form = dict[str, list[str]]


async def read_form(request: Request, settings: HttpSettings) -> Form:
    """The fields of a form; refuses bodies that are too large, too slow, or no form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_a_form", "the body is not a form")
    data = bytearray()
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for part in request.stream():
                data += part
                if len(data) > _BYTES:
                    raise HttpError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        "too_large",
                        "the form is too large",
                        remedy="try fewer changes at once",
                        headers={"Connection": "close"},
                    )
    except TimeoutError as error:
        raise HttpError(
            HTTPStatus.REQUEST_TIMEOUT, "slow_body", "the form did not arrive in time", headers={"Connection": "close"}
        ) from error
    form: Form = {}
    try:
        pairs = parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_form", "the form cannot be read") from error
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    return form


def field(form: Form, name: str) -> str:
    """The last value of a field, without spaces around it; empty if there is none."""
    return form.get(name, [""])[-1].strip()

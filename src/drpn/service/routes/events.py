"""Routes that take feedback."""

from http import HTTPStatus
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from drpn.service.http.bodies import idempotency_key
from drpn.service.http.endpoints import Endpoint
from drpn.service.messages.events import ClickBody, ImpressionBody
from drpn.service.messages.news import ChangeAnswer
from drpn.service.newsroom import Newsroom
from drpn.service.routes.changes import changed


def event_routes(newsroom: Newsroom) -> list[Endpoint[Any]]:
    """Report page views and clicks."""

    async def add_impression(request: Request, body: ImpressionBody) -> BaseModel:
        impression = body.record()
        return await changed(lambda: newsroom.record(impression, key=idempotency_key(request)))

    async def add_click(request: Request, body: ClickBody) -> BaseModel:
        click = body.record()
        return await changed(lambda: newsroom.click(click, key=idempotency_key(request)))

    return [
        Endpoint(
            method="POST",
            path="/v1/impressions",
            summary="Report a page view",
            text=(
                "Stories that were shown and not clicked become skips at the user's next request, after a set time, or "
                "at once with `complete`. The same impression again changes nothing."
            ),
            subject="Feedback",
            scope="events",
            body=ImpressionBody,
            answer=ChangeAnswer,
            errors=[HTTPStatus.CONFLICT],
            idempotent=True,
            links={
                "profile": {
                    "operationId": "get_user",
                    "parameters": {"user_id": "$request.body#/user_id"},
                    "description": "The profile after the page view.",
                },
                "erasure": {
                    "operationId": "erase_user",
                    "parameters": {"user_id": "$request.body#/user_id"},
                    "description": "Erase the user again.",
                },
            },
            handler=add_impression,
        ),
        Endpoint(
            method="POST",
            path="/v1/clicks",
            summary="Report a click on an earlier page view",
            text="A click counts at once. On a story that counted as skipped, it turns the skip into a click.",
            subject="Feedback",
            scope="events",
            body=ClickBody,
            answer=ChangeAnswer,
            errors=[HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND],
            idempotent=True,
            handler=add_click,
        ),
    ]

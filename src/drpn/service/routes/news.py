"""Routes about news."""

from http import HTTPStatus
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from drpn.service.http.bodies import idempotency_key, path_id
from drpn.service.http.endpoints import Endpoint
from drpn.service.messages.news import ChangeAnswer, NewsBody
from drpn.service.newsroom import Newsroom
from drpn.service.routes.changes import changed, id_schema


def news_routes(newsroom: Newsroom) -> list[Endpoint[Any]]:
    """Put stories and take them down."""

    async def put_news(request: Request, body: NewsBody) -> BaseModel:
        stories = [story.record() for story in body.stories]
        return await changed(lambda: newsroom.put_news(stories, key=idempotency_key(request)))

    async def take_down(request: Request, _: None) -> BaseModel:
        news_id = path_id(request, "news_id")
        return await changed(lambda: newsroom.take_down([news_id], key=idempotency_key(request)))

    return [
        Endpoint(
            method="PUT",
            path="/v1/news",
            summary="Add or replace stories",
            text="All or none of the stories are stored. The next ranking has them.",
            subject="News",
            scope="events",
            body=NewsBody,
            answer=ChangeAnswer,
            errors=[HTTPStatus.CONFLICT],
            idempotent=True,
            handler=put_news,
        ),
        Endpoint(
            method="DELETE",
            path="/v1/news/{news_id}",
            summary="Take a story down",
            text="No ranking has it until it is put again. A story that nobody put can be taken down too.",
            subject="News",
            scope="events",
            answer=ChangeAnswer,
            errors=[HTTPStatus.CONFLICT],
            idempotent=True,
            parameters={"news_id": id_schema("storm")},
            handler=take_down,
        ),
    ]

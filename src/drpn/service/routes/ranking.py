"""The route that ranks."""

from typing import Any

from fastapi import Request
from fastapi.responses import Response
from pydantic import TypeAdapter

from drpn.service.http.endpoints import Endpoint
from drpn.service.messages.ranking import RankAnswer, RankBody
from drpn.service.newsroom import Newsroom
from drpn.service.requests import Answer
from drpn.service.routes.changes import resolved

_ANSWER = TypeAdapter(Answer)
"""Writes the newsroom's answer as it is: `RankAnswer` describes the same fields."""


def rank_routes(newsroom: Newsroom) -> list[Endpoint[Any]]:
    """Rank."""

    async def rank(_: Request, body: RankBody) -> Response:
        answer = await resolved(newsroom.submit(body.request()))
        return Response(
            _ANSWER.dump_json(answer, exclude_none=True),
            media_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    return [
        Endpoint(
            method="POST",
            path="/v1/rank",
            summary="Rank stories for a reader",
            text=(
                "Knows all feedback that was acknowledged before. Stories that the user clicked, that expired or were "
                "taken down are not listed. If the model does not answer in time, popular stories are listed, and "
                "`fallback` is true."
            ),
            subject="Ranking",
            scope="rank",
            body=RankBody,
            answer=RankAnswer,
            links={
                "feedback": {
                    "operationId": "add_impression",
                    "requestBody": {
                        "impression_id": "{$response.body#/impression_id}",
                        "user_id": "{$response.body#/user_id}",
                        "shown": [{"news_id": "{$response.body#/stories/0/news_id}"}],
                    },
                    "description": "Report that the list was shown.",
                }
            },
            handler=rank,
        )
    ]

"""Routes about users: profile, explanation, export, erasure."""

import asyncio
import dataclasses
from datetime import datetime
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, TypeAdapter

from drpn.service.http.bodies import path_id
from drpn.service.http.endpoints import Endpoint
from drpn.service.http.errors import HttpError
from drpn.service.messages.news import ChangeAnswer
from drpn.service.messages.users import EntryAnswer, EventAnswer, EventKind, ExplanationAnswer, ExportAnswer, UserAnswer
from drpn.service.newsroom import Newsroom
from drpn.service.requests import Explanation, UserView
from drpn.service.routes.changes import changed, id_schema
from drpn.state.profile import Entry
from drpn.store.records import ClickCounted, Closed, Impression, LoggedEvent

_EXPLANATION = TypeAdapter(Explanation)
_KINDS: dict[type, EventKind] = {
    Impression: "impression",
    ClickCounted: "click",
    Closed: "closed",
}


def user_routes(newsroom: Newsroom) -> list[Endpoint[Any]]:
    """Read, export and erase a user."""

    async def known(request: Request) -> UserView:
        user_id = path_id(request, "user_id")
        view = await asyncio.to_thread(newsroom.user, user_id)
        if not (view.profile.clicked or view.profile.skipped or view.clicked):
            raise HttpError(
                HTTPStatus.NOT_FOUND, "unknown_user", "there is no profile of this user", remedy="report a page view"
            )
        return view

    async def get_user(request: Request, _: None) -> BaseModel:
        view = await known(request)
        return UserAnswer(
            user_id=view.user_id,
            variant=view.variant,
            version=view.version,
            clicked=_entries(view.profile.clicked),
            skipped=_entries(view.profile.skipped),
            clicked_ever=len(view.clicked),
        )

    async def explain_user(request: Request, _: None) -> Response:
        view = await known(request)
        explanation = await asyncio.to_thread(newsroom.explain, view.user_id)
        return Response(
            _EXPLANATION.dump_json(explanation, exclude_none=True),
            media_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    async def export_user(request: Request, _: None) -> BaseModel:
        user_id = path_id(request, "user_id")
        return await asyncio.to_thread(_export, newsroom, user_id)

    async def erase_user(request: Request, _: None) -> BaseModel:
        user_id = path_id(request, "user_id")
        return await changed(lambda: newsroom.erase(user_id))

    shared: dict[str, Any] = {"subject": "Users", "parameters": {"user_id": id_schema("anna")}}
    return [
        Endpoint(
            method="GET",
            path="/v1/users/{user_id}",
            summary="Read a profile",
            scope="profiles",
            answer=UserAnswer,
            errors=[HTTPStatus.NOT_FOUND],
            handler=get_user,
            **shared,
        ),
        Endpoint(
            method="GET",
            path="/v1/users/{user_id}/explanation",
            summary="Explain a ranking",
            text="The trust in each story of the profile, and the stories that move the first candidates most.",
            scope="profiles",
            answer=ExplanationAnswer,
            errors=[HTTPStatus.NOT_FOUND],
            seconds=60,
            handler=explain_user,
            **shared,
        ),
        Endpoint(
            method="GET",
            path="/v1/users/{user_id}/export",
            summary="Export all that is stored of a user",
            scope="profiles",
            answer=ExportAnswer,
            errors=[HTTPStatus.NOT_FOUND],
            seconds=60,
            handler=export_user,
            **shared,
        ),
        Endpoint(
            method="DELETE",
            path="/v1/users/{user_id}",
            summary="Erase a user",
            text=(
                "Deletes all that is stored of the user, known or not; what the bundle knows of the user is not used "
                "any more. Can take seconds in a large store."
            ),
            scope="admin",
            answer=ChangeAnswer,
            seconds=120,
            handler=erase_user,
            **shared,
        ),
    ]


def _export(newsroom: Newsroom, user_id: str) -> ExportAnswer:
    view = newsroom.user(user_id)
    events = [_event(event) for event in newsroom.export_user(user_id)]
    if not (events or view.profile.clicked or view.profile.skipped or view.clicked):
        raise HttpError(HTTPStatus.NOT_FOUND, "unknown_user", "nothing is stored of this user")
    return ExportAnswer(
        user_id=user_id,
        clicked=_entries(view.profile.clicked),
        skipped=_entries(view.profile.skipped),
        clicked_ever=sorted(view.clicked),
        events=events,
    )


def _entries(entries: tuple[Entry, ...]) -> list[EntryAnswer]:
    return [
        EntryAnswer(news_id=entry.news_id, time=entry.moment if isinstance(entry.moment, datetime) else None)
        for entry in entries
    ]


def _event(event: LoggedEvent) -> EventAnswer:
    content = dataclasses.asdict(event.what)
    kind = _KINDS.get(type(event.what), "other")
    return EventAnswer(sequence=event.sequence, time=event.time, kind=kind, content=content)

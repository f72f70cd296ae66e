"""The routes of the page."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from drpn.errors import DrpnError, RefusedError, SettingsError
from drpn.service.faults import place_of
from drpn.service.http.errors import HttpError, busy, http_error_of, unexpected
from drpn.service.http.metrics import Metrics
from drpn.service.http.settings import HttpSettings
from drpn.service.newsroom import Newsroom
from drpn.service.page.card import read_cards
from drpn.service.page.figures import read_figures
from drpn.service.page.forms import Form, field, read_form
from drpn.service.page.login import Keys, check_key, digest
from drpn.service.page.readers import some_readers
from drpn.service.page.rendering import HEADERS, STATIC, Pages
from drpn.service.page.sessions import COOKIE, NOBODY, Session, Sessions, set_cookie
from drpn.service.page.trial import Trial, press, read_trial
from drpn.service.page.view import read_view, shown
from drpn.store.base import Store
from drpn.store.records import KeyRecord, check_id

LOG = logging.getLogger("drpn.service.requests")
_AT_ONCE = 2
"""Readers that are explained at the same time; others wait, so that the page does not slow down rankings."""


@dataclass(frozen=True)
class Visit:
    """One request with its session."""

    request: Request
    session: Session
    token: str
    login: bool
    """Whether the service has a key."""
    inside: bool
    """Whether the visitor may see the page."""
    records: list[KeyRecord]

    @property
    def facts(self) -> dict[str, Any]:
        """For the layout of every page."""
        return {"token": self.token, "leave": self.login and self.inside}


Handler = Callable[[Visit], Awaitable[Response]]


def add_page(app: FastAPI, newsroom: Newsroom, store: Store, settings: HttpSettings, metrics: Metrics) -> None:
    """Add the page at `/`, with its login, try-out, figures, style and script."""
    page = _Page(newsroom, store, settings, metrics)
    for method, path, handler, public in (
        ("GET", "/", page.home, False),
        ("POST", "/try", page.try_out, False),
        ("GET", "/figures", page.figures, False),
        ("GET", "/login", page.login_form, True),
        ("POST", "/login", page.login, True),
        ("POST", "/logout", page.logout, False),
    ):
        endpoint = page.answer(handler, public=public)
        app.add_api_route(path, endpoint, methods=[method], include_in_schema=False, response_model=None)
    for name in STATIC:
        app.add_api_route(f"/page/{name}", page.static(name), include_in_schema=False, response_model=None)


class _Page:
    def __init__(self, newsroom: Newsroom, store: Store, settings: HttpSettings, metrics: Metrics) -> None:
        self._newsroom, self._store, self._settings, self._metrics = newsroom, store, settings, metrics
        self._keys, self._pages = Keys(store, settings), Pages()
        self._sessions = Sessions(secret=settings.session_secret)
        self._explaining = asyncio.Semaphore(_AT_ONCE)

    def static(self, name: str) -> Callable[[], Awaitable[Response]]:
        """A route for the style, the script or the icon, which everybody may read."""

        async def read() -> Response:
            return self._pages.static(name)

        return read

    def answer(self, handler: Handler, *, public: bool) -> Callable[[Request], Awaitable[Response]]:
        """A route that knows its visitor, and shows errors as pages."""

        async def run(request: Request) -> Response:
            visit: Visit | None = None
            try:
                async with asyncio.timeout(self._settings.answer_seconds):
                    visit = await self._visit(request)
                    if not (visit.inside or public):
                        return _redirect("/login")
                    response = await handler(visit)
            except TimeoutError:
                return self._error(visit, busy("timeout", "the service did not answer in time"))
            except HttpError as error:
                return self._error(visit, error)
            except DrpnError as error:
                return self._error(visit, http_error_of(error))
            except Exception as error:  # the visitor gets a page, and the log the place, but no data
                LOG.error("page failed: %s", place_of(error))
                return self._error(visit, unexpected())
            if visit.request.cookies.get(COOKIE) is None and COOKIE not in response.headers.get("set-cookie", ""):
                set_cookie(request, response, self._sessions.cookie(visit.session))
            return response

        return run

    async def _visit(self, request: Request) -> Visit:
        records = await asyncio.to_thread(self._keys.records)
        session = self._sessions.read(request.cookies.get(COOKIE), lambda key_id: digest(records, key_id))
        if session is None:
            request.cookies.pop(COOKIE, None)
            session = self._sessions.new()
        needed = self._keys.needed(records)
        inside = not needed or session.key_id != NOBODY
        return Visit(request, session, self._sessions.token(session), needed, inside, records)

    def _error(self, visit: Visit | None, error: HttpError) -> Response:
        facts = visit.facts if visit else {"token": "", "leave": False}
        response = self._pages.html("error.html", error.status, error=error, **facts)
        response.headers.update(error.headers)
        return response

    async def _form(self, visit: Visit) -> Form:
        """The form of a request; refuses one that this page did not make for this visitor."""
        form = await read_form(visit.request, self._settings)
        other_site = visit.request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if other_site or not self._sessions.token_fits(visit.session, field(form, "token")):
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                "old_form",
                "this form is too old, or cookies are switched off",
                remedy="load the page again",
            )
        return form

    # reading

    async def home(self, visit: Visit) -> Response:
        """The page, of one reader if the address names one."""
        user_id = visit.request.query_params.get("user", "").strip()
        return await self._show(visit, user_id, Trial())

    async def _show(self, visit: Visit, user_id: str, trial: Trial, *, alert: str | None = None) -> Response:
        view, status = None, HTTPStatus.OK
        if user_id:
            try:
                check_id("the reader's id", user_id)
            except RefusedError as error:
                user_id, alert, status = "", str(error), HTTPStatus.UNPROCESSABLE_ENTITY
        if user_id:
            async with self._explaining:
                view = await asyncio.to_thread(read_view, self._newsroom, user_id, trial)
        readers, figures, cards = await asyncio.gather(
            asyncio.to_thread(some_readers, self._store, next(iter(self._newsroom.bundles.values()))),
            asyncio.to_thread(read_figures, self._newsroom, self._metrics),
            asyncio.to_thread(read_cards, self._newsroom),
        )
        return self._pages.html(
            "home.html",
            status,
            view=view,
            user_id=user_id,
            alert=None if alert is None else shown(alert),
            readers=readers,
            figures=figures,
            cards=cards,
            **visit.facts,
        )

    async def figures(self, visit: Visit) -> Response:
        """The figures alone, for the script."""
        figures = await asyncio.to_thread(read_figures, self._newsroom, self._metrics)
        return self._pages.html("figures.html", figures=figures, **visit.facts)

    # trying

    async def try_out(self, visit: Visit) -> Response:
        """The page of a reader with changes; if they cannot be tried, it says why and shows those before."""
        form = await self._form(visit)
        user_id, before, alert = field(form, "user"), Trial(), None
        try:
            before = read_trial(form)
            trial = press(before, form)
            return await self._show(visit, user_id, trial)
        except (SettingsError, RefusedError) as error:
            alert = str(error)
        try:
            return await self._show(visit, user_id, before, alert=alert)
        except (SettingsError, RefusedError):
            return await self._show(visit, user_id, Trial(), alert=alert)

    # coming and going

    async def login_form(self, visit: Visit) -> Response:
        """The form that asks for a key."""
        return _redirect("/") if visit.inside else self._pages.html("login.html", problem=None, **visit.facts)

    async def login(self, visit: Visit) -> Response:
        """Check a key and open a session."""
        form = await self._form(visit)
        record = check_key(visit.records, field(form, "key"))
        if isinstance(record, str):
            return self._pages.html("login.html", HTTPStatus.UNAUTHORIZED, problem=record, **visit.facts)
        response = _redirect("/")
        session = self._sessions.new(record.key_id)
        set_cookie(visit.request, response, self._sessions.cookie(session, record.digest))
        return response

    async def logout(self, visit: Visit) -> Response:
        """Close the session."""
        await self._form(visit)
        response = _redirect("/login")
        set_cookie(visit.request, response, self._sessions.cookie(self._sessions.new()))
        return response


def _redirect(path: str) -> Response:
    return RedirectResponse(path, HTTPStatus.SEE_OTHER, headers=HEADERS)

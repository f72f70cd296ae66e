"""Templates, style and script of the page, and the headers of every answer."""

import hashlib
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.resources import files
from typing import Any

from fastapi.responses import HTMLResponse, Response
from jinja2 import DictLoader, Environment, StrictUndefined

from drpn.service.page.view import SHADES, shown
from drpn.store.records import as_utc
from drpn.version import VERSION

_FOLDER = files("drpn.service.page").joinpath("templates")
_TEMPLATES = ("layout.html", "home.html", "reader.html", "figures.html", "card.html", "login.html", "error.html")
STATIC = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex",
    "Cache-Control": "no-store",
}


class Pages:
    """Renders templates."""

    def __init__(self) -> None:
        self._texts = {name: _FOLDER.joinpath(name).read_text(encoding="utf-8") for name in (*_TEMPLATES, *STATIC)}
        self._environment = Environment(
            loader=DictLoader(self._texts),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"day": _day, "iso": _iso, "shown": shown, "count": lambda value: f"{value:,}"}
        versions = {name: hashlib.sha256(self._texts[name].encode()).hexdigest()[:12] for name in STATIC}
        self._environment.globals |= {"versions": versions, "drpn": VERSION, "shades": range(SHADES)}

    def html(self, template: str, status: HTTPStatus = HTTPStatus.OK, **facts: Any) -> HTMLResponse:
        """A page as an answer."""
        text = self._environment.get_template(template).render(**facts)
        return HTMLResponse(text.encode(errors="replace"), status_code=status, headers=dict(HEADERS))

    def static(self, name: str) -> Response:
        """The style, the script or the icon; its address changes with its content."""
        headers = HEADERS | {"Cache-Control": "public, max-age=86400, immutable"}
        return Response(self._texts[name], media_type=STATIC[name], headers=headers)


def _day(moment: datetime) -> str:
    return f"{as_utc(moment):%d %b %Y, %H:%M} UTC"


def _iso(moment: datetime) -> str:
    return as_utc(moment).astimezone(UTC).isoformat(timespec="seconds")

"""The OpenAPI document, and a page that shows it without any script or outside resource."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, StrictUndefined
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from drpn.service.http.endpoints import REFERENCE
from drpn.service.http.errors import ErrorAnswer


def openapi_document(app: FastAPI, bodies: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """The OpenAPI document of all routes; `bodies` are the models that they read."""
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    models: list[type[BaseModel]] = [ErrorAnswer, *bodies]
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(schemas["$defs"])
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key; needed if the service has any."}
    }
    return document


def add_documentation(app: FastAPI, document: dict[str, Any]) -> None:
    """Add `/openapi.json` and `/docs`."""
    text = json.dumps(document, ensure_ascii=False).encode()
    style = files("drpn.service").joinpath("templates/docs.css").read_text(encoding="utf-8")
    page = _page(document, style)
    policy = f"default-src 'none'; style-src '{_hash(style)}'; frame-ancestors 'none'; base-uri 'none'"

    async def openapi() -> Response:
        return Response(text, media_type="application/json")

    async def docs() -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    app.add_api_route("/openapi.json", openapi, include_in_schema=False)
    app.add_api_route("/docs", docs, include_in_schema=False)


def _page(document: dict[str, Any], style: str) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    template = environment.from_string(files("drpn.service").joinpath("templates/docs.html").read_text("utf-8"))
    subjects: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            subjects.setdefault(operation["tags"][0], []).append(
                {"method": method.upper(), "path": path, **_shown(operation, document["components"]["schemas"])}
            )
    return template.render(document=document, subjects=subjects, style=style)


def _shown(operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """The parts of an operation that the page shows."""
    body = operation.get("requestBody")
    model = schemas[_name(body)] if body else None
    success, *errors = operation["responses"].items()
    return {
        "id": operation["operationId"],
        "summary": operation["summary"],
        "text": operation.get("description", ""),
        "scope": operation.get("x-scope"),
        "parameters": operation.get("parameters", []),
        "fields": _fields(model, schemas) if model else [],
        "examples": model["examples"] if model else [],
        "answers": schemas[_name(success[1])]["examples"] if "application/json" in success[1]["content"] else [],
        "errors": [(status, answer["description"]) for status, answer in errors],
    }


def _name(holder: dict[str, Any]) -> str:
    reference: str = holder["content"]["application/json"]["schema"]["$ref"]
    return reference.rsplit("/", 1)[1]


def _fields(model: dict[str, Any], schemas: dict[str, Any], before: str = "") -> list[tuple[str, str, str]]:
    """Name, type and description of each field, those of inner objects included."""
    rows: list[tuple[str, str, str]] = []
    for name, schema in model["properties"].items():
        choices = [choice for choice in schema.get("anyOf", [schema]) if choice.get("type") != "null"]
        inner, kind, label = choices[0], "", f"{before}{name}"
        if inner.get("type") == "array":
            kind, inner, label = "list of ", inner["items"], f"{label}[]"
        if "$ref" in inner:
            inner = schemas[inner["$ref"].rsplit("/", 1)[1]]
        required = ", required" if name in model.get("required", []) else ""
        text = schema.get("description") or inner.get("description", "")
        rows.append((f"{before}{name}", f"{kind}{_kind(inner)}{required}", text))
        if "properties" in inner:
            rows += _fields(inner, schemas, f"{label}.")
    return rows


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    return "time" if schema.get("format") == "date-time" else str(schema.get("type", "any"))


def _hash(style: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

"""Routes for those who run the service: health, metrics, reload."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pydantic import BaseModel

from drpn.errors import DrpnError
from drpn.service.http.access import ANY
from drpn.service.http.endpoints import Endpoint
from drpn.service.http.errors import HttpError, busy
from drpn.service.http.metrics import Metrics
from drpn.service.http.settings import HttpSettings
from drpn.service.messages.operations import HealthAnswer, ReloadAnswer, ReloadBody
from drpn.service.newsroom import Newsroom
from drpn.store.base import Store
from drpn.store.records import QueueFigures

COUNTERS = ("rankings", "fallbacks", "refused", "batches", "reader_hits", "reader_misses", "dropped_rankings")
"""Figures of a newsroom that only rise; the others are of a moment."""
_OF_QUEUE = tuple(field.name for field in fields(QueueFigures))
Reload = Callable[[Path, str | None], None]


def operation_routes(
    newsroom: Newsroom,
    store: Store,
    settings: HttpSettings,
    metrics: Metrics,
    *,
    reload_all: Reload | None = None,
) -> list[Endpoint[Any]]:
    """Health, readiness, metrics and reload.

    In a worker, `reload_all` replaces the bundle of all workers, and the metrics have the figures of each of them.
    """
    metrics.add(NewsroomCollector(newsroom, store, own=reload_all is None))
    load, reloading = reload_all or newsroom.reload, asyncio.Lock()

    async def healthz(_: Request, __: None) -> BaseModel:
        return HealthAnswer(status="ok")

    async def readyz(_: Request, __: None) -> BaseModel:
        try:
            await asyncio.to_thread(store.last_sequence)
        except DrpnError as error:
            raise busy("not_ready", "the store cannot be read", seconds=5) from error
        return HealthAnswer(status="ok")

    async def read_metrics(_: Request, __: None) -> Response:
        text = await asyncio.to_thread(metrics.text)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def reload(_: Request, body: ReloadBody) -> BaseModel:
        path = bundle_path(settings.bundles, body.bundle)
        if body.variant is not None and body.variant not in newsroom.bundles:
            raise HttpError(
                HTTPStatus.NOT_FOUND,
                "unknown_variant",
                "there is no such variant",
                field="variant",
                remedy=f"choose from {', '.join(newsroom.bundles)}",
            )
        async with reloading:  # one after the other: each needs the memory of a whole bundle
            await asyncio.to_thread(load, path, body.variant)
        return ReloadAnswer(bundle=body.bundle, variants=list(newsroom.bundles))

    return [
        Endpoint(
            method="POST",
            path="/v1/reload",
            summary="Load another bundle",
            text=(
                "The bundle is checked first. If it cannot be used, the old one stays. No request is lost meanwhile."
            ),
            subject="Operation",
            scope="admin",
            body=ReloadBody,
            answer=ReloadAnswer,
            errors=[HTTPStatus.NOT_FOUND],
            seconds=600,
            handler=reload,
        ),
        Endpoint(
            method="GET",
            path="/healthz",
            summary="Whether the process answers",
            subject="Operation",
            scope=None,
            answer=HealthAnswer,
            handler=healthz,
        ),
        Endpoint(
            method="GET",
            path="/readyz",
            summary="Whether the service can rank and store",
            subject="Operation",
            scope=None,
            answer=HealthAnswer,
            handler=readyz,
        ),
        Endpoint(
            method="GET",
            path="/metrics",
            summary="Figures for Prometheus",
            text="Requests, times, rankings, and click rates by variant with 95 % intervals. Any key may read them.",
            subject="Operation",
            scope=ANY,
            answer=None,
            handler=read_metrics,
        ),
    ]


def bundle_path(bundles: Path | None, name: str) -> Path:
    """The bundle of a name in the folder of bundles, which may hold bundles and runs; never one outside of it."""
    if bundles is None:
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            "no_bundles",
            "the service has no folder of bundles",
            remedy="start the service with a folder of bundles",
        )
    folder = bundles.resolve()
    path = (folder / name).resolve()
    if path.parent != folder or not path.is_dir():
        raise HttpError(
            HTTPStatus.NOT_FOUND,
            "unknown_bundle",
            "there is no bundle of this name in the folder of bundles",
            field="bundle",
        )
    inner = path / "bundle"
    return inner if inner.is_dir() and not inner.is_symlink() else path


def described(name: str, of: str = "") -> str:
    """The text that explains a figure."""
    words = name.replace("_", " ")
    return of + words if of else words.capitalize()


class NewsroomCollector(Collector):
    """Figures of the newsroom and the store, read when they are asked for."""

    def __init__(self, newsroom: Newsroom, store: Store, *, own: bool = True) -> None:
        """Without `own`, those that are of this process alone are left out."""
        self._newsroom, self._store, self._own = newsroom, store, own

    def describe(self) -> list[Metric]:
        """Nothing: the names are known when the figures are read."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The figures of this moment."""
        if self._own:
            for name, value in asdict(self._newsroom.figures()).items():
                kind = CounterMetricFamily if name in COUNTERS else GaugeMetricFamily
                yield kind(f"drpn_{name}", described(name), value=value)
        for name, value in asdict(self._store.figures()).items():
            if self._own or name not in _OF_QUEUE:
                yield GaugeMetricFamily(f"drpn_store_{name}", described(name, "Store: "), value=value)
        yield from self._rates()

    def _rates(self) -> Iterator[Metric]:
        labels = ["bundle", "variant"]
        counts = {
            name: CounterMetricFamily(f"drpn_variant_{name}", f"{name.capitalize()} by variant", labels=labels)
            for name in ("impressions", "shown", "clicked")
        }
        rate = GaugeMetricFamily(
            "drpn_click_rate", "Clicks per shown story, with a 95 % interval", labels=[*labels, "bound"]
        )
        for row in self._newsroom.rates():
            for name, family in counts.items():
                family.add_metric([row.bundle, row.variant], getattr(row, name))
            for bound, value in (("low", row.low), ("rate", row.rate), ("high", row.high)):
                rate.add_metric([row.bundle, row.variant, bound], value)
        yield from [*counts.values(), rate]

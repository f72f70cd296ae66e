"""Counts and times of requests, for Prometheus.

Workers of one service keep them in files of a folder that they share, as `prometheus_client` does if
`PROMETHEUS_MULTIPROC_DIR` is set before it is loaded. Each worker has files of its own, which stay when it ends, so
that whoever is asked gives the sums over all workers that the service has had.
"""

from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The figures of one application, or of all workers that share a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        own = CollectorRegistry()
        self._requests = Counter("drpn_requests", "Answered requests", ["method", "route", "status"], registry=own)
        self._seconds = Histogram(
            "drpn_request_seconds", "Time to answer", ["method", "route"], buckets=_SECONDS, registry=own
        )
        self.running = Gauge(
            "drpn_requests_running", "Requests being answered", multiprocess_mode="livesum", registry=own
        )
        self.refused = Counter("drpn_requests_refused", "Requests refused by overload", registry=own)
        self.registry = own
        if folder is not None:
            self.registry = CollectorRegistry()
            MultiProcessCollector(self.registry, str(folder))  # type: ignore[no-untyped-call]
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def add(self, collector: Collector) -> None:
        """Add figures that are read when they are asked for."""
        self.registry.register(collector)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; the route is a template, so that the number of series stays small."""
        known = self._known.get((method, route, status))
        if known is None:
            known = self._requests.labels(method, route, str(status)), self._seconds.labels(method, route)
            self._known[method, route, status] = known
        counter, histogram = known
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """All figures in the text format of Prometheus."""
        return generate_latest(self.registry)

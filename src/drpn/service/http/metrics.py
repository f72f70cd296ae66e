"""Counts and times of requests, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The figures of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "drpn_requests", "Answered requests", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "drpn_request_seconds", "Time to answer", ["method", "route"], buckets=_SECONDS, registry=self.registry
        )
        self.running = Gauge("drpn_requests_running", "Requests being answered", registry=self.registry)
        self.refused = Counter("drpn_requests_refused", "Requests refused by overload", registry=self.registry)

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

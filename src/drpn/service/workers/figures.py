"""The figures of a worker's newsroom where all workers can read them."""

import threading
from dataclasses import asdict
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

from drpn.service.newsroom import Newsroom
from drpn.service.routes.operations import COUNTERS, described
from drpn.store.base import Store

_LARGEST = ("live_stories", "last_sequence")
"""The same for all workers, up to what the last ranking of each has noticed; others are sums over the workers."""


class SharedFigures:
    """Writes figures to the files of `http.metrics`."""

    def __init__(self, newsroom: Newsroom, store: Store) -> None:
        self._newsroom, self._store, self._lock = newsroom, store, threading.Lock()
        registry = CollectorRegistry()
        names = asdict(newsroom.figures())
        self._counters = {
            name: Counter(f"drpn_{name}", described(name), registry=registry) for name in names if name in COUNTERS
        }
        self._last, self._moment = dict.fromkeys(self._counters, 0), dict[str, int]()
        self._gauges = {
            f"drpn_{name}": self._gauge(f"drpn_{name}", described(name), registry)
            for name in names
            if name not in COUNTERS
        } | {
            f"drpn_store_{name}": self._gauge(f"drpn_store_{name}", described(name, "Store: "), registry)
            for name in asdict(store.queue())
        }
        self._gauge("drpn_workers", "Workers that answer", registry).set(1)

    def _gauge(self, name: str, text: str, registry: CollectorRegistry) -> Gauge:
        mode: Literal["livemax", "livesum"] = "livemax" if name.removeprefix("drpn_") in _LARGEST else "livesum"
        return Gauge(name, text, multiprocess_mode=mode, registry=registry)

    def publish(self) -> None:
        """Write what has changed."""
        with self._lock:
            figures = asdict(self._newsroom.figures())
            for name, counter in self._counters.items():
                now, last = figures[name], self._last[name]
                if now != last:
                    counter.inc(now - last if now > last else now)  # those of a bundle start at 0 with the bundle
                    self._last[name] = now
            moment = {f"drpn_{name}": value for name, value in figures.items()}
            moment |= {f"drpn_store_{name}": value for name, value in asdict(self._store.queue()).items()}
            for name, gauge in self._gauges.items():
                if moment[name] != self._moment.get(name):
                    gauge.set(moment[name])
            self._moment = moment

"""Live figures: requests, times and click rates."""

from dataclasses import dataclass, fields

from drpn.service.http.metrics import Metrics
from drpn.service.newsroom import Newsroom
from drpn.service.requests import NewsroomFigures, VariantRate

RANK = "/v1/rank"
"""The route whose times are shown."""
_INTERFACE = "/v1/"


@dataclass(frozen=True)
class Rate:
    """A click rate, and where its interval lies on a scale from 0 to 100."""

    row: VariantRate
    low: float
    rate: float
    high: float


@dataclass(frozen=True)
class Figures:
    """Figures since the service started; times in milliseconds, None before the first ranking."""

    requests: int
    failed: int
    """Answers with a status of 500 or more."""
    p50: str | None
    p99: str | None
    newsroom: NewsroomFigures
    rates: list[Rate]


def read_figures(newsroom: Newsroom, metrics: Metrics) -> Figures:
    """Ask the newsroom and the metrics; blocks while the store is read.

    Figures of the newsroom are read from the metrics, too, where they are those of all workers.
    """
    requests, failed = 0, 0
    buckets: dict[float, float] = {}
    of_newsroom = dict.fromkeys((one.name for one in fields(NewsroomFigures)), 0)
    for family in metrics.registry.collect():
        for sample in family.samples:
            name = sample.name.removeprefix("drpn_").removesuffix("_total")
            if name in of_newsroom:
                of_newsroom[name] = int(sample.value)
            route = sample.labels.get("route", "")
            if sample.name == "drpn_requests_total" and route.startswith(_INTERFACE):
                requests += int(sample.value)
                failed += int(sample.value) if sample.labels["status"] >= "500" else 0
            elif sample.name == "drpn_request_seconds_bucket" and route == RANK:
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
    rates = newsroom.rates()
    widest = max((row.high for row in rates), default=0.0) or 1.0
    return Figures(
        requests,
        failed,
        _milliseconds(quantile(buckets, 0.5)),
        _milliseconds(quantile(buckets, 0.99)),
        NewsroomFigures(**of_newsroom),
        [Rate(row, *(100 * value / widest for value in (row.low, row.rate, row.high))) for row in rates],
    )


def quantile(buckets: dict[float, float], share: float) -> float | None:
    """A quantile from cumulative counts by upper bound, linear within a bucket; None without counts.

    A quantile above the last finite bound is given as infinity.
    """
    bounds = sorted(buckets)
    total = buckets[bounds[-1]] if bounds else 0.0
    if not total:
        return None
    lower, below = 0.0, 0.0
    for bound in bounds:
        if buckets[bound] >= share * total:
            if bound == float("inf"):
                return bound
            inside = buckets[bound] - below
            return lower + (bound - lower) * (share * total - below) / inside if inside else bound
        lower, below = bound, buckets[bound]
    return bounds[-1]


def _milliseconds(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return "over 10 s" if seconds == float("inf") else f"{1000 * seconds:.1f} ms"

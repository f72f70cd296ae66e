"""Click rates with intervals."""

import math
from collections.abc import Iterable

from drpn.service.requests import VariantRate
from drpn.store.records import VariantCounts

_NORMAL = 1.959964
"""97.5 % quantile of the normal distribution."""


def wilson(clicked: int, shown: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson, JASA 1927); 0 to 1 if nothing was shown."""
    if not shown:
        return 0.0, 1.0
    rate, square = clicked / shown, _NORMAL**2
    middle = (rate + square / (2 * shown)) / (1 + square / shown)
    half = _NORMAL / (1 + square / shown) * math.sqrt(rate * (1 - rate) / shown + square / (4 * shown**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def click_rates(counts: Iterable[VariantCounts]) -> list[VariantRate]:
    """The click rate of each bundle and variant."""
    return [
        VariantRate(
            count.bundle,
            count.variant,
            count.impressions,
            count.shown,
            count.clicked,
            count.clicked / count.shown if count.shown else 0.0,
            *wilson(count.clicked, count.shown),
        )
        for count in counts
    ]

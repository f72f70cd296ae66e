"""Rows of a results table: all impressions, those of users with a profile, and those of users without one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.evaluation.bootstrap import DRAWS, intervals
from drpn.evaluation.diversity import Diversity
from drpn.evaluation.metrics import Metrics


def masks(has_profile: Array) -> dict[str, NDArray[np.bool_]]:
    """Return the impressions of each group; `has_profile` says of each impression whether its user has a profile."""
    has_profile = np.asarray(has_profile, dtype=np.bool_)
    return {"all": np.ones_like(has_profile), "with_profile": has_profile, "without_profile": ~has_profile}


def rows(
    model: str,
    metrics: Metrics,
    users: Array,
    has_profile: Array,
    rng: np.random.Generator,
    draws: int = DRAWS,
    *,
    diversity: Diversity | None = None,
) -> list[dict[str, Any]]:
    """Return a JSON-ready row for each group: means, intervals and the number of impressions with a click and a skip.

    A group without such impressions has None in place of numbers.
    """
    values = metrics.by_name() | ({} if diversity is None else diversity.by_name())
    return [
        {"model": model, "group": group}
        | _numbers(
            {name: array[..., mask] for name, array in values.items()}, users[mask], metrics.counted[mask], rng, draws
        )
        for group, mask in masks(has_profile).items()
    ]


def _numbers(
    values: dict[str, Array], users: Array, counted: Array, rng: np.random.Generator, draws: int
) -> dict[str, Any]:
    impressions = int(counted.sum())
    if not impressions:
        return {"impressions": 0, **dict.fromkeys([*values, *(f"{name}_interval" for name in values)])}
    by_metric = intervals(values, users, rng, draws)
    return {
        "impressions": impressions,
        **{name: interval.mean for name, interval in by_metric.items()},
        **{f"{name}_interval": [interval.low, interval.high] for name, interval in by_metric.items()},
    }

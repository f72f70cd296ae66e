"""Compare many systems on the same impressions: means, deviations over seeds and paired differences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drpn.dataset.arrays import Array
from drpn.evaluation.bootstrap import DRAWS, Comparison, differences, intervals
from drpn.evaluation.diversity import DIVERSITY, Diversity
from drpn.evaluation.groups import masks
from drpn.evaluation.metrics import METRICS, Metrics

_REFERENCES = {"auc_less_base": None, "auc_less_popularity": "popularity"}
"""The system that each key compares with; None: the `base` of the call."""


def compared(
    systems: Mapping[str, Metrics],
    users: Array,
    has_profile: Array,
    *,
    base: str | None,
    diversity: Mapping[str, Diversity] | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> list[dict[str, Any]]:
    """Return a JSON-ready row for each system and user group.

    A row has the keys of `groups.rows` and `<metric>_deviation`, the standard deviation over seeds (None with one
    seed). `auc_less_base` and `auc_less_popularity` are the paired AUC differences to the system `base` and to
    popularity; their intervals are bootstrapped over users and seeds. A system that is not in `diversity` has None in
    place of these numbers.
    """
    return [
        {"model": name, "group": group} | numbers
        for group, mask in masks(has_profile).items()
        for name, numbers in _group_rows(
            {name: metrics[mask] for name, metrics in systems.items()},
            {name: values[mask] for name, values in (diversity or {}).items()},
            users[mask],
            base,
            seed,
            draws,
        )
    ]


def deviation(values: Array) -> float | None:
    """Return the standard deviation over seeds of the mean over impressions; None with fewer than two seeds."""
    if values.ndim == 1 or len(values) < 2:
        return None
    return float(np.nanmean(values, axis=1).std(ddof=1))


def _group_rows(
    systems: Mapping[str, Metrics],
    diversity: Mapping[str, Diversity],
    users: Array,
    base: str | None,
    seed: int,
    draws: int,
) -> list[tuple[str, dict[str, Any]]]:
    counted = {name: int(metrics.counted.sum()) for name, metrics in systems.items()}
    empty = {key: None for name in (*METRICS, *DIVERSITY) for key in (name, f"{name}_interval", f"{name}_deviation")}
    if not any(counted.values()):
        return [(name, {"impressions": 0, **empty, **dict.fromkeys(_REFERENCES)}) for name in systems]
    rows: dict[str, dict[str, Any]] = {name: {"impressions": count, **empty} for name, count in counted.items()}
    for measured in (systems, diversity):
        for metric in next(iter(measured.values())).NAMES if measured else ():
            values = {name: metrics.by_name()[metric] for name, metrics in measured.items()}
            for name, interval in intervals(values, users, np.random.default_rng(seed), draws).items():
                rows[name] |= {
                    metric: interval.mean,
                    f"{metric}_interval": [interval.low, interval.high],
                    f"{metric}_deviation": deviation(values[name]),
                }
    for key, reference in _REFERENCES.items():
        comparisons = _compare_with(systems, reference or base, users, seed, draws)
        for name, row in rows.items():
            row[key] = comparisons[name]._asdict() if name in comparisons else None
    return list(rows.items())


def _compare_with(
    systems: Mapping[str, Metrics], reference: str | None, users: Array, seed: int, draws: int
) -> dict[str, Comparison]:
    """Compare the AUC of every other system with that of the reference."""
    if reference is None or reference not in systems or len(systems) == 1:
        return {}
    pairs = {name: (metrics.auc, systems[reference].auc) for name, metrics in systems.items() if name != reference}
    return differences(pairs, users, np.random.default_rng(seed), draws)

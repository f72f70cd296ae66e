"""Many systems on the same impressions: means, how far seeds stray, and how each stands to one of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from drpn.dataset.arrays import Array
from drpn.evaluation.bootstrap import DRAWS, Comparison, differences, intervals
from drpn.evaluation.groups import masks
from drpn.evaluation.metrics import METRICS, Metrics

_REFERENCES = {"auc_less_base": None, "auc_less_popularity": "popularity"}
"""What every system is compared with; None: the one that is asked for."""


def compared(
    systems: Mapping[str, Metrics],
    users: Array,
    has_profile: Array,
    *,
    base: str | None,
    seed: int = 0,
    draws: int = DRAWS,
) -> list[dict[str, Any]]:
    """A row for each system and group, ready for JSON.

    The keys of `groups.rows`, and `<metric>_deviation`: the standard deviation over seeds, None where there is one
    seed. `auc_less_base` is the paired difference to the system `base`, its interval drawn over users and seeds, and
    `auc_less_popularity` that to popularity.
    """
    return [
        {"model": name, "group": group} | numbers
        for group, mask in masks(has_profile).items()
        for name, numbers in _of_group(
            {name: one[mask] for name, one in systems.items()}, users[mask], base, seed, draws
        )
    ]


def deviation(values: Array) -> float | None:
    """The standard deviation over seeds of the mean over impressions; None of fewer than two seeds."""
    if values.ndim == 1 or len(values) < 2:
        return None
    return float(np.nanmean(values, axis=1).std(ddof=1))


def _of_group(
    systems: Mapping[str, Metrics], users: Array, base: str | None, seed: int, draws: int
) -> list[tuple[str, dict[str, Any]]]:
    counted = {name: int(one.counted.sum()) for name, one in systems.items()}
    if not any(counted.values()):
        empty = dict.fromkeys(key for name in METRICS for key in (name, f"{name}_interval", f"{name}_deviation"))
        return [(name, {"impressions": 0, **empty, **dict.fromkeys(_REFERENCES)}) for name in systems]
    rows: dict[str, dict[str, Any]] = {name: {"impressions": count} for name, count in counted.items()}
    for metric in METRICS:
        values = {name: one.by_name()[metric] for name, one in systems.items()}
        for name, found in intervals(values, users, np.random.default_rng(seed), draws).items():
            rows[name] |= {
                metric: found.mean,
                f"{metric}_interval": [found.low, found.high],
                f"{metric}_deviation": deviation(values[name]),
            }
    for key, reference in _REFERENCES.items():
        against = _against(systems, reference or base, users, seed, draws)
        for name, row in rows.items():
            row[key] = against[name]._asdict() if name in against else None
    return list(rows.items())


def _against(
    systems: Mapping[str, Metrics], reference: str | None, users: Array, seed: int, draws: int
) -> dict[str, Comparison]:
    """Every other system's AUC less that of one of them."""
    if reference is None or reference not in systems or len(systems) == 1:
        return {}
    pairs = {name: (one.auc, systems[reference].auc) for name, one in systems.items() if name != reference}
    return differences(pairs, users, np.random.default_rng(seed), draws)

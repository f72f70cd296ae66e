"""Where the truth is known: do a model's weights tell real interest from accidents, dislike from missed interest?"""

from typing import Any

import numpy as np

from drpn.batches.tables import Tables
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset
from drpn.evaluation.bootstrap import interval
from drpn.evaluation.noise import kinds_of_clicked, kinds_of_skipped, noise_auc_by_user, tfidf_rule
from drpn.explain.trace import profile_weights
from drpn.models.drpn import Drpn
from drpn.progress import Progress, Silent


def measure_noise(
    model: Drpn,
    tables: Tables,
    dataset: Dataset,
    *,
    seed: int = 0,
    encoded: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any] | None:
    """Noise AUC of each kind of weights, by sequence, with intervals over users; None where nobody knows the truth."""
    progress = progress or Silent()
    kinds = noise_kinds(dataset)
    if kinds is None:
        return None
    users = np.flatnonzero((dataset.clicked[:, 0] > 0) | (dataset.skipped[:, 0] > 0))
    weights: dict[str, dict[str, Array]] = {
        kind: profile_weights(model, tables, users, kind, progress, encoded=encoded) for kind in ("denoise", "content")
    }
    with progress.stage("the simple rule"):
        rule = tfidf_rule(dataset.news_words, dataset.clicked[users], dataset.skipped[users])
    weights["tfidf rule"] = {"clicked": rule.clicked, "skipped": rule.skipped}
    found = {
        side: {name: _summary(each[side], kinds[side][users], seed) for name, each in weights.items() if side in each}
        for side in ("clicked", "skipped")
    }
    return {side: {name: one for name, one in each.items() if one is not None} for side, each in found.items()}


def noise_kinds(dataset: Dataset) -> dict[str, Array] | None:
    """For each news of each profile 1 if it says what the user thinks, -1 if it is noise, 0 if neither."""
    if "users/clicked_opinion" not in dataset.arrays:
        return None
    return {
        "clicked": kinds_of_clicked(dataset.arrays.array("users/clicked_opinion")),
        "skipped": kinds_of_skipped(dataset.arrays.array("users/skipped_opinion")),
    }


def _summary(weights: Array, kinds: Array, seed: int) -> dict[str, Any] | None:
    """None where no user has both kinds."""
    by_user = noise_auc_by_user(weights, kinds)
    if not np.isfinite(by_user).any():
        return None
    found = interval(by_user, np.arange(len(by_user)), np.random.default_rng(seed))
    return {"auc": round(found.mean, 4), "interval": [round(found.low, 4), round(found.high, 4)],
            "users": int(np.isfinite(by_user).sum())}  # fmt: skip

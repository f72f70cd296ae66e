"""Measure whether a model's weights separate real feedback from noise, on simulated logs."""

from typing import Any

import numpy as np

from drpn.batches.tables import Tables
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset
from drpn.evaluation.bootstrap import interval
from drpn.evaluation.ceilings import personal_scores, story_scores
from drpn.evaluation.noise import kinds_of_clicked, kinds_of_skipped, noise_auc_by_user, tfidf_rule
from drpn.explanation.trace import profile_weights
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
    """Return noise AUC with intervals over users, by sequence and kind of weights; None without ground truth.

    Next to the weights of the model are a simple rule and the ceilings, scores of classifiers that know the truth.
    """
    progress = progress or Silent()
    kinds = noise_kinds(dataset)
    if kinds is None:
        return None
    users = np.flatnonzero((dataset.clicked[:, 0] > 0) | (dataset.skipped[:, 0] > 0))
    weights: dict[str, dict[str, Array]] = {
        kind: profile_weights(model, tables, users, kind, progress, encoded=encoded) for kind in ("denoise", "content")
    }
    weights["collaborative denoise"] = profile_weights(
        model, tables, users, "denoise", progress, encoded=encoded, view="collaborative"
    )
    with progress.stage("TF-IDF rule"):
        rule = tfidf_rule(dataset.news_words, dataset.clicked[users], dataset.skipped[users])
    weights["tfidf rule"] = {"clicked": rule.clicked, "skipped": rule.skipped}
    with progress.stage("noise ceilings"):
        weights |= noise_ceilings(dataset, users, kinds)
    summaries = {
        side: {
            name: _summarise(by_side[side], kinds[side][users], seed)
            for name, by_side in weights.items()
            if side in by_side
        }
        for side in ("clicked", "skipped")
    }
    return {
        side: {name: summary for name, summary in by_name.items() if summary is not None}
        for side, by_name in summaries.items()
    }


def noise_kinds(dataset: Dataset) -> dict[str, Array] | None:
    """Return (users, slots) by sequence: 1 for real feedback, -1 for noise, 0 for neither; None without the truth."""
    if "users/clicked_opinion" not in dataset.arrays:
        return None
    return {
        "clicked": kinds_of_clicked(dataset.arrays.array("users/clicked_opinion")),
        "skipped": kinds_of_skipped(dataset.arrays.array("users/skipped_opinion")),
    }


def noise_ceilings(dataset: Dataset, users: Array, kinds: dict[str, Array]) -> dict[str, dict[str, Array]]:
    """Return the scores behind the personal and the by-story ceiling of noise AUC, by sequence, for some users."""
    facts = ("category", "subcategory", "times_shown", "times_clicked")
    category, subcategory, shown, clicks = (dataset.arrays.array(f"news/{name}") for name in facts)
    stories = {"clicked": np.asarray(dataset.clicked)[users], "skipped": np.asarray(dataset.skipped)[users]}
    opposite = {"clicked": "skipped", "skipped": "clicked"}
    kind = {side: values[users] for side, values in kinds.items()}
    return {
        "personal ceiling": {
            side: personal_scores(own, stories[opposite[side]], kind[side], category, subcategory)
            for side, own in stories.items()
        },
        "story ceiling": {
            side: story_scores(own, kind[side], shown, clicks, category) for side, own in stories.items()
        },
    }


def _summarise(weights: Array, kinds: Array, seed: int) -> dict[str, Any] | None:
    """Return the mean noise AUC, its interval and the number of users with both kinds; None if there are none."""
    by_user = noise_auc_by_user(weights, kinds)
    if not np.isfinite(by_user).any():
        return None
    auc = interval(by_user, np.arange(len(by_user)), np.random.default_rng(seed))
    return {
        "auc": round(auc.mean, 4),
        "interval": [round(auc.low, 4), round(auc.high, 4)],
        "users": int(np.isfinite(by_user).sum()),
    }

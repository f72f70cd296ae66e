"""Measure whether a model's weights find noise: the truth of simulated logs, or the read times of real ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drpn.batches.tables import Tables
from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset
from drpn.errors import ExplainError
from drpn.evaluation.bootstrap import interval, paired
from drpn.evaluation.ceilings import personal_scores, story_scores
from drpn.evaluation.metrics import Floats
from drpn.evaluation.noise import kinds_of_clicked, kinds_of_skipped, noise_auc_by_user, tfidf_rule
from drpn.evaluation.read_times import READ_SECONDS, kinds_of_read, pooled_auc, rank_correlation_by_user
from drpn.explanation.trace import aggregator_weights, require_drpn
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.progress import Progress, Silent

RULE = "tfidf rule"
_READ_TIMES = "users/clicked_read_seconds"

Weights = dict[str, dict[str, Array]]
"""(users, slots) by name of the weights, such as "denoise", and sequence."""


@dataclass(frozen=True)
class ReadClicks:
    """Clicks whose read times are known, and what a model's weights and the TF-IDF rule make of them."""

    seconds: Floats
    """(users, slots); NaN where it is not known."""
    kinds: NDArray[np.int8]
    """(users, slots): 1 for clicks that were read, -1 for shorter ones, 0 for neither."""
    weights: dict[str, Array]
    """(users, slots) by name of the weights."""
    aucs: dict[str, Floats]
    """(users) by name of the weights: whether clicks that were read have larger weights than the user's others."""


def measure_noise(
    model: Drpn,
    tables: Tables,
    dataset: Dataset,
    *,
    seed: int = 0,
    ceilings: bool = True,
    encoded: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any] | None:
    """Return noise AUC with intervals over users, by sequence and kind of weights; None without ground truth.

    Next to the weights of the model are a simple rule and, with `ceilings`, scores of classifiers that know the truth.
    """
    progress = progress or Silent()
    kinds = noise_kinds(dataset)
    if kinds is None:
        return None
    users = _users_with_profile(dataset)
    weights = _all_weights(model, tables, dataset, users, encoded, progress)
    if ceilings:
        with progress.stage("noise ceilings"):
            weights |= noise_ceilings(dataset, users, kinds)
    return {
        side: {
            name: _summarise(by_user, seed)
            for name, by_side in weights.items()
            if side in by_side and np.isfinite(by_user := noise_auc_by_user(by_side[side], kinds[side][users])).any()
        }
        for side in ("clicked", "skipped")
    }


def measure_read_times(
    model: Drpn,
    tables: Tables,
    dataset: Dataset,
    *,
    seed: int = 0,
    encoded: Any = None,
    progress: Progress | None = None,
) -> dict[str, Any] | None:
    """Return how well the weights of clicks predict that they were read, with intervals over users.

    None where `read_clicks` is. Models never read these times.
    """
    clicks = read_clicks(model, tables, dataset, encoded=encoded, progress=progress)
    if clicks is None:
        return None
    known, aucs = clicks.kinds != 0, clicks.aucs
    return {
        "seconds": READ_SECONDS,
        "clicks": int(known.sum()),
        "read": round(float((clicks.kinds[known] > 0).mean()), 4),
        "weights": {
            name: _summarise(aucs[name], seed)
            | {"pooled_auc": round(pooled_auc(values, clicks.kinds), 4)}
            | _summarise(
                rank_correlation_by_user(values, clicks.seconds), seed, "rank_correlation", "rank_correlation_"
            )
            for name, values in clicks.weights.items()
        },
        "differences": [_difference(aucs, first, second, seed) for first, second in compared_weights(tuple(aucs))],
    }


def read_clicks(
    model: Drpn, tables: Tables, dataset: Dataset, *, encoded: Any = None, progress: Progress | None = None
) -> ReadClicks | None:
    """Return the weights of clicks with known read times, and their AUC within each user.

    None without read times, or if nobody has clicks that were read and clicks that were not.
    """
    if _READ_TIMES not in dataset.arrays:
        return None
    users = _users_with_profile(dataset)
    seconds = np.where(dataset.clicked[users] > 0, dataset.arrays.array(_READ_TIMES)[users], np.nan)
    kinds = kinds_of_read(seconds)
    every = _all_weights(model, tables, dataset, users, encoded, progress or Silent())
    weights = {name: by_side["clicked"] for name, by_side in every.items() if "clicked" in by_side}
    aucs = {name: noise_auc_by_user(values, kinds) for name, values in weights.items()}
    return ReadClicks(seconds, kinds, weights, aucs) if np.isfinite(aucs[RULE]).any() else None


def require_evidence(model: ClickModel, dataset: Dataset) -> None:
    """Raise an ExplainError unless the model has weights, and the dataset has the truth or read times."""
    require_drpn(model)
    if noise_kinds(dataset) is None and _READ_TIMES not in dataset.arrays:
        raise ExplainError(
            f"{dataset.path} has neither the truth of simulated logs nor read times of clicks, so nothing tells which "
            "clicks are noise; prepare logs that have the column read_seconds"
        )


def noise_kinds(dataset: Dataset) -> dict[str, Array] | None:
    """Return (users, slots) by sequence: 1 for real feedback, -1 for noise, 0 for neither; None without the truth."""
    if "users/clicked_opinion" not in dataset.arrays:
        return None
    return {
        "clicked": kinds_of_clicked(dataset.arrays.array("users/clicked_opinion")),
        "skipped": kinds_of_skipped(dataset.arrays.array("users/skipped_opinion")),
    }


def noise_ceilings(dataset: Dataset, users: Array, kinds: dict[str, Array]) -> Weights:
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


def _users_with_profile(dataset: Dataset) -> Array:
    return np.flatnonzero((dataset.clicked[:, 0] > 0) | (dataset.skipped[:, 0] > 0))


def _all_weights(
    model: Drpn, tables: Tables, dataset: Dataset, users: Array, encoded: Any, progress: Progress
) -> Weights:
    """Return the weights of every aggregator and of the TF-IDF rule; names without a view are the semantic ones."""
    aggregators = aggregator_weights(model, tables, users, progress, encoded=encoded)
    order = [f"{view} {kind}" for view in ("semantic", "collaborative") for kind in ("denoise", "content")]
    weights: Weights = {name.removeprefix("semantic "): aggregators[name] for name in order if aggregators.get(name)}
    with progress.stage("TF-IDF rule"):
        rule = tfidf_rule(dataset.news_words, dataset.clicked[users], dataset.skipped[users])
    return weights | {RULE: {"clicked": rule.clicked, "skipped": rule.skipped}}


def compared_weights(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return pairs of weights to compare: denoising weights with the content-based ones of their view and the rule."""
    denoise = [name for name in names if name.endswith("denoise")]
    return [pair for name in denoise for pair in ((name, name.replace("denoise", "content")), (name, RULE))]


def _difference(aucs: dict[str, Floats], first: str, second: str, seed: int) -> dict[str, Any]:
    values = aucs[first], aucs[second]
    compared = paired(*values, np.arange(len(values[0])), np.random.default_rng(seed))
    return {
        "weights": first,
        "against": second,
        "difference": round(compared.difference, 4),
        "interval": [round(compared.low, 4), round(compared.high, 4)],
    }


def _summarise(by_user: Floats, seed: int, name: str = "auc", prefix: str = "") -> dict[str, Any]:
    """Return the mean over users, its interval and the number of users who have a value; None if there are none."""
    users = int(np.isfinite(by_user).sum())
    if not users:
        return {name: None, f"{prefix}interval": None, f"{prefix}users": 0}
    measured = interval(by_user, np.arange(len(by_user)), np.random.default_rng(seed))
    return {
        name: round(measured.mean, 4),
        f"{prefix}interval": [round(measured.low, 4), round(measured.high, 4)],
        f"{prefix}users": users,
    }

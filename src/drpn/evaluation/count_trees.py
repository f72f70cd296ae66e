"""LightGBM on the counts of the live protocol: what a practitioner would pick in place of a network.

Lambdarank over the lists. The number of trees is the best on validation; the trees that are measured are then learned
from training and validation together, as `training.refit` does for networks.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.dataset.arrays import Array
from drpn.dataset.folder import Dataset, Impressions, SplitName
from drpn.errors import SettingsError
from drpn.evaluation.metrics import measure
from drpn.layers.context import derive

_TREES, _STEP = 800, 50
"""The largest number of trees, and the step in which numbers are tried."""
_MOST_IMPRESSIONS = 200_000
"""Impressions to learn from, the newest ones."""
_SETTINGS = {
    "objective": "lambdarank",
    "learning_rate": 0.03,
    "num_leaves": 31,
    "min_data_in_leaf": 50,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
    "lambdarank_truncation_level": 30,
    "deterministic": True,
    "force_col_wise": True,
    "verbose": -1,
}


def tree_scores(dataset: Dataset, split: SplitName, *, seed: int = 0, in_view: bool = False) -> NDArray[np.float32]:
    """Return the score of each candidate of a split of the live protocol.

    in_view: also read how each candidate differs from the others of its list, for callers that rank a whole page
    """
    lightgbm = check_trees(dataset)
    train, validation = dataset.impressions("train"), dataset.impressions("validation")
    settings = _SETTINGS | {"seed": seed}
    first = lightgbm.train(settings, _learning_data(lightgbm, dataset, [train], in_view=in_view), _TREES)
    features = _features(dataset, validation, in_view=in_view)
    best = max(
        range(_STEP, _TREES + 1, _STEP),
        key=lambda trees: _auc(first.predict(features, num_iteration=trees), validation),
    )
    again = lightgbm.train(settings, _learning_data(lightgbm, dataset, [train, validation], in_view=in_view), best)
    wanted = _features(dataset, dataset.impressions(split), in_view=in_view)
    scores: NDArray[np.float32] = again.predict(wanted).astype(np.float32)
    return scores


def _learning_data(lightgbm: Any, dataset: Dataset, parts: list[Impressions], *, in_view: bool) -> Any:
    keep = _MOST_IMPRESSIONS
    tables, labels, sizes = [], [], []
    for part in reversed(parts):
        start = max(len(part) - keep, 0)
        first = int(part.offsets[start])
        tables.append(_features(dataset, part, in_view=in_view)[first:])
        labels.append(np.asarray(part.clicked)[first:].astype(np.int32))
        sizes.append(np.diff(part.offsets)[start:])
        keep -= len(part) - start
    return lightgbm.Dataset(np.concatenate(tables), np.concatenate(labels), group=np.concatenate(sizes))


def _features(dataset: Dataset, part: Impressions, *, in_view: bool) -> NDArray[np.float32]:
    """The features that a context view reads, and the codes of the reader's columns; in view, those of the list."""
    arrays, readers = dataset.arrays, np.repeat(part.readers, np.diff(part.offsets))
    pairs = np.asarray(arrays.array("pairs/counts")[part.first_pair : part.first_pair + len(part.candidates)])
    page = np.asarray(arrays.array("readers/page"))[readers]
    features = derive(torch.from_numpy(pairs.astype(np.float32)), torch.from_numpy(page)).numpy()
    lists = _compared_with_list(features, np.asarray(part.offsets)) if in_view else []
    return np.concatenate([features, np.asarray(arrays.array("readers/columns"))[readers], *lists], axis=1)


def _compared_with_list(features: NDArray[np.float32], offsets: NDArray[np.int64]) -> list[NDArray[np.float32]]:
    """How much each feature differs from its mean in the list, its rank there from 0 to 1, and the list's length."""
    sizes = np.diff(offsets)
    which, length = np.repeat(np.arange(len(sizes)), sizes), np.repeat(sizes, sizes)
    sums = np.add.reduceat(features.astype(np.float64), offsets[:-1], axis=0)
    ranks = np.empty_like(features)
    for place, column in enumerate(features.T):
        order = np.lexsort((column, which))
        value, start = column[order], offsets[which]  # sorted within each list, which are in their own order
        first = np.concatenate([[True], (value[1:] != value[:-1]) | (which[1:] != which[:-1])])
        group = np.cumsum(first) - 1  # equal values of a list share the mean of their ranks
        number = np.arange(len(value)) - start
        mean = np.bincount(group, number) / np.bincount(group)
        ranks[order, place] = mean[group] / np.maximum(length - 1, 1)
    return [features - (sums / sizes[:, None])[which].astype(np.float32), ranks, length[:, None].astype(np.float32)]


def _auc(scores: Array, part: Impressions) -> float:
    return measure(scores.astype(np.float32), part.clicked, part.offsets).mean()["auc"]


def check_trees(dataset: Dataset) -> Any:
    """Return the package LightGBM; refuse if it is not installed, or if the folder has no counts to learn from."""
    if not dataset.live:
        raise SettingsError(
            f"{dataset.path} has no counts for trees to learn from; prepare it with data.protocol=live",
            hint="run: drpn prepare LOGS --out FOLDER --protocol live",
        )
    try:
        import lightgbm
    except ImportError as error:
        raise SettingsError("LightGBM is not installed; run: pip install 'drpn[trees]'") from error
    return lightgbm

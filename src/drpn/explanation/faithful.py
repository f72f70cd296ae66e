"""Measure whether the stories that a model trusts most move its scores most."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from drpn.batches.batch import RowBatch
from drpn.batches.ranking import ranking_batches
from drpn.batches.tables import Tables
from drpn.dataset.arrays import Strings
from drpn.dataset.folder import Impressions
from drpn.explanation.trace import main_aggregator, profile_weights, require_drpn
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.models.encode import encode_all
from drpn.progress import Progress, Silent

CANDIDATES_AT_ONCE = 8_192

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Faithfulness:
    """The mean score change when one story is removed from the profile, averaged over users; NaN without users.

    The score change of an impression is the mean absolute change of its candidates' scores, after subtracting their
    mean change, which does not affect the ranking.
    """

    users: int
    side: str
    """The sequence from which a story is removed: "clicked", or "skipped" if the model reads nothing else."""
    most: float
    """Without the most trusted story."""
    random: float
    """Without a random story."""
    least: float
    """Without the least trusted story."""
    spread: float
    """For scale: the mean absolute deviation of scores from the mean of their impression."""
    most_less_random: Floats
    """(users): the change without the most trusted story minus that without a random one, for a confidence interval."""


@torch.no_grad()
def faithfulness(
    model: ClickModel,
    tables: Tables,
    impressions: Impressions,
    rng: np.random.Generator,
    *,
    users: int = 2_000,
    encoded: Any = None,
    progress: Progress | None = None,
) -> Faithfulness:
    """Measure faithfulness on the impressions of at most `users` random users with two or more stories to remove.

    The most trusted story has the largest weight in the semantic denoising aggregator, or in the content-based one if
    the model does not denoise. `encoded` are all stories, if they are encoded already.
    """
    model, progress = require_drpn(model).eval(), progress or Silent()
    side = next(iter(model.semantic.sides))
    sequences = getattr(tables, side)
    sampled = _sample_users(impressions, (sequences != 0).sum(1).cpu().numpy(), rng, users)
    if not len(sampled):
        nan = float("nan")
        return Faithfulness(0, side, nan, nan, nan, nan, np.zeros(0))
    if encoded is None:
        with progress.stage("encoding stories"):
            encoded = encode_all(model, tables.news)
    weights = profile_weights(model, tables, sampled, main_aggregator(model), encoded=encoded)[side]
    real = (sequences[torch.from_numpy(sampled).to(sequences.device)] != 0).cpu().numpy()
    slots = {
        "most": np.where(real, weights, -1).argmax(axis=1),
        "random": rng.integers(real.sum(axis=1)),  # padding is at the end
        "least": np.where(real, weights, 2).argmin(axis=1),
    }
    compared = _impressions_of(impressions, sampled)
    scores = _scores(model, tables, compared, encoded, side, sampled, slots, progress)
    full = scores.pop("full")
    changes = {name: _deviation_by_user(reduced - full, compared, sampled) for name, reduced in scores.items()}
    return Faithfulness(
        users=len(sampled),
        side=side,
        **{name: float(values.mean()) for name, values in changes.items()},
        spread=float(_deviation_by_user(full, compared, sampled).mean()),
        most_less_random=changes["most"] - changes["random"],
    )


def _sample_users(impressions: Impressions, lengths: Ints, rng: np.random.Generator, count: int) -> Ints:
    """Return the sorted rows of at most `count` users with two stories and an impression with two candidates."""
    ranked = np.unique(np.asarray(impressions.users)[np.diff(impressions.offsets) >= 2]).astype(np.int64)
    eligible = ranked[lengths[ranked] >= 2]
    return np.sort(rng.choice(eligible, min(count, len(eligible)), replace=False))


def _impressions_of(impressions: Impressions, users: Ints) -> Impressions:
    """Return the users' impressions with two or more candidates."""
    sizes = np.diff(impressions.offsets)
    selected = np.isin(impressions.users, users) & (sizes >= 2)
    shown = np.repeat(selected, sizes)
    return Impressions(
        ids=Strings.of(impressions.ids[int(row)] for row in np.flatnonzero(selected)),
        users=np.asarray(impressions.users)[selected],
        times=np.asarray(impressions.times)[selected],
        offsets=np.concatenate([[0], np.cumsum(sizes[selected])]),
        candidates=np.asarray(impressions.candidates)[shown],
        clicked=np.asarray(impressions.clicked)[shown],
        extras={},
    )


def _scores(
    model: Drpn,
    tables: Tables,
    impressions: Impressions,
    encoded: Any,
    side: str,
    users: Ints,
    slots: dict[str, Ints],
    progress: Progress,
) -> dict[str, Floats]:
    """Return each candidate's score from the full profile, and without the story in the user's slot of each name."""
    scores = {name: np.zeros(len(impressions.candidates)) for name in ("full", *slots)}
    with progress.stage("scoring without single stories", len(impressions)) as advance:
        for batch, places, owners in ranking_batches(impressions, tables, candidates=CANDIDATES_AT_ONCE):
            real = places >= 0
            real_places = places[real].cpu().numpy()
            positions = np.searchsorted(users, owners.cpu().numpy())
            for name in scores:
                reduced = batch if name == "full" else _remove(batch, side, torch.from_numpy(slots[name][positions]))
                # what does not depend on the profile, such as counts, would not change
                parts = reduced.of_all_stories()
                readers = model.read(encoded, parts.profiles)
                batch_scores = model.match(encoded, readers, parts.candidates, parts.context)[real]
                scores[name][real_places] = batch_scores.double().cpu().numpy()
            advance(len(batch))
    return scores


def _remove(batch: RowBatch, side: str, slot: torch.Tensor) -> RowBatch:
    """Replace one story of each user's sequence, the one in their slot, by padding."""
    sequences = getattr(batch.profiles, side).clone()
    sequences[torch.arange(len(sequences)), slot] = 0
    return replace(batch, profiles=replace(batch.profiles, **{side: sequences}))


def _deviation_by_user(values: Floats, impressions: Impressions, users: Ints) -> Floats:
    """Return each user's mean absolute deviation of values from the mean of their impression."""
    sizes = np.diff(impressions.offsets)
    starts = impressions.offsets[:-1]
    means = np.add.reduceat(values, starts) / sizes
    deviations = np.add.reduceat(np.abs(values - np.repeat(means, sizes)), starts) / sizes
    positions = np.searchsorted(users, impressions.users)
    sums = np.bincount(positions, deviations, minlength=len(users))
    by_user: Floats = sums / np.bincount(positions, minlength=len(users))
    return by_user

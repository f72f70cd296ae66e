"""Whether what is shown as trusted really moves the scores."""

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
from drpn.explain.trace import main_aggregator, profile_weights, require_drpn
from drpn.models.base import ClickModel
from drpn.models.drpn import Drpn
from drpn.models.encode import encode_all
from drpn.progress import Progress, Silent

CANDIDATES_AT_ONCE = 8_192

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Faithfulness:
    """How far scores move when one news of the profile is left out: means over users, NaN where there is none.

    The move of an impression is the mean absolute change of its candidates' scores, less the change they share, which
    ranks nothing anew.
    """

    users: int
    side: str
    """The sequence that a news was left out of: "clicked", or "skipped" in a model that reads nothing else."""
    most: float
    """Without the most trusted news."""
    random: float
    """Without any one, drawn at random."""
    least: float
    """Without the least trusted news."""
    spread: float
    """For comparison: how far scores lie from the mean of their impression, absolutely and on the mean."""
    most_less_random: Floats
    """(users): the first mean less the second for each user, to draw an interval from."""


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
    """Measured on the impressions of so many users, drawn from those who have two news to leave out or more.

    The most trusted news is the one of the largest weight in the semantic denoising aggregator, or in the content-based
    one of a model without denoising.
    """
    model, progress = require_drpn(model).eval(), progress or Silent()
    side = next(iter(model.semantic.sides))
    sequences = getattr(tables, side)
    chosen = _draw_users(impressions, (sequences != 0).sum(1).cpu().numpy(), rng, users)
    if not len(chosen):
        nothing = float("nan")
        return Faithfulness(0, side, nothing, nothing, nothing, nothing, np.zeros(0))
    if encoded is None:
        with progress.stage("encoding news"):
            encoded = encode_all(model, tables.news)
    weights = profile_weights(model, tables, chosen, main_aggregator(model), encoded=encoded)[side]
    real = (sequences[torch.from_numpy(chosen).to(sequences.device)] != 0).cpu().numpy()
    slots = {
        "most": np.where(real, weights, -1).argmax(axis=1),
        "random": rng.integers(real.sum(axis=1)),  # padding stands at the end
        "least": np.where(real, weights, 2).argmin(axis=1),
    }
    kept = _of_users(impressions, chosen)
    scores = _scores(model, tables, kept, encoded, side, chosen, slots, progress)
    whole = scores.pop("whole")
    moves = {name: _by_user(without - whole, kept, chosen) for name, without in scores.items()}
    return Faithfulness(
        users=len(chosen),
        side=side,
        **{name: float(values.mean()) for name, values in moves.items()},
        spread=float(_by_user(whole, kept, chosen).mean()),
        most_less_random=moves["most"] - moves["random"],
    )


def _draw_users(impressions: Impressions, lengths: Ints, rng: np.random.Generator, most: int) -> Ints:
    """Users, by row, of an impression with candidates to compare and of a profile with news to compare."""
    comparing = np.unique(np.asarray(impressions.users)[np.diff(impressions.offsets) >= 2]).astype(np.int64)
    eligible = comparing[lengths[comparing] >= 2]
    return np.sort(rng.choice(eligible, min(most, len(eligible)), replace=False))


def _of_users(impressions: Impressions, users: Ints) -> Impressions:
    """The impressions of some users that have candidates to compare."""
    sizes = np.diff(impressions.offsets)
    keep = np.isin(impressions.users, users) & (sizes >= 2)
    shown = np.repeat(keep, sizes)
    return Impressions(
        ids=Strings.of(impressions.ids[int(row)] for row in np.flatnonzero(keep)),
        users=np.asarray(impressions.users)[keep],
        times=np.asarray(impressions.times)[keep],
        offsets=np.concatenate([[0], np.cumsum(sizes[keep])]),
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
    """The score of each candidate from the whole profile, and without the news at a slot of the user's sequence."""
    found = {name: np.zeros(len(impressions.candidates)) for name in ("whole", *slots)}
    with progress.stage("leaving news out", len(impressions)) as advance:
        for batch, places, owners in ranking_batches(impressions, tables, candidates=CANDIDATES_AT_ONCE):
            real = places >= 0
            at = places[real].cpu().numpy()
            who = np.searchsorted(users, owners.cpu().numpy())
            for name in found:
                some = batch if name == "whole" else _without(batch, side, torch.from_numpy(slots[name][who]))
                found[name][at] = model.score(encoded, some.of_all_stories())[real].double().cpu().numpy()
            advance(len(batch))
    return found


def _without(batch: RowBatch, side: str, slot: torch.Tensor) -> RowBatch:
    sequences = getattr(batch.profiles, side).clone()
    sequences[torch.arange(len(sequences)), slot] = 0
    return replace(batch, profiles=replace(batch.profiles, **{side: sequences}))


def _by_user(values: Floats, impressions: Impressions, users: Ints) -> Floats:
    """(users): the mean absolute distance of values from the mean of their impression."""
    sizes = np.diff(impressions.offsets)
    starts = impressions.offsets[:-1]
    means = np.add.reduceat(values, starts) / sizes
    distance = np.add.reduceat(np.abs(values - np.repeat(means, sizes)), starts) / sizes
    who = np.searchsorted(users, impressions.users)
    mean: Floats = np.bincount(who, distance, minlength=len(users)) / np.bincount(who, minlength=len(users))
    return mean

"""The loss of planted feedback, the choice of what it trains, and of where planted clicks come from."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from drpn.batches.planted import Pairs, Planted, clicks_per_profile, swappable_profiles
from drpn.batches.tables import Tables
from drpn.errors import TrainingError
from drpn.layers.linear import at_least_float32
from drpn.models.base import ClickModel, Trust
from drpn.training.settings import PlantedFrom, PlantedPart, TrainingSettings

_LONG_PROFILES = 8.0
"""Clicks of an average profile from which planted feedback trains vectors (docs/denoising.md)."""
_ENOUGH = 0.5
"""Share of the profiles that have enough skips, from which their clicks trade places with skips."""


def trained_part(settings: TrainingSettings, tables: Tables, model: ClickModel) -> PlantedPart:
    """What planted feedback trains: the setting or, if that is auto, what suits profiles, stories and model."""
    if settings.planted_trains == "labels" and not _labels_differ(tables):
        raise TrainingError(
            "training.planted_trains is 'labels', but the stories have fewer than two categories; choose weights or "
            "vectors"
        )
    if settings.planted_trains != "auto":
        return settings.planted_trains
    if clicks_per_profile(tables) >= _LONG_PROFILES:
        return "vectors"
    return "labels" if model.compares_labels and _labels_differ(tables) else "weights"


def planted_from(settings: TrainingSettings, tables: Tables, model: ClickModel) -> PlantedFrom:
    """Where planted clicks come from: the setting or, if that is auto, what suits profiles, stories and model."""
    if settings.planted_from != "auto":
        return settings.planted_from
    if "clicked" not in model.reads:
        return "skips"  # the other rule needs more of them
    if swappable_profiles(tables, share=settings.planted_share, skips=settings.planted_skips) < _ENOUGH:
        return "others"
    alone = trained_part(settings, tables, model) == "labels"
    return "others" if model.compares_labels and _labels_differ(tables) and not alone else "skips"


def _labels_differ(tables: Tables) -> bool:
    """Whether the stories have two or more categories, or two or more subcategories."""
    columns = (tables.news.category, tables.news.subcategory)
    return any(len(torch.unique(column[column != 0])) > 1 for column in columns)


def planted_loss(trust: Trust, planted: Planted) -> Float[Tensor, ""]:
    """Return the sum of `ranking_loss` over the views and sequences of `trust`."""
    losses = [
        ranking_loss(logits, planted.pairs[sequence], planted.weight)
        for by_sequence in trust.values()
        for sequence, logits in by_sequence.items()
    ]
    return torch.stack(losses).sum()


def ranking_loss(logits: Float[Tensor, "B S"], pairs: Pairs, weight: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    """Return the mean of softplus(t_noise - t_real) over all pairs of a batch, with t the logits; 0 without pairs.

    If the weights of a profile are the softmax of its logits, this is softplus(log w_noise - log w_real). Each pair
    counts as much as its profile's `weight`.
    """
    both = (pairs.noise.unsqueeze(2) & pairs.real.unsqueeze(1)) * weight[:, None, None]  # (B S S)
    logits = at_least_float32(logits)
    gap = logits.unsqueeze(2) - logits.unsqueeze(1)
    return (softplus(gap) * both).sum() / both.sum().clamp(min=1e-6)

"""The loss of planted feedback: denoising weights must rank noise below real feedback, and tell how likely it is."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from drpn.batches.planted import Pairs, Planted
from drpn.layers.linear import at_least_float32

ByView = Mapping[str, Mapping[str, Float[Tensor, "B S"]]]
"""A number for each story, by view and sequence."""


def planted_loss(trust: ByView, planted: Planted, calibrated: ByView | None = None) -> Float[Tensor, ""]:
    """Return the sum over views and sequences of the ranking loss of `trust` and the log loss of `calibrated`."""
    losses = [
        loss(values, planted.pairs[sequence], planted.weight)
        for loss, by_view in ((ranking_loss, trust), (calibration_loss, calibrated or {}))
        for by_sequence in by_view.values()
        for sequence, values in by_sequence.items()
    ]
    return torch.stack(losses).sum()


def ranking_loss(logits: Float[Tensor, "B S"], pairs: Pairs, weight: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    """Return the mean of softplus(log w_noise - log w_real) over all pairs of a batch; 0 without pairs.

    If the weights of a profile are the softmax of its logits, their logarithms differ by as much as the logits. Each
    pair counts as much as its profile's `weight`.
    """
    both = (pairs.noise.unsqueeze(2) & pairs.real.unsqueeze(1)) * weight[:, None, None]  # (B S S)
    logits = at_least_float32(logits)
    gap = logits.unsqueeze(2) - logits.unsqueeze(1)
    return (softplus(gap) * both).sum() / both.sum().clamp(min=1e-6)


def calibration_loss(logits: Float[Tensor, "B S"], pairs: Pairs, weight: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    """Return the mean log loss of telling noise from real feedback over all stories to rank; 0 without any."""
    noise, real = pairs.noise * weight[:, None], pairs.real * weight[:, None]  # (B S)
    loss = softplus(logits) * noise + softplus(-logits) * real
    return loss.sum() / (noise.sum() + real.sum()).clamp(min=1e-6)

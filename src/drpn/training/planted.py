"""The loss of planted feedback: noise must be trusted less than real feedback, and its probability must be right."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from drpn.batches.planted import Pairs, Planted
from drpn.layers.linear import at_least_float32

_CALIBRATION = 0.001
"""Weight of the log loss, which trains the calibration alone. Adam's steps do not depend on it, but where the gradient
of all weights is clipped, a large gradient of the calibration would leave little of the others."""
ByView = Mapping[str, Mapping[str, Float[Tensor, "B S"]]]
"""A number for each story, by view and sequence."""


def planted_loss(trust: ByView, planted: Planted, calibrated: ByView | None = None) -> Float[Tensor, ""]:
    """Return the sum over views and sequences of the ranking loss of `trust` and, with a small weight, of the log loss
    of `calibrated`."""
    losses = [
        share * loss(values, planted.pairs[sequence], planted.weight)
        for share, loss, by_view in ((1.0, ranking_loss, trust), (_CALIBRATION, calibration_loss, calibrated or {}))
        for by_sequence in by_view.values()
        for sequence, values in by_sequence.items()
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


def calibration_loss(logits: Float[Tensor, "B S"], pairs: Pairs, weight: Float[Tensor, "B"]) -> Float[Tensor, ""]:
    """Return the mean log loss of telling noise from real feedback over all stories to rank; 0 without any."""
    noise, real = pairs.noise * weight[:, None], pairs.real * weight[:, None]  # (B S)
    loss = softplus(logits) * noise + softplus(-logits) * real
    return loss.sum() / (noise.sum() + real.sum()).clamp(min=1e-6)
